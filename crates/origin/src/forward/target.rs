//! Where a forwarded request goes: the SDK's own endpoint rules, so that reads and forwarded
//! requests meet the same server under the same name.

use aws_sdk_s3::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use http::Uri;

use super::RequestHead;
use crate::connect::Site;
use crate::error::OriginError;

#[derive(Debug)]
pub(super) struct Target {
    resolver: DefaultResolver,
    site: Site,
}

impl Target {
    pub(super) fn new(site: &Site) -> Self {
        Self { resolver: DefaultResolver::new(), site: site.clone() }
    }

    /// The URL of a request at the origin.
    pub(super) async fn url(&self, head: &RequestHead) -> Result<Uri, OriginError> {
        let nowhere = |error: String| OriginError::Unavailable(format!("no origin URL: {error}"));
        let params = Params::builder()
            .set_bucket(head.bucket.as_ref().map(ToString::to_string))
            .set_endpoint(self.site.endpoint.clone())
            .region(self.site.region.clone())
            .force_path_style(self.site.path_style)
            // Directory buckets want a session, which only the SDK's operations open.
            .disable_s3_express_session_auth(true)
            .build()
            .map_err(|error| nowhere(error.to_string()))?;
        let base = self.resolver.resolve_endpoint(&params).await;
        let base = base.map_err(|error| nowhere(error.to_string()))?;
        let url = joined(base.url(), &head.rest, head.query.as_deref());
        url.parse().map_err(|_| OriginError::refused(400, "InvalidURI", "Couldn't parse the URI."))
    }
}

fn joined(base: &str, rest: &str, query: Option<&str>) -> String {
    let base = base.trim_end_matches('/');
    let at_root = base.split_once("://").is_none_or(|(_, host)| !host.contains('/'));
    let slash = if rest.is_empty() && at_root { "/" } else { "" };
    match query {
        Some(query) => format!("{base}{slash}{rest}?{query}"),
        None => format!("{base}{slash}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty};

    use super::super::Outgoing;
    use super::*;

    async fn url(endpoint: Option<&str>, path_style: bool, target: &str) -> String {
        let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
        let request = http::Request::get(target).body(body).unwrap();
        let site = Site {
            endpoint: endpoint.map(Into::into),
            region: "eu-west-1".into(),
            path_style,
            identity: None,
        };
        let head = Outgoing::parse(request).unwrap().head;
        Target::new(&site).url(&head).await.unwrap().to_string()
    }

    #[tokio::test]
    async fn aws_is_asked_by_virtual_host_where_the_bucket_is_a_host_name() {
        let aws = "s3.eu-west-1.amazonaws.com";
        for (target, expected) in [
            ("/train/a//b?uploads", format!("https://train.{aws}/a//b?uploads")),
            ("/train?list-type=2", format!("https://train.{aws}/?list-type=2")),
            ("/with.dots/k", format!("https://{aws}/with.dots/k")),
            ("/", format!("https://{aws}/")),
        ] {
            assert_eq!(url(None, false, target).await, expected);
        }
    }

    #[tokio::test]
    async fn other_servers_are_asked_in_path_style_below_their_base() {
        let (bare, based) = ("http://h:9000", "http://h:9000/base/");
        for (endpoint, target, expected) in [
            (bare, "/Train_1/../x", "http://h:9000/Train_1/../x"),
            (bare, "/train", "http://h:9000/train"),
            (bare, "/train/?acl", "http://h:9000/train/?acl"),
            (bare, "/", "http://h:9000/"),
            (based, "/train/k", "http://h:9000/base/train/k"),
        ] {
            assert_eq!(url(Some(endpoint), true, target).await, expected);
        }
    }
}
