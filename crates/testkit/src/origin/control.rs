//! The reserved path under which another process drives an origin: no S3 bucket begins with
//! an underscore. Not signed, not logged, never faulty.

use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::config::{PatternSet, Shape};
use super::error::S3Error;
use super::fault::{Evidence, FaultRule, MAX_RULES};
use super::http::Request;
use super::log::Counts;
use super::op::Query;
use super::reply::Reply;
use super::serve::Site;

/// What control paths begin with.
pub const PREFIX: &str = "/_fo/";

/// `GET /_fo/stats`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// What was asked and sent.
    pub counts: Counts,
    /// Which faults fired.
    pub faults: Vec<Evidence>,
}

impl Site {
    pub(super) fn stats(&self) -> Stats {
        Stats { counts: self.log.counts(), faults: self.faults.evidence() }
    }
}

pub(super) fn answer(
    site: &Site,
    verb: &str,
    request: &Request,
    body: &[u8],
) -> Result<Reply, S3Error> {
    let is_get = request.method == Method::GET;
    match verb {
        "stats" if is_get => json(&site.stats()),
        "keys" if is_get => json(&site.log.keys()),
        "records" if is_get => json(&site.log.records()),
        _ if request.method != Method::POST => Err(no_such_verb(verb)),
        "reset" => {
            site.log.reset();
            done()
        }
        "fault" => {
            let rule: FaultRule = parse(body)?;
            if site.faults.add(rule) { done() } else { Err(too_many_rules()) }
        }
        "clear-faults" => {
            site.faults.clear();
            done()
        }
        "shape" => {
            let shape: Shape = parse(body)?;
            *site.shape.lock() = shape;
            done()
        }
        "declare" => {
            let set: PatternSet = parse(body)?;
            site.store.lock().objects.declare(set);
            done()
        }
        "overwrite" => overwrite(site, &Query::parse(&request.query)),
        "delete" => delete(site, &Query::parse(&request.query)),
        _ => Err(no_such_verb(verb)),
    }
}

/// Answers the new version's number.
fn overwrite(site: &Site, query: &Query) -> Result<Reply, S3Error> {
    let (bucket, key) = name(query)?;
    let version = site.store.lock().objects.overwrite(bucket, key);
    let version = version.ok_or_else(S3Error::no_such_key)?;
    json(&serde_json::json!({ "version": version }))
}

fn delete(site: &Site, query: &Query) -> Result<Reply, S3Error> {
    let (bucket, key) = name(query)?;
    site.store.lock().objects.delete(bucket, key);
    done()
}

fn name(query: &Query) -> Result<(&str, &str), S3Error> {
    let missing = || S3Error::invalid_argument("name the object: ?bucket=B&key=K");
    query.get("bucket").zip(query.get("key")).ok_or_else(missing)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, S3Error> {
    serde_json::from_slice(body).map_err(|error| S3Error::invalid_argument(error.to_string()))
}

fn json(value: &impl Serialize) -> Result<Reply, S3Error> {
    let text = serde_json::to_string(value);
    let text = text.map_err(|error| S3Error::invalid_argument(error.to_string()))?;
    Ok(Reply::json(text))
}

#[expect(clippy::unnecessary_wraps, reason = "an arm of a match over fallible verbs")]
fn done() -> Result<Reply, S3Error> {
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

fn no_such_verb(verb: &str) -> S3Error {
    S3Error::not_implemented(&format!("the control verb {verb:?} with this method"))
}

fn too_many_rules() -> S3Error {
    S3Error::invalid_argument(format!("{MAX_RULES} fault rules are in force: clear them first"))
}
