//! Can this origin be used as configured? Asked at start, answered with what to do next.

use forebay_types::BucketName;
use http::HeaderMap;

use crate::answer::RawHead;
use crate::connect::Site;
use crate::error::{Failure, OriginError, OriginReply, RetryReason, SetupError};
use crate::objects::Objects;

/// Looks at `bucket` by HeadBucket.
pub(crate) async fn probe(
    site: &Site,
    objects: &Objects,
    bucket: &BucketName,
) -> Result<(), SetupError> {
    let head = objects.head_bucket(bucket).await.map_err(|failure| no_answer(site, failure))?;
    let findings = Findings { endpoint: site.to_string(), bucket: bucket.to_string() };
    if let Some(actual) = other_region(site, &head) {
        return Err(findings.wrong_region(site, actual));
    }
    match head.status {
        200..300 => Ok(()),
        404 => Err(findings.no_such_bucket()),
        // HEAD has no body, so the reason has to be asked for once more.
        400 | 401 | 403 => match objects.list_refusal(bucket).await {
            None => Ok(()),
            Some(refusal) => Err(findings.refused(site, refusal)),
        },
        status => Err(findings.unexpected(format!("status {status}"))),
    }
}

fn no_answer(site: &Site, failure: Failure) -> SetupError {
    let endpoint = site.to_string();
    let reason = match failure.error {
        OriginError::Unavailable(detail) => detail,
        other => other.to_string(),
    };
    match failure.retry {
        Some(RetryReason::Credentials) => SetupError::NoCredentials { endpoint, reason },
        _ => SetupError::Unreachable { endpoint, reason },
    }
}

/// The region that the origin names for the bucket, where it is not ours.
fn other_region(site: &Site, head: &RawHead) -> Option<String> {
    let named = text(&head.headers, "x-amz-bucket-region");
    match head.status {
        301 | 307 | 308 => Some(named.unwrap_or("the bucket's own").to_owned()),
        400 | 403 => named.filter(|region| *region != site.region).map(ToOwned::to_owned),
        _ => None,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

struct Findings {
    endpoint: String,
    bucket: String,
}

impl Findings {
    fn refused(self, site: &Site, refusal: OriginError) -> SetupError {
        let OriginError::Refused(OriginReply { code, message, .. }) = refusal else {
            return self.unexpected(refusal.to_string());
        };
        let Self { endpoint, bucket } = self;
        match code.as_str() {
            "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" => {
                SetupError::WrongCredentials { endpoint, bucket, code }
            }
            "RequestTimeTooSkewed" => SetupError::ClockSkew { endpoint },
            "NoSuchBucket" => SetupError::NoSuchBucket { endpoint, bucket },
            "AuthorizationHeaderMalformed" => {
                let actual = format!("what the origin says: {message}");
                SetupError::WrongRegion { endpoint, bucket, region: site.region.clone(), actual }
            }
            _ => SetupError::Denied { endpoint, bucket, code },
        }
    }

    fn wrong_region(self, site: &Site, actual: String) -> SetupError {
        let Self { endpoint, bucket } = self;
        SetupError::WrongRegion { endpoint, bucket, region: site.region.clone(), actual }
    }

    fn no_such_bucket(self) -> SetupError {
        SetupError::NoSuchBucket { endpoint: self.endpoint, bucket: self.bucket }
    }

    fn unexpected(self, reason: String) -> SetupError {
        SetupError::Unexpected { endpoint: self.endpoint, bucket: self.bucket, reason }
    }
}
