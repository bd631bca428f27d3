//! Who Forebay is at the origin of a bucket: one of four kinds, each with settings of its own.

use forebay_origin::WebIdentity;

use super::error::{ConfigError, Refusal, missing};
use super::layers::{Layers, Setting};
use super::raw::RawBucket;
use super::secret_file::{check_token, secret_at};
use super::{OriginIdentity, address};

/// What the owner of a role sees us called.
const DEFAULT_SESSION_NAME: &str = "forebay";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Chain,
    Anonymous,
    Static,
    WebIdentity,
}

/// Takes from `raw` what it says of credentials.
pub(super) fn resolve(
    raw: &mut RawBucket,
    at: &str,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<OriginIdentity, ConfigError> {
    let kind = kind(raw, at)?;
    refuse_strays(raw, kind, at)?;
    match kind {
        Kind::Chain => Ok(OriginIdentity::Chain),
        Kind::Anonymous => Ok(OriginIdentity::Anonymous),
        Kind::Static => fixed_key(raw, at, layers, warnings),
        Kind::WebIdentity => web_identity(raw, at, layers).map(OriginIdentity::WebIdentity),
    }
}

/// The kind that is named, else the one whose first setting is given.
fn kind(raw: &mut RawBucket, at: &str) -> Result<Kind, ConfigError> {
    match raw.credentials.take() {
        Some(given) => Setting::new(format!("{at}.credentials"), given).parse(Kind::parse),
        None if raw.access_key_id.is_some() => Ok(Kind::Static),
        None if raw.role_arn.is_some() => Ok(Kind::WebIdentity),
        None => Ok(Kind::Chain),
    }
}

impl Kind {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let all = [Self::Chain, Self::Anonymous, Self::Static, Self::WebIdentity];
        all.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let fix = "use \"default\", \"anonymous\", \"static\" or \"web-identity\"";
            Refusal::new("no such source", fix)
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Chain => "default",
            Self::Anonymous => "anonymous",
            Self::Static => "static",
            Self::WebIdentity => "web-identity",
        }
    }
}

/// Refuses settings of another kind: whoever wrote them expects them to count.
fn refuse_strays(raw: &RawBucket, kind: Kind, at: &str) -> Result<(), ConfigError> {
    let given = [
        ("access_key_id", Kind::Static, raw.access_key_id.is_some()),
        ("secret_key_file", Kind::Static, raw.secret_key_file.is_some()),
        ("role_arn", Kind::WebIdentity, raw.role_arn.is_some()),
        ("web_identity_token_file", Kind::WebIdentity, raw.web_identity_token_file.is_some()),
        ("role_session_name", Kind::WebIdentity, raw.role_session_name.is_some()),
        ("sts_endpoint", Kind::WebIdentity, raw.sts_endpoint.is_some()),
    ];
    let stray = given.iter().find(|(_, owner, is_given)| *is_given && *owner != kind);
    stray.map_or(Ok(()), |(key, owner, _)| {
        Err(ConfigError::Conflict {
            at: format!("{at}.credentials"),
            reason: format!("{:?} takes no {key}", kind.as_str()),
            fix: format!("leave it out, or write credentials = {:?}", owner.as_str()),
        })
    })
}

fn fixed_key(
    raw: &mut RawBucket,
    at: &str,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<OriginIdentity, ConfigError> {
    let access_key_id = raw.access_key_id.take().ok_or_else(|| {
        missing(format!("{at}.access_key_id"), "write the origin's access key id")
    })?;
    let path = raw.secret_key_file.take().ok_or_else(|| {
        let fix = "name the file that holds the origin's secret key";
        missing(format!("{at}.secret_key_file"), fix)
    })?;
    let secret = secret_at(&path, &format!("{at}.secret_key_file"), layers, warnings)?;
    Ok(OriginIdentity::Static { access_key_id, secret })
}

fn web_identity(
    raw: &mut RawBucket,
    at: &str,
    layers: Layers<'_>,
) -> Result<WebIdentity, ConfigError> {
    let setting = |key: &str, value: Option<String>| {
        value.map(|value| Setting::new(format!("{at}.{key}"), value))
    };
    let role = setting("role_arn", raw.role_arn.take()).ok_or_else(|| {
        missing(format!("{at}.role_arn"), "write the ARN of the role that the token is good for")
    })?;
    let token_at = format!("{at}.web_identity_token_file");
    let token_file = raw
        .web_identity_token_file
        .take()
        .ok_or_else(|| missing(&token_at, "name the file that the token's issuer writes it to"))?;
    let session = setting("role_session_name", raw.role_session_name.take());
    let sts = setting("sts_endpoint", raw.sts_endpoint.take());
    let identity = WebIdentity {
        role_arn: role.parse(role_arn)?,
        session_name: session.map_or(Ok(DEFAULT_SESSION_NAME.into()), |s| s.parse(session_name))?,
        sts_endpoint: sts.map(|sts| sts.parse(sts_endpoint)).transpose()?,
        token_file,
    };
    check_token(&identity.token_file, &token_at, layers)?;
    Ok(identity)
}

/// What STS takes, and no more than that: servers other than AWS have ARNs of their own.
fn role_arn(text: &str) -> Result<String, Refusal> {
    let fits = (20..=2048).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if !text.starts_with("arn:") || !fits {
        let fix = "write it as in \"arn:aws:iam::123456789012:role/reader\"";
        return Err(Refusal::new("no role has that ARN", fix));
    }
    Ok(text.into())
}

fn session_name(text: &str) -> Result<String, Refusal> {
    let letters_ok = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+=,.@-".contains(&b));
    if !(2..=64).contains(&text.len()) || !letters_ok {
        let fix = "use 2 to 64 of a-z, A-Z, 0-9, '_', '+', '=', ',', '.', '@' and '-'";
        return Err(Refusal::new("no session can have that name", fix));
    }
    Ok(text.into())
}

fn sts_endpoint(text: &str) -> Result<String, Refusal> {
    const FIX: &str = "write it as http://HOST:PORT or https://HOST, or leave it out for AWS";
    let uri = address::http_url(text, FIX)?;
    if uri.path() != "/" || uri.query().is_some() {
        return Err(Refusal::new("has a path or a query", FIX));
    }
    Ok(text.trim_end_matches('/').into())
}
