//! Asks each named bucket's origin once, before the first client does.
//!
//! What is certainly a mistake ends the start; what may pass (no answer, an origin that is
//! overloaded) is a loud warning, because what is cached can be served meanwhile.

use std::time::Duration;

use forebay_origin::SetupError;
use forebay_rt::{Clock, timeout};
use forebay_types::Freshness;
use futures_util::future::try_join_all;

use crate::config::{BucketRule, RuleSet};
use crate::error::StartError;
use crate::origins::OriginTable;
use crate::status::BucketStatus;

/// Connections wait in the backlog meanwhile; a role that has to be assumed takes a second.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Asks all origins at the same time.
pub(crate) async fn origins(
    rules: &RuleSet,
    origins: &OriginTable,
    clock: &dyn Clock,
) -> Result<Vec<BucketStatus>, StartError> {
    try_join_all(rules.buckets.iter().map(|rule| rule_status(rule, origins, clock))).await
}

async fn rule_status(
    rule: &BucketRule,
    origins: &OriginTable,
    clock: &dyn Clock,
) -> Result<BucketStatus, StartError> {
    Ok(BucketStatus {
        name: rule.label().into(),
        origin: rule.origin.endpoint.as_str().into(),
        freshness: freshness_name(rule.freshness),
        origin_at_start: ask(rule, origins, clock).await?,
    })
}

/// `ok`, `not asked`, or the warning.
async fn ask(
    rule: &BucketRule,
    origins: &OriginTable,
    clock: &dyn Clock,
) -> Result<String, StartError> {
    let named = rule.name();
    let Some((bucket, origin)) =
        named.and_then(|name| Some((name, &origins.by_bucket.get(name)?.origin)))
    else {
        return Ok("not asked".into());
    };
    let warning = match timeout(clock, PROBE_LIMIT, origin.probe(bucket)).await {
        Ok(Ok(())) => return Ok("ok".into()),
        Ok(Err(error)) if is_mistake(&error) => {
            return Err(StartError::Origin { bucket: bucket.to_string(), source: error });
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!(
            "origin {} has not answered within {} s",
            rule.origin.endpoint.as_str(),
            PROBE_LIMIT.as_secs()
        ),
    };
    tracing::warn!(%bucket, "{warning}; serving what is cached, and asking again with each read");
    Ok(warning)
}

fn is_mistake(error: &SetupError) -> bool {
    match error {
        SetupError::Endpoint { .. }
        | SetupError::NoCredentials { .. }
        | SetupError::WrongCredentials { .. }
        | SetupError::NoSuchBucket { .. }
        | SetupError::WrongRegion { .. } => true,
        // An identity may be allowed to read objects and not to look at their bucket.
        SetupError::Denied { .. }
        | SetupError::Unreachable { .. }
        | SetupError::ClockSkew { .. }
        | SetupError::Unexpected { .. } => false,
    }
}

pub(crate) fn freshness_name(freshness: Freshness) -> String {
    match freshness {
        Freshness::Immutable => "immutable".into(),
        Freshness::Bounded(bound) => format!("bounded {} s", bound.as_secs()),
        Freshness::Strict => "strict".into(),
    }
}
