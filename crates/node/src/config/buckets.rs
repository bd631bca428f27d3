//! Which buckets there are and where their objects come from.
//!
//! Either the file's `[[bucket]]` tables say it, or `--origin` and `--bucket` do; given both,
//! the flags replace the tables, since a flag is what the operator said last.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use forebay_types::Freshness;
use http::Uri;

use super::auth::bucket_or_any;
use super::error::{ConfigError, Refusal, missing};
use super::layers::{Knob, Layers, Setting};
use super::raw::{RawBucket, RawPrefix};
use super::{BucketRule, Endpoint, OriginIdentity, OriginRule, address, credentials};

/// What self-hosted S3 servers expect when nobody has set a region.
const DEFAULT_REGION: &str = "us-east-1";

/// Says which buckets there are.
pub(super) fn resolve(
    raw: Vec<RawBucket>,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<BucketRule>, ConfigError> {
    let rules = match layers.one(Knob::Origin) {
        Some(origin) => from_flags(&origin, layers)?,
        None => from_file(raw, layers, warnings)?,
    };
    if rules.is_empty() {
        return Err(missing(
            "a bucket",
            "say --origin URL --bucket NAME, or write a [[bucket]] with name and origin into the \
             file given with --config",
        ));
    }
    refuse_twins(&rules)?;
    Ok(rules)
}

/// Refuses an origin that is this worker itself: each miss would ask it again, without end.
pub(super) fn refuse_loop(rules: &[BucketRule], listen: SocketAddr) -> Result<(), ConfigError> {
    let own = |rule: &&BucketRule| match &rule.origin.endpoint {
        Endpoint::Url(url) => is_own_address(url, listen),
        Endpoint::Aws => false,
    };
    rules.iter().find(own).map_or(Ok(()), |rule| {
        Err(ConfigError::Conflict {
            at: format!("origin {:?} of bucket {:?}", rule.origin.endpoint.as_str(), rule.label()),
            reason: format!("is this worker's own address ({listen})"),
            fix: "name the real origin, or listen on another port".into(),
        })
    })
}

fn from_flags(origin: &Setting, layers: Layers<'_>) -> Result<Vec<BucketRule>, ConfigError> {
    let buckets = layers.all(Knob::Bucket);
    if buckets.is_empty() {
        let fix = "say --bucket NAME (it may repeat), or --bucket '*' for every bucket of --origin";
        return Err(missing("--bucket", fix));
    }
    let endpoint = origin.parse(endpoint)?;
    let region = region(layers.one(Knob::Region), &endpoint, "--region", layers)?;
    let anonymous = layers.one(Knob::AnonymousOrigin);
    let anonymous = anonymous.map_or(Ok(false), |given| given.parse(yes_or_no))?;
    let credentials = if anonymous { OriginIdentity::Anonymous } else { OriginIdentity::Chain };
    let freshness = freshness(layers.one(Knob::Freshness), None, "--freshness")?;
    let origin = OriginRule { endpoint, region, credentials };
    let rule = |name: &Setting| {
        Ok(BucketRule {
            bucket: name.parse(bucket_or_any)?,
            origin: origin.clone(),
            freshness: freshness.unwrap_or_default(),
            prefixes: Vec::new(),
        })
    };
    buckets.iter().map(rule).collect()
}

fn from_file(
    raw: Vec<RawBucket>,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<BucketRule>, ConfigError> {
    let needs_origin = [Knob::Bucket, Knob::Region, Knob::Freshness, Knob::AnonymousOrigin];
    if let Some(setting) = needs_origin.into_iter().find_map(|knob| layers.one(knob)) {
        return Err(ConfigError::Conflict {
            at: setting.at,
            reason: "belongs to --origin, which is not given".into(),
            fix: "add --origin URL, or write it into the file's [[bucket]]".into(),
        });
    }
    let rules = raw.into_iter().enumerate();
    rules
        .map(|(index, raw)| file_rule(raw, &format!("bucket[{index}]"), layers, warnings))
        .collect()
}

fn file_rule(
    mut raw: RawBucket,
    at: &str,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<BucketRule, ConfigError> {
    let required = |key: &str, value: Option<String>, fix: &str| match value {
        Some(value) => Ok(Setting::new(format!("{at}.{key}"), value)),
        None => Err(missing(format!("{at}.{key}"), fix)),
    };
    let name = required("name", raw.name.take(), "name the bucket, or write \"*\" for all others")?;
    let origin = required("origin", raw.origin.take(), "write the origin's URL, or \"aws\"")?;
    let endpoint = origin.parse(endpoint)?;
    let region_at = format!("{at}.region");
    let given = raw.region.take().map(|region| Setting::new(&region_at, region));
    let region = region(given, &endpoint, &region_at, layers)?;
    let credentials = credentials::resolve(&mut raw, at, layers, warnings)?;
    let freshness = file_freshness(raw.freshness, raw.bound_seconds, at)?.unwrap_or_default();
    let prefixes = raw.prefix.into_iter().enumerate();
    let prefixes = prefixes.map(|(index, raw)| prefix_rule(raw, &format!("{at}.prefix[{index}]")));
    Ok(BucketRule {
        bucket: name.parse(bucket_or_any)?,
        origin: OriginRule { endpoint, region, credentials },
        freshness,
        prefixes: prefixes.collect::<Result<_, _>>()?,
    })
}

fn prefix_rule(raw: RawPrefix, at: &str) -> Result<(String, Freshness), ConfigError> {
    let prefix = raw.prefix.filter(|prefix| !prefix.is_empty()).ok_or_else(|| {
        missing(format!("{at}.prefix"), "write what the keys begin with, such as \"shards/\"")
    })?;
    let freshness = file_freshness(raw.freshness, raw.bound_seconds, at)?.ok_or_else(|| {
        missing(format!("{at}.freshness"), "use \"immutable\", \"bounded\" or \"strict\"")
    })?;
    Ok((prefix, freshness))
}

fn file_freshness(
    mode: Option<String>,
    bound_s: Option<u64>,
    at: &str,
) -> Result<Option<Freshness>, ConfigError> {
    let mode = mode.map(|mode| Setting::new(format!("{at}.freshness"), mode));
    freshness(mode, bound_s, &format!("{at}.bound_seconds"))
}

/// A bound alone means `bounded`, which is the default mode.
fn freshness(
    mode: Option<Setting>,
    bound_s: Option<u64>,
    bound_at: &str,
) -> Result<Option<Freshness>, ConfigError> {
    let bound = bound_s.map(Duration::from_secs);
    let bounded = Freshness::Bounded(bound.unwrap_or(Freshness::DEFAULT_BOUND));
    let mode = mode.map(|mode| mode.parse(|text| freshness_mode(text, bounded))).transpose()?;
    match (mode, bound) {
        (Some(Freshness::Immutable | Freshness::Strict), Some(_)) => Err(ConfigError::Conflict {
            at: bound_at.into(),
            reason: "only freshness = \"bounded\" has a bound".into(),
            fix: "leave it out, or write freshness = \"bounded\"".into(),
        }),
        (None, Some(_)) => Ok(Some(bounded)),
        (mode, _) => Ok(mode),
    }
}

fn freshness_mode(text: &str, bounded: Freshness) -> Result<Freshness, Refusal> {
    match text {
        "immutable" => Ok(Freshness::Immutable),
        "bounded" => Ok(bounded),
        "strict" => Ok(Freshness::Strict),
        _ => Err(Refusal::new("no such mode", "use \"immutable\", \"bounded\" or \"strict\"")),
    }
}

fn region(
    given: Option<Setting>,
    endpoint: &Endpoint,
    at: &str,
    layers: Layers<'_>,
) -> Result<String, ConfigError> {
    let ambient = || layers.env.var("AWS_REGION").or_else(|| layers.env.var("AWS_DEFAULT_REGION"));
    match (given, ambient(), endpoint) {
        (Some(given), ..) => given.parse(region_name),
        (None, Some(ambient), _) => Setting::new("AWS_REGION", ambient).parse(region_name),
        (None, None, Endpoint::Url(_)) => Ok(DEFAULT_REGION.into()),
        (None, None, Endpoint::Aws) => Err(missing(
            at,
            "name the buckets' region, such as \"eu-central-1\", or set AWS_REGION",
        )),
    }
}

fn region_name(text: &str) -> Result<String, Refusal> {
    let letters_ok = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if text.is_empty() || !letters_ok {
        return Err(Refusal::new("no region has that name", "write it as in \"eu-central-1\""));
    }
    Ok(text.into())
}

fn endpoint(text: &str) -> Result<Endpoint, Refusal> {
    const FIX: &str = "write it as http://HOST:PORT or https://HOST, or \"aws\"";
    if text == "aws" {
        return Ok(Endpoint::Aws);
    }
    let uri = address::http_url(text, FIX)?;
    if uri.path() != "/" || uri.query().is_some() {
        return Err(Refusal::new("has a path or a query", "name the bucket with name or --bucket"));
    }
    Ok(Endpoint::Url(text.trim_end_matches('/').into()))
}

fn yes_or_no(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(Refusal::new("neither yes nor no", "use \"true\" or \"false\"")),
    }
}

fn is_own_address(url: &str, listen: SocketAddr) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let default_port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let ip =
        if host == "localhost" { Some(IpAddr::from([127, 0, 0, 1])) } else { host.parse().ok() };
    let same_host = ip.is_some_and(|ip| {
        ip == listen.ip()
            || (listen.ip().is_unspecified() && (ip.is_loopback() || ip.is_unspecified()))
    });
    same_host && listen.port() != 0 && uri.port_u16().unwrap_or(default_port) == listen.port()
}

fn refuse_twins(rules: &[BucketRule]) -> Result<(), ConfigError> {
    for (index, rule) in rules.iter().enumerate() {
        if rules[..index].iter().any(|other| other.bucket == rule.bucket) {
            return Err(ConfigError::Conflict {
                at: format!("bucket {:?}", rule.label()),
                reason: "is named twice".into(),
                fix: "keep one of them; keys under a prefix can differ by [[bucket.prefix]]".into(),
            });
        }
    }
    Ok(())
}
