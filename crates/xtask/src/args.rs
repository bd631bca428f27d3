//! The command line: which job, with what. Knows words, runs nothing.

pub(crate) const USAGE: &str = "\
Usage: cargo xtask <JOB>

  demo [ARGS...]          build, then run `forebay demo ARGS`
  test [--long] [FILTER]  every check: fmt, clippy, dependency guards, tests, client suite,
                          ship suite; with FILTER only the Rust tests whose names contain it
  check                   the quick part: fmt, clippy, architecture test
  clients [--all] [ARGS]  ten S3 clients through a worker, with --all torch loaders, tables and
                          others too (8.5 GB to install); ARGS go to pytest
  ship [ARGS]             chart, dashboard, alerts, image and documents; ARGS go to pytest
  differential ARGS       ceph/s3-tests direct against Ceph RGW and through a worker; ARGS are
                          `--s3-tests CHECKOUT` and what tests/differential/README.md says
  help                    this text

The first run installs or builds what is missing (libclang, RocksDB: about ten minutes on two
cores) and keeps it in $FOREBAY_CACHE, else $XDG_CACHE_HOME/forebay, else ~/.cache/forebay.
ROCKSDB_COMPILE=1 lets cargo compile RocksDB itself; ROCKSDB_LIB_DIR, ROCKSDB_STATIC,
LIBCLANG_PATH and BINDGEN_EXTRA_CLANG_ARGS are taken from the shell where it sets them.";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Demo { args: Vec<String> },
    Test { scope: Scope },
    Check,
    Clients { clients: Clients, pytest_args: Vec<String> },
    Ship { pytest_args: Vec<String> },
    Differential { args: Vec<String> },
    Help,
}

/// Which Python clients the suite runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    /// Those that the README promises.
    Promised,
    /// And loaders and clients of other SDKs, which with torch cost 8.5 GB to install.
    All,
}

/// How much `test` runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Also the tests marked `#[ignore]`, and large sizes in the others.
    pub long: bool,
    /// Only Rust tests whose names contain this.
    pub filter: Option<String>,
}

impl Job {
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut words = words.into_iter();
        let Some(job) = words.next() else { return Err("which job?".to_owned()) };
        let rest: Vec<String> = words.collect();
        match job.as_str() {
            "demo" => Ok(Self::Demo { args: rest }),
            "clients" => Ok(Self::clients(rest)),
            "ship" => Ok(Self::Ship { pytest_args: rest }),
            "differential" => Ok(Self::Differential { args: rest }),
            "test" => Scope::parse(rest).map(|scope| Self::Test { scope }),
            "check" => no_arguments("check", &rest).map(|()| Self::Check),
            "help" | "--help" | "-h" => Ok(Self::Help),
            other => Err(format!("there is no job `{other}`")),
        }
    }

    fn clients(mut words: Vec<String>) -> Self {
        let all = words.first().is_some_and(|word| word == "--all");
        let pytest_args = words.split_off(usize::from(all));
        let clients = if all { Clients::All } else { Clients::Promised };
        Self::Clients { clients, pytest_args }
    }
}

impl Scope {
    fn parse(words: Vec<String>) -> Result<Self, String> {
        let mut scope = Self::default();
        for word in words {
            match word.as_str() {
                "--long" => scope.long = true,
                flag if flag.starts_with('-') => {
                    return Err(format!("`test` has no flag `{flag}`"));
                }
                _ if scope.filter.is_none() => scope.filter = Some(word),
                _ => return Err(format!("`test` takes one filter, `{word}` is a second")),
            }
        }
        Ok(scope)
    }
}

fn no_arguments(job: &str, rest: &[String]) -> Result<(), String> {
    match rest.first() {
        None => Ok(()),
        Some(word) => Err(format!("`{job}` takes no arguments, got `{word}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Job, String> {
        Job::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn everything_after_demo_or_differential_belongs_to_it() {
        let args = vec!["--json".to_owned(), "--keep".to_owned()];
        assert_eq!(parse("demo --json --keep"), Ok(Job::Demo { args }));
        let args = vec!["--s3-tests".to_owned(), "x".to_owned()];
        assert_eq!(parse("differential --s3-tests x"), Ok(Job::Differential { args }));
    }

    #[test]
    fn all_clients_are_asked_for_first_and_the_rest_is_for_pytest() {
        let job = |clients, args: &[&str]| {
            let pytest_args = args.iter().map(|&arg| arg.to_owned()).collect();
            Ok(Job::Clients { clients, pytest_args })
        };
        assert_eq!(parse("clients --all -x"), job(Clients::All, &["-x"]));
        assert_eq!(parse("clients -k range"), job(Clients::Promised, &["-k", "range"]));
        assert_eq!(parse("clients"), job(Clients::Promised, &[]));
        assert_eq!(parse("ship -x"), Ok(Job::Ship { pytest_args: vec!["-x".to_owned()] }));
    }

    #[test]
    fn test_takes_long_and_one_filter_in_any_order() {
        let scope = || Scope { long: true, filter: Some("kill".to_owned()) };
        assert_eq!(parse("test --long kill"), Ok(Job::Test { scope: scope() }));
        assert_eq!(parse("test kill --long"), Ok(Job::Test { scope: scope() }));
        assert_eq!(parse("test"), Ok(Job::Test { scope: Scope::default() }));
    }

    #[test]
    fn a_wrong_word_is_named_in_the_complaint() {
        for (line, named) in [
            ("tset", "tset"),
            ("test --lnog", "--lnog"),
            ("test one two", "two"),
            ("check now", "now"),
        ] {
            let complaint = parse(line).expect_err(line);
            assert!(complaint.contains(named), "{line}: {complaint}");
        }
        assert!(parse("").is_err());
    }
}
