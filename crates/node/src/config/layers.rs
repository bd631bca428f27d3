//! Where a setting may come from, and who wins: flag, then environment, then file, then default.

use std::collections::BTreeMap;

use super::error::{ConfigError, Refusal};

/// A setting that has a flag and a variable of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// Where S3 clients are served.
    Listen,
    /// Where the admin endpoints are served.
    AdminListen,
    /// A directory for blocks; may repeat.
    CacheDir,
    /// The limit of each directory.
    Capacity,
    /// The origin of the buckets named by [`Knob::Bucket`].
    Origin,
    /// A bucket of [`Knob::Origin`]; may repeat.
    Bucket,
    /// The region of [`Knob::Origin`].
    Region,
    /// The freshness of [`Knob::Bucket`].
    Freshness,
    /// Whether requests to [`Knob::Origin`] are left unsigned.
    AnonymousOrigin,
    /// Who may ask.
    Auth,
    /// How long requests in flight may take after SIGTERM.
    DrainSeconds,
    /// How log lines look.
    LogFormat,
    /// The file of the cluster's secret.
    SecretFile,
    /// The control port of a voter; may repeat.
    Voters,
    /// Where other workers are served.
    DataListen,
    /// What other workers are told to call.
    DataAdvertise,
    /// What clients that follow the ring are told to call.
    S3Advertise,
    /// The failure domain.
    Zone,
    /// The voter's number.
    MetaId,
    /// The voter's directory.
    MetaDir,
    /// The voter's control port.
    MetaListen,
    /// What workers and other voters are told to call.
    MetaAdvertise,
    /// A voter that the group is formed of; may repeat.
    InitialVoters,
}

impl Knob {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::Listen,
        Self::AdminListen,
        Self::CacheDir,
        Self::Capacity,
        Self::Origin,
        Self::Bucket,
        Self::Region,
        Self::Freshness,
        Self::AnonymousOrigin,
        Self::Auth,
        Self::DrainSeconds,
        Self::LogFormat,
        Self::SecretFile,
        Self::Voters,
        Self::DataListen,
        Self::DataAdvertise,
        Self::S3Advertise,
        Self::Zone,
        Self::MetaId,
        Self::MetaDir,
        Self::MetaListen,
        Self::MetaAdvertise,
        Self::InitialVoters,
    ];

    /// The flag. The variable is derived from it.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Listen => "--listen",
            Self::AdminListen => "--admin-listen",
            Self::CacheDir => "--cache-dir",
            Self::Capacity => "--capacity",
            Self::Origin => "--origin",
            Self::Bucket => "--bucket",
            Self::Region => "--region",
            Self::Freshness => "--freshness",
            Self::AnonymousOrigin => "--anonymous-origin",
            Self::Auth => "--auth",
            Self::DrainSeconds => "--drain-seconds",
            Self::LogFormat => "--log-format",
            Self::SecretFile => "--secret-file",
            Self::Voters => "--voters",
            Self::DataListen => "--data-listen",
            Self::DataAdvertise => "--data-advertise",
            Self::S3Advertise => "--s3-advertise",
            Self::Zone => "--zone",
            Self::MetaId => "--meta-id",
            Self::MetaDir => "--meta-dir",
            Self::MetaListen => "--meta-listen",
            Self::MetaAdvertise => "--meta-advertise",
            Self::InitialVoters => "--initial-voters",
        }
    }

    /// The variable: `--cache-dir` is `FOREBAY_CACHE_DIR`.
    ///
    /// Unknown variables of that prefix are not refused, and none is called `FOREBAY_PORT`:
    /// Kubernetes gives every pod beside a service `forebay` variables such as
    /// `FOREBAY_PORT=tcp://10.0.0.1:9000`.
    pub fn variable(self) -> String {
        let name = self.flag().trim_start_matches('-').replace('-', "_");
        format!("FOREBAY_{}", name.to_ascii_uppercase())
    }
}

/// What was given on the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags(BTreeMap<Knob, Vec<String>>);

impl Flags {
    /// Adds what was given for `knob`; nothing where nothing was.
    #[must_use]
    pub fn with(mut self, knob: Knob, values: impl IntoIterator<Item = String>) -> Self {
        self.0.entry(knob).or_default().extend(values);
        self
    }
}

/// The environment as it was at start.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process; what is not UTF-8 is left out.
    pub fn of_process() -> Self {
        let text = |value: std::ffi::OsString| value.into_string().ok();
        std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
    }

    /// A variable. One that is set but empty counts as not set, as in the AWS tools.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The environment without the variables of knobs: for what they must not change.
    pub(super) fn without_knobs(&self) -> Self {
        let knobs = Knob::ALL.map(Knob::variable);
        let others = self.0.iter().filter(|(name, _)| !knobs.contains(name));
        others.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(vars: I) -> Self {
        Self(vars.into_iter().collect())
    }
}

/// A value with the place it was given at.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) at: String,
    pub(super) value: String,
}

impl Setting {
    pub(super) fn new(at: impl Into<String>, value: impl Into<String>) -> Self {
        Self { at: at.into(), value: value.into() }
    }

    /// Gives the value its meaning, or the refusal its place.
    pub(super) fn parse<T>(
        &self,
        meaning: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Result<T, ConfigError> {
        meaning(&self.value).map_err(|Refusal { reason, fix }| ConfigError::Value {
            at: self.at.clone(),
            value: self.value.clone(),
            reason,
            fix,
        })
    }
}

/// Flags over environment; the file's value is handed in where it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layers<'a> {
    pub(super) flags: &'a Flags,
    pub(super) env: &'a Environment,
    pub(super) secrets: Secrets,
}

/// Where the files and variables are that hold secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// On this machine: read, and asked for where they are missing.
    Here,
    /// On the workers, which are other machines: not looked for.
    Elsewhere,
}

impl Layers<'_> {
    /// What was given for `knob` on the command line, else in the environment, where commas
    /// separate several.
    pub(super) fn all(self, knob: Knob) -> Vec<Setting> {
        if let Some(values) = self.flags.0.get(&knob).filter(|values| !values.is_empty()) {
            return values.iter().map(|value| Setting::new(knob.flag(), value)).collect();
        }
        let variable = knob.variable();
        let values = self.env.var(&variable).into_iter().flat_map(|value| value.split(','));
        values.map(|value| Setting::new(&variable, value.trim())).collect()
    }

    /// As [`Layers::all`] for a knob that has one value; the last one given wins.
    pub(super) fn one(self, knob: Knob) -> Option<Setting> {
        self.all(knob).pop()
    }

    /// As [`Layers::one`], else what the file says at `key`.
    pub(super) fn or_file(
        self,
        knob: Knob,
        key: &str,
        file: Option<impl ToString>,
    ) -> Option<Setting> {
        self.one(knob).or_else(|| file.map(|value| Setting::new(key, value.to_string())))
    }

    /// As [`Layers::all`], else the list that the file has at `key`.
    pub(super) fn all_or_file(self, knob: Knob, key: &str, file: Vec<String>) -> Vec<Setting> {
        let given = self.all(knob);
        if !given.is_empty() {
            return given;
        }
        let numbered = file.into_iter().enumerate();
        numbered.map(|(index, value)| Setting::new(format!("{key}[{index}]"), value)).collect()
    }

    /// Whether any of `knobs` was given.
    pub(super) fn any(self, knobs: &[Knob]) -> bool {
        knobs.iter().any(|knob| self.one(*knob).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let env: Environment = [("FOREBAY_LISTEN".into(), "env".into())].into_iter().collect();
        let flags = Flags::default().with(Knob::Listen, ["flag".to_owned()]);
        let at = |flags: &Flags, env: &Environment| {
            let layers = Layers { flags, env, secrets: Secrets::Here };
            layers.or_file(Knob::Listen, "worker.listen", Some("file")).unwrap().at
        };
        assert_eq!(at(&flags, &env), "--listen");
        assert_eq!(at(&Flags::default(), &env), "FOREBAY_LISTEN");
        assert_eq!(at(&Flags::default(), &Environment::default()), "worker.listen");
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let env: Environment = [("FOREBAY_BUCKET".into(), String::new())].into_iter().collect();
        let layers = Layers { flags: &Flags::default(), env: &env, secrets: Secrets::Here };
        assert!(layers.all(Knob::Bucket).is_empty());
    }
}
