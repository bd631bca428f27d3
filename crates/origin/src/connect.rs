//! From configuration to what talks to the origin: one HTTP connector with one connection pool,
//! and on top of it the SDK's client.
//!
//! The SDK is told to do the least: its retries, timeouts, checksums, identity cache and stall
//! detection are off, because each of them is ours, once, for reads and forwarded requests alike.

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_config::meta::region::RegionProviderChain;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, IdentityCache, Region, RequestChecksumCalculation, ResponseChecksumValidation,
    SharedCredentialsProvider, SharedHttpClient, StalledStreamProtectionConfig,
};
use aws_smithy_async::time::TimeSource;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{
    HttpConnectorSettings, SharedHttpConnector, http_client_fn,
};
use forebay_rt::SharedClock;
use http::Uri;

use crate::config::{CredentialsSource, OriginConfig};
use crate::credentials::Identity;
use crate::error::SetupError;
use crate::web_identity;

/// The region that S3 servers other than AWS take when they do not care.
pub(crate) const DEFAULT_REGION: &str = "us-east-1";

/// How long a connection is kept without a request; S3 closes its side somewhat later, and a
/// request that meets that moment fails.
const POOL_IDLE: Duration = Duration::from_secs(15);

/// Where an origin is and who we are there, as far as requests need it.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// With a slash at its end if it has a path, else without; `None` is AWS.
    pub(crate) endpoint: Option<String>,
    pub(crate) region: String,
    pub(crate) path_style: bool,
    /// `None`: requests are not signed.
    pub(crate) identity: Option<Identity>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Some(endpoint) => f.write_str(endpoint),
            None => write!(f, "AWS {}", self.region),
        }
    }
}

impl Site {
    /// Settles what the configuration leaves open. Asks for a region, but for no credentials:
    /// a worker starts, and serves what it has, while those cannot be had.
    pub(crate) async fn resolve(
        config: &OriginConfig,
        clock: &SharedClock,
    ) -> Result<Self, SetupError> {
        let endpoint = config.endpoint.as_deref().map(checked_endpoint).transpose()?;
        let (region, identity) = match &config.credentials {
            CredentialsSource::DefaultChain => default_chain(config, clock).await,
            CredentialsSource::Static { access_key_id, secret, session_token } => {
                let token = session_token.as_ref();
                (None, Some(Identity::fixed(access_key_id, secret, token, clock)))
            }
            CredentialsSource::Anonymous => (None, None),
            CredentialsSource::WebIdentity(role) => {
                (None, Some(web_identity::identity(role, config, clock)))
            }
        };
        let region = config.region.clone().or(region).unwrap_or_else(|| DEFAULT_REGION.into());
        Ok(Self { endpoint, region, path_style: config.path_style, identity })
    }
}

/// The one connection pool of an origin.
pub(crate) fn connector(config: &OriginConfig) -> SharedHttpConnector {
    let settings = HttpConnectorSettings::builder().connect_timeout(config.connect_timeout).build();
    let connector = Connector::builder()
        .connector_settings(settings)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(config.max_in_flight)
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build();
    SharedHttpConnector::new(connector)
}

/// The SDK's client, for requests whose encoding it knows better than we do.
pub(crate) fn sdk_client(
    site: &Site,
    connector: &SharedHttpConnector,
    clock: &SharedClock,
) -> aws_sdk_s3::Client {
    let builder = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(client_over(connector))
        .time_source(ClockTime(clock.clone()))
        .region(Region::new(site.region.clone()))
        .force_path_style(site.path_style)
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .identity_cache(IdentityCache::no_cache())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    let mut builder = match &site.identity {
        Some(identity) => {
            builder.credentials_provider(SharedCredentialsProvider::new(identity.clone()))
        }
        None => builder.allow_no_auth(),
    };
    builder.set_endpoint_url(site.endpoint.clone());
    aws_sdk_s3::Client::from_conf(builder.build())
}

async fn default_chain(
    config: &OriginConfig,
    clock: &SharedClock,
) -> (Option<String>, Option<Identity>) {
    let region = RegionProviderChain::first_try(config.region.clone().map(Region::new))
        .or_default_provider()
        .or_else(DEFAULT_REGION);
    let loaded = aws_config::defaults(BehaviorVersion::latest())
        .http_client(client_over(&connector(config)))
        .region(region)
        .load()
        .await;
    let identity = loaded.credentials_provider().map(|chain| Identity::provided(chain, clock));
    (loaded.region().map(ToString::to_string), identity)
}

pub(crate) fn client_over(connector: &SharedHttpConnector) -> SharedHttpClient {
    let connector = connector.clone();
    http_client_fn(move |_settings, _components| connector.clone())
}

fn checked_endpoint(endpoint: &str) -> Result<String, SetupError> {
    let wrong = |reason| SetupError::Endpoint { endpoint: without_userinfo(endpoint), reason };
    let uri: Uri = endpoint.parse().map_err(|_| wrong("it is not a URL"))?;
    let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("its scheme is neither http nor https"));
    }
    if authority.as_str().contains('@') {
        return Err(wrong("it holds a user name; credentials have a setting of their own"));
    }
    if uri.query().is_some() {
        return Err(wrong("it has a query"));
    }
    let bare = endpoint.trim_end_matches('/');
    // The SDK puts the bucket right behind a path, slash or not.
    let has_path = !matches!(uri.path(), "" | "/");
    Ok(if has_path { format!("{bare}/") } else { bare.to_owned() })
}

/// An endpoint as it may be printed.
fn without_userinfo(endpoint: &str) -> String {
    match (endpoint.find("://"), endpoint.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}***{}", &endpoint[..scheme + 3], &endpoint[at..])
        }
        _ => endpoint.to_owned(),
    }
}

/// Our clock as the SDK takes it, so that signatures follow it.
#[derive(Debug)]
struct ClockTime(SharedClock);

impl TimeSource for ClockTime {
    fn now(&self) -> SystemTime {
        self.0.wall()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_are_no_server_are_named_with_the_reason_and_no_secret() {
        for bad in ["127.0.0.1:9000", "ftp://h", "http://", "http://h/?x", "https://me:pw@h"] {
            let error = checked_endpoint(bad).unwrap_err().to_string();
            assert!(error.contains("write it as http://host:port"), "{error}");
            assert!(!error.contains("pw"), "{error}");
        }
        assert_eq!(checked_endpoint("http://h:1/").unwrap(), "http://h:1");
        assert_eq!(checked_endpoint("http://h:1/base").unwrap(), "http://h:1/base/");
    }
}
