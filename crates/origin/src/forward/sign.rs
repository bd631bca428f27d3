//! SigV4 for forwarded requests, under our own identity.
//!
//! Bodies are streams, so their hash is not signed (`UNSIGNED-PAYLOAD`): S3, Ceph, MinIO and
//! moto take that over plain http as well. Their checksums, where a client sends any, pass
//! through and are the origin's to check; where they follow the body, the body is in frames
//! already, and is signed as such.

use std::borrow::Cow;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningError,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use aws_smithy_types::body::SdkBody;
use forebay_rt::SharedClock;
use http::HeaderValue;

use crate::connect::Site;
use crate::credentials::Identity;
use crate::error::{Failure, OriginError, RetryReason};

/// Headers that proxies before an origin like to change; S3 does not ask for their signature.
const UNSIGNED: [&str; 9] = [
    "authorization",
    "user-agent",
    "x-amzn-trace-id",
    "accept",
    "accept-encoding",
    "cache-control",
    "content-length",
    "forwarded",
    "x-forwarded-for",
];

const CONTENT_SHA256: &str = "x-amz-content-sha256";

/// What the hash of a body in frames is said to be.
const TRAILING: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

#[derive(Debug)]
pub(super) struct Signer {
    identity: Option<Identity>,
    region: String,
    clock: SharedClock,
}

impl Signer {
    pub(super) fn new(site: &Site, clock: SharedClock) -> Self {
        Self { identity: site.identity.clone(), region: site.region.clone(), clock }
    }

    /// Adds what makes `request` ours; nothing where we have no identity.
    pub(super) async fn sign(&self, request: &mut http::Request<SdkBody>) -> Result<(), Failure> {
        let Some(identity) = &self.identity else {
            if has_trailer(request) {
                // Unsigned or not, it is what tells the origin of the frames.
                request.headers_mut().insert(CONTENT_SHA256, HeaderValue::from_static(TRAILING));
            }
            return Ok(());
        };
        let credentials = identity.current().await.map_err(|error| {
            Failure::again(RetryReason::Credentials, format!("no credentials: {error}"))
        })?;
        self.sign_as(credentials, request).map_err(|_| unsignable())
    }

    fn sign_as(
        &self,
        credentials: Credentials,
        request: &mut http::Request<SdkBody>,
    ) -> Result<(), SigningError> {
        let identity = credentials.into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("s3")
            .time(self.clock.wall())
            .settings(settings())
            .build();
        #[expect(clippy::expect_used, reason = "all five fields that it asks for are set above")]
        let params = params.expect("complete signing parameters").into();
        let signable = signable(request)?;
        let (instructions, _signature) = sign(signable, &params)?.into_parts();
        instructions.apply_to_request_http1x(request);
        Ok(())
    }
}

fn signable(request: &http::Request<SdkBody>) -> Result<SignableRequest<'_>, SigningError> {
    let body = match request.body().content_length() {
        Some(0) => SignableBody::Bytes(&[]),
        _ if has_trailer(request) => SignableBody::StreamingUnsignedPayloadTrailer,
        _ => SignableBody::UnsignedPayload,
    };
    // A value that is no text cannot be signed. S3 insists on `x-amz-*` being signed, and will
    // say so; any other header passes without.
    let headers = request.headers().iter();
    let headers = headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    SignableRequest::new(request.method().as_str(), request.uri().to_string(), headers, body)
}

/// Whether checksums follow the body, which whoever sent it has put into frames.
fn has_trailer(request: &http::Request<SdkBody>) -> bool {
    request.headers().contains_key("x-amz-trailer")
}

/// S3's own flavour: the path is encoded once, as it is sent, and `..` in it is a name.
fn settings() -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings.excluded_headers = Some(UNSIGNED.map(Cow::Borrowed).to_vec());
    settings
}

fn unsignable() -> Failure {
    let message = "The request has a header or a path that cannot be signed.";
    Failure::last(OriginError::refused(400, "InvalidRequest", message))
}
