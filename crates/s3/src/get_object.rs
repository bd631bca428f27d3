//! GET and HEAD of an object: the whole story.

use std::sync::Arc;

use forebay_cache::{OpenAsk, ReadError};
use forebay_types::ObjectName;
use http::header::{CACHE_CONTROL, PRAGMA};
use http::{HeaderMap, Response};

use crate::app_name::app_name;
use crate::authenticate::Authenticated;
use crate::authorize::{Authorized, authorize};
use crate::body::S3Body;
use crate::conditions::conditions;
use crate::edge::{Edge, Trace};
use crate::error::S3Error;
use crate::forward;
use crate::overrides::overrides;
use crate::range::range_ask;
use crate::respond;
use crate::route::{Call, ReadObject};
use crate::rules::BucketRule;

/// What a read of a delete marker by its version is answered with.
const METHOD_NOT_ALLOWED: u16 = 405;

/// Answers a plain read of an object, from the cache or through it.
pub(crate) async fn get_object(
    edge: &Edge,
    trace: &mut Trace,
    sender: Authenticated,
    call: Call,
    read: ReadObject,
) -> Result<Response<S3Body>, S3Error> {
    let read = authorize(&sender.caller, read)?;
    let overrides = overrides(&call.query, sender.signed)?;
    let rule = edge.rule_of(&read.op().bucket, trace)?;
    // Only for whoever may read: a stranger's names take no places.
    let app = app_name(&sender.request.parts.headers);
    trace.app = app.map(|name| edge.apps.of(name));
    let ctx = trace.ctx();
    let pass = sender.request.pass;
    let is_copied = pass.is_none() && read.op().body;
    let place = if is_copied { Some(edge.place_for_a_copy().await?) } else { None };
    let ask = OpenAsk { pass, ..ask(&sender.request.parts.headers, read, &rule) };
    match edge.cache.open(&ctx, ask).await {
        Ok(opened) => {
            trace.first_byte(opened.source);
            let response = respond::object(opened, overrides)?;
            Ok(response.map(|body| body.copied(place)))
        }
        // A delete marker that is named by its version: what the origin says of it is in headers.
        Err(ReadError::Refused(reply)) if reply.status == METHOD_NOT_ALLOWED => {
            pass_through(edge, trace, sender, call, "a delete marker").await
        }
        Err(ReadError::PassThrough(why)) => pass_through(edge, trace, sender, call, &why).await,
        Err(error) => Err(trace.failed(error)),
    }
}

fn ask(headers: &HeaderMap, read: Authorized<ReadObject>, rule: &Arc<BucketRule>) -> OpenAsk {
    let ReadObject { bucket, key, version_id, body } = read.into_op();
    OpenAsk {
        freshness: rule.freshness_of(&key),
        name: ObjectName { rule: rule.rule, bucket, key, version_id: version_id.map(Into::into) },
        range: range_ask(headers),
        conditions: conditions(headers),
        revalidate: wants_fresh(headers),
        body,
        pass: None,
    }
}

/// `Cache-Control: no-cache`, or its HTTP/1.0 form.
fn wants_fresh(headers: &HeaderMap) -> bool {
    [CACHE_CONTROL, PRAGMA].iter().flat_map(|name| headers.get_all(name)).any(|value| {
        value.to_str().is_ok_and(|list| {
            list.split(',').any(|directive| directive.trim().eq_ignore_ascii_case("no-cache"))
        })
    })
}

/// The object has no strong tag, or the like: its bytes come from the origin on every read.
async fn pass_through(
    edge: &Edge,
    trace: &Trace,
    sender: Authenticated,
    call: Call,
    why: &str,
) -> Result<Response<S3Body>, S3Error> {
    tracing::debug!(request = %trace.request, why, "not cacheable: forwarded");
    forward::send(edge, trace, sender.request, &call, Vec::new()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn only_no_cache_asks_for_a_fresh_look() {
        let fresh = |value: &'static str| {
            wants_fresh(&HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static(value))]))
        };
        assert!(fresh("no-cache") && fresh("max-age=0, No-Cache"));
        assert!(!fresh("max-age=0") && !fresh("no-store"));
        assert!(!wants_fresh(&HeaderMap::new()));
    }
}
