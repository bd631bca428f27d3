//! Requests signed by somebody else's signer, for the tests of both verifiers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use forebay_rt::{Clock, SystemClock};
use forebay_telemetry::Secret;
use forebay_types::BucketName;
use http::{Request, Uri};

use crate::authenticate::Auth;
use crate::keys::{AccessKey, AccessKeys, BucketPattern, Effect, Grant};

pub(crate) const ID: &str = "AKIAIOSFODNN7EXAMPLE";
pub(crate) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
pub(crate) const HOST: &str = "forebay.test:9000";

/// Who signs, when and how.
pub(crate) struct Signer {
    pub(crate) id: &'static str,
    pub(crate) secret: &'static str,
    pub(crate) at: SystemTime,
    /// `None` for a signature in the header.
    pub(crate) expires_in: Option<Duration>,
    pub(crate) body: SignableBody<'static>,
}

impl Signer {
    /// Signs in the header, now.
    pub(crate) fn header() -> Self {
        let body = SignableBody::Bytes(b"");
        Self { id: ID, secret: SECRET, at: now(), expires_in: None, body }
    }

    /// Signs a URL, now.
    pub(crate) fn url(expires_in: Duration) -> Self {
        let body = SignableBody::UnsignedPayload;
        Self { expires_in: Some(expires_in), body, ..Self::header() }
    }

    /// Signs a request for [`HOST`], whose URI is a path and query.
    pub(crate) fn sign<B>(&self, mut request: Request<B>) -> Request<B> {
        request.headers_mut().insert("host", HOST.parse().unwrap());
        let identity = Credentials::new(self.id, self.secret, None, None, "test").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region("us-east-1")
            .name("s3")
            .time(self.at)
            .settings(self.settings())
            .build()
            .unwrap()
            .into();
        *request.uri_mut() = format!("http://{HOST}{}", request.uri()).parse().unwrap();
        let signable = SignableRequest::new(
            request.method().as_str(),
            request.uri().to_string(),
            request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())),
            self.body.clone(),
        );
        let (instructions, _) = sign(signable.unwrap(), &params).unwrap().into_parts();
        instructions.apply_to_request_http1x(&mut request);
        let path_and_query = request.uri().path_and_query().unwrap().clone();
        *request.uri_mut() = Uri::from(path_and_query);
        request
    }

    fn settings(&self) -> SigningSettings {
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        if self.expires_in.is_some() {
            settings.signature_location = SignatureLocation::QueryParams;
            settings.expires_in = self.expires_in;
            settings.payload_checksum_kind = PayloadChecksumKind::NoHeader;
        }
        settings
    }
}

/// Lets in the holder of that key and nobody else.
pub(crate) fn auth() -> Auth {
    auth_and_anonymous([])
}

/// Lets in the holder of that key, and others as far as they are granted something.
pub(crate) fn auth_and_anonymous<const N: usize>(grants: [Grant; N]) -> Auth {
    Auth::Keys { keys: keys(), anonymous: Arc::new(grants) }
}

/// The one access key of these tests, which may do everything.
pub(crate) fn keys() -> Arc<AccessKeys> {
    let all = grant(Effect::Allow, "*", "", "rwl");
    Arc::new(AccessKeys::new([AccessKey {
        id: ID.into(),
        secret: Secret::new(SECRET),
        grants: vec![all],
    }]))
}

/// Of `r`ead, `w`rite and `l`ist; `*` is every bucket.
pub(crate) fn grant(effect: Effect, bucket: &str, prefix: &str, rights: &str) -> Grant {
    let bucket = match bucket {
        "*" => BucketPattern::Any,
        name => BucketPattern::Exactly(BucketName::new(name).unwrap()),
    };
    let has = |letter| rights.contains(letter);
    let (read, write, list) = (has('r'), has('w'), has('l'));
    Grant { effect, bucket, prefix: prefix.into(), read, write, list }
}

pub(crate) fn now() -> SystemTime {
    SystemClock.wall()
}
