//! SigV4 in the header, of requests without a body.

use std::time::SystemTime;

use aws_credential_types::Credentials as Key;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningError,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use http::Request;

use crate::config::Credentials;

/// Signs with one access key.
#[derive(Debug)]
pub(crate) struct Signer {
    key: Key,
    region: String,
}

impl Signer {
    pub(crate) fn new(credentials: &Credentials, region: &str) -> Self {
        let Credentials { access_key_id, secret, session_token } = credentials;
        let key = Key::new(access_key_id, secret, session_token.clone(), None, "forebay-client");
        Self { key, region: region.into() }
    }

    /// Adds the signature. All headers that the request has are part of it, but User-Agent, which
    /// proxies rewrite.
    pub(crate) fn sign<B>(
        &self,
        request: &mut Request<B>,
        at: SystemTime,
    ) -> Result<(), SigningError> {
        let identity = self.key.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("s3")
            .time(at)
            .settings(settings())
            .build();
        #[expect(clippy::expect_used, reason = "all five fields that it asks for are set above")]
        let params = params.expect("complete signing parameters").into();
        // Ranges, tags and hosts are text: nothing is left out here.
        let headers = request.headers().iter();
        let headers =
            headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let uri = request.uri().to_string();
        let body = SignableBody::Bytes(&[]);
        let signable = SignableRequest::new(request.method().as_str(), uri, headers, body)?;
        let (instructions, _signature) = sign(signable, &params)?.into_parts();
        instructions.apply_to_request_http1x(request);
        Ok(())
    }
}

/// S3's own flavour: the path is encoded once, as it is sent, and `..` in it is a name.
fn settings() -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings
}
