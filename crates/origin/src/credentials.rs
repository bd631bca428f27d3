//! Our identity at the origin, cached: one refresh at a time, early, and on for as long as the
//! last one is valid if the refresh fails. Signing of reads (by the SDK) and of forwarded
//! requests (by us) share it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use forebay_rt::{SharedClock, timeout};
use forebay_telemetry::Secret;
use tokio::sync::Mutex;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use crate::sdk_error::detail;

/// How long before they expire credentials are replaced.
const REFRESH_AHEAD: Duration = Duration::from_mins(5);
/// How long after a failed refresh the next one is tried.
const REFRESH_PAUSE: Duration = Duration::from_secs(5);
/// Limit for a refresh, the wait for another request's refresh included.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// Cheap to clone; clones share the cache.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: SharedCredentialsProvider,
    last: Mutex<Option<Refresh>>,
    clock: SharedClock,
}

/// What the last refresh left.
#[derive(Debug)]
struct Refresh {
    found: Result<Credentials, String>,
    /// `None`: it stands for good.
    next_at: Option<SystemTime>,
}

impl Identity {
    /// A pair of keys that does not change.
    pub(crate) fn fixed(
        access_key_id: &str,
        secret: &Secret,
        session_token: Option<&Secret>,
        clock: &SharedClock,
    ) -> Self {
        let token = session_token.map(|token| token.reveal().to_owned());
        let keys = Credentials::new(access_key_id, secret.reveal(), token, None, "forebay");
        Self::provided(SharedCredentialsProvider::new(keys), clock)
    }

    /// Whatever `source` provides.
    pub(crate) fn provided(source: SharedCredentialsProvider, clock: &SharedClock) -> Self {
        Self(Arc::new(Inner { source, last: Mutex::new(None), clock: clock.clone() }))
    }

    /// Credentials that are valid now.
    pub(crate) async fn current(&self) -> Result<Credentials, CredentialsError> {
        timeout(self.0.clock.as_ref(), REFRESH_TIMEOUT, self.0.current())
            .await
            .unwrap_or_else(|_| Err(CredentialsError::provider_timed_out(REFRESH_TIMEOUT)))
    }

    /// The origin says that they have expired, whatever they say themselves.
    pub(crate) async fn expired(&self) {
        *self.0.last.lock().await = None;
    }
}

impl Inner {
    async fn current(&self) -> Result<Credentials, CredentialsError> {
        let mut last = self.last.lock().await;
        let now = self.clock.wall();
        let refresh = match last.take() {
            Some(refresh) if refresh.next_at.is_none_or(|at| now < at) => refresh,
            older => self.refresh(older, now).await,
        };
        let found = refresh.found.clone().map_err(CredentialsError::not_loaded);
        *last = Some(refresh);
        found
    }

    /// What the source itself would log nobody sees: of an answer that it cannot read the SDK logs
    /// every byte, and the credentials may be among them.
    async fn refresh(&self, older: Option<Refresh>, now: SystemTime) -> Refresh {
        let provided = self.source.provide_credentials().with_subscriber(Dispatch::none());
        let error = match provided.await {
            Ok(credentials) => {
                let next_at = credentials.expiry().map(|at| (at - REFRESH_AHEAD).max(now));
                return Refresh { found: Ok(credentials), next_at };
            }
            Err(error) => detail(&error),
        };
        tracing::warn!(%error, "origin credentials not refreshed");
        let still_valid = |old: &Credentials| old.expiry().is_none_or(|at| now < at);
        let old = older.and_then(|older| older.found.ok()).filter(still_valid);
        Refresh { found: old.ok_or(error), next_at: Some(now + REFRESH_PAUSE) }
    }
}

impl ProvideCredentials for Identity {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.current())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use forebay_rt::{Clock, ManualClock};

    use super::*;

    /// Gives credentials that live for an hour, as often as it was told to.
    #[derive(Debug)]
    struct Hourly {
        clock: ManualClock,
        asked: Arc<AtomicUsize>,
        works: usize,
    }

    impl ProvideCredentials for Hourly {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let nth = self.asked.fetch_add(1, Ordering::Relaxed);
            if nth >= self.works {
                return future::ProvideCredentials::ready(Err(
                    CredentialsError::not_loaded_no_source(),
                ));
            }
            let expiry = self.clock.wall() + Duration::from_hours(1);
            let keys = Credentials::new(format!("AK{nth}"), "secret", None, Some(expiry), "test");
            future::ProvideCredentials::ready(Ok(keys))
        }
    }

    fn hourly(works: usize) -> (Identity, ManualClock, Arc<AtomicUsize>) {
        let clock = ManualClock::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let source = Hourly { clock: clock.clone(), asked: asked.clone(), works };
        let shared: SharedClock = Arc::new(clock.clone());
        let identity = Identity::provided(SharedCredentialsProvider::new(source), &shared);
        (identity, clock, asked)
    }

    async fn key_of(identity: &Identity) -> String {
        identity.current().await.unwrap().access_key_id().to_owned()
    }

    #[tokio::test]
    async fn credentials_are_asked_for_once_and_again_before_they_expire() {
        let (identity, clock, asked) = hourly(2);
        assert_eq!(
            (key_of(&identity).await, key_of(&identity).await),
            ("AK0".into(), "AK0".into())
        );
        clock.advance(Duration::from_mins(56));
        assert_eq!(key_of(&identity).await, "AK1");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn the_last_credentials_are_used_until_they_really_expire() {
        let (identity, clock, asked) = hourly(1);
        assert_eq!(key_of(&identity).await, "AK0");
        clock.advance(Duration::from_mins(58));
        assert_eq!(
            (key_of(&identity).await, key_of(&identity).await),
            ("AK0".into(), "AK0".into())
        );
        assert_eq!(asked.load(Ordering::Relaxed), 2, "a failed refresh is not repeated at once");
        clock.advance(Duration::from_mins(3));
        assert!(identity.current().await.is_err());
        assert!(identity.current().await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 3, "nor is one that leaves none");
    }

    #[test]
    fn secrets_are_not_printed() {
        let clock: SharedClock = Arc::new(ManualClock::new());
        let identity = Identity::fixed("AKID", &Secret::new("hush"), None, &clock);
        assert!(!format!("{identity:?}").contains("hush"));
    }
}
