//! Credentials that an STS lends to the bearer of a token, for a role that a bucket rule names.
//!
//! The SDK reads the token, asks and understands the answer; when to ask is [`Identity`]'s. Where
//! the STS is, the SDK takes from the environment alone, which all rules share: so a rule's own
//! is put into the request on its way out.

use aws_config::provider_config::ProviderConfig;
use aws_config::web_identity_token::{StaticConfiguration, WebIdentityTokenCredentialsProvider};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_s3::config::Region;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use forebay_rt::SharedClock;

use crate::config::{OriginConfig, WebIdentity};
use crate::connect::{DEFAULT_REGION, client_over, connector};
use crate::credentials::Identity;

/// The bearer of `role`'s token. Asks nobody yet.
pub(crate) fn identity(role: &WebIdentity, config: &OriginConfig, clock: &SharedClock) -> Identity {
    let region = config.region.clone().unwrap_or_else(|| DEFAULT_REGION.into());
    let settings = ProviderConfig::without_region()
        .with_region(Some(Region::new(region)))
        .with_http_client(client_over(&way_to_sts(role, config)));
    let provider = WebIdentityTokenCredentialsProvider::builder()
        .static_configuration(StaticConfiguration {
            web_identity_token_file: role.token_file.clone(),
            role_arn: role.role_arn.clone(),
            session_name: role.session_name.clone(),
        })
        .configure(&settings)
        .build();
    Identity::provided(SharedCredentialsProvider::new(provider), clock)
}

fn way_to_sts(role: &WebIdentity, config: &OriginConfig) -> SharedHttpConnector {
    let connector = connector(config);
    match role.sts_endpoint.clone() {
        Some(endpoint) => SharedHttpConnector::new(Redirected { connector, endpoint }),
        None => connector,
    }
}

/// Sends elsewhere what the SDK means for AWS. It may: the token is all that speaks for the
/// request, and no signature names the host.
#[derive(Debug)]
struct Redirected {
    connector: SharedHttpConnector,
    endpoint: String,
}

impl HttpConnector for Redirected {
    fn call(&self, mut request: HttpRequest) -> HttpConnectorFuture {
        match request.uri_mut().set_endpoint(&self.endpoint) {
            Ok(()) => self.connector.call(request),
            Err(error) => HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        }
    }
}
