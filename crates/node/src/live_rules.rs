//! Bucket rules and keys while the worker runs: those of its file, until the cluster has some,
//! and whatever the cluster agrees on from then on. They change without a restart, secrets in
//! files included; what cannot be used is named once, and the rules before stay.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{SharedClock, spawn_blocking};
use forebay_s3::{BucketRules, Edge};
use forebay_types::{BucketName, RuleId, View};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::rules::parse;
use crate::config::{ConfigError, Environment, RuleSet, RulesFile};
use crate::origins::Origins;
use crate::status::BucketStatus;
use crate::wiring::{Runtime, connect_origins, edge_auth, edge_rule};
use crate::{StartError, probe};

/// How often files are looked at: a key that was taken away is let in for no longer.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What the rules of the moment are spread over.
pub(crate) struct LiveRules {
    pub(crate) edge_rules: Arc<BucketRules>,
    pub(crate) origins: Arc<Origins>,
    pub(crate) buckets: watch::Sender<Vec<BucketStatus>>,
    in_force: Mutex<Option<RuleSet>>,
}

/// Where rules are to be found.
pub(crate) struct RulesSource {
    /// The worker's own config file, if it has one.
    pub(crate) file: Option<RulesFile>,
    /// What the cluster agreed on; `None` for a worker that is alone.
    pub(crate) views: Option<watch::Receiver<Arc<View>>>,
}

/// Rules, and what should be known of them.
type Found = Option<(RuleSet, Vec<String>)>;

impl LiveRules {
    pub(crate) fn new(origins: Arc<Origins>) -> Arc<Self> {
        Arc::new(Self {
            edge_rules: Arc::new(BucketRules::new([])),
            origins,
            buckets: watch::Sender::new(Vec::new()),
            in_force: Mutex::new(None),
        })
    }

    /// The origin behind a bucket, and the bucket's name in metrics.
    pub(crate) fn rule_of(&self, bucket: &BucketName) -> Option<(RuleId, Arc<str>)> {
        self.edge_rules.of(bucket).map(|rule| (rule.rule, rule.label.clone()))
    }

    /// Bucket patterns, and the origins that place their blocks.
    pub(crate) fn placed(&self) -> Vec<(String, String)> {
        let table = self.origins.table();
        let named = table.by_bucket.iter().map(|(name, known)| (name.to_string(), known.rule));
        let rest = table.default.iter().map(|known| ("*".to_owned(), known.rule));
        named.chain(rest).map(|(name, rule)| (name, format!("{:016x}", rule.0))).collect()
    }

    /// Puts rules in force. Connects to new origins first; on an error the old rules stay.
    pub(crate) async fn apply(
        &self,
        rules: &RuleSet,
        edge: &Edge,
        runtime: &Runtime,
    ) -> Result<(), StartError> {
        // Other keys alone are no reason to leave the origins' connections.
        let same_buckets =
            self.in_force.lock().as_ref().is_some_and(|old| old.buckets == rules.buckets);
        if same_buckets {
            edge.replace_auth(edge_auth(&rules.auth));
        } else {
            let table = connect_origins(&rules.buckets, runtime).await?;
            let found = probe::origins(rules, &table, runtime.clock.as_ref()).await?;
            edge.replace_auth(edge_auth(&rules.auth));
            self.origins.replace(table);
            self.edge_rules.replace(rules.buckets.iter().map(edge_rule));
            self.buckets.send_replace(found);
        }
        *self.in_force.lock() = Some(rules.clone());
        Ok(())
    }

    /// Follows the rules for as long as the task lives.
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut source: RulesSource,
        edge: Arc<Edge>,
        runtime: Runtime,
    ) {
        let mut refused = Refused::default();
        loop {
            match source.read().await {
                Ok(Some((rules, warnings))) => {
                    refused.error = None;
                    self.take(&rules, &warnings, &mut refused, &edge, &runtime).await;
                }
                Ok(None) => {}
                Err(error) => refused.unreadable(&error, &source.name()),
            }
            if source.may_have_changed(&runtime.clock).await.is_err() {
                return;
            }
        }
    }

    async fn take(
        &self,
        rules: &RuleSet,
        warnings: &[String],
        refused: &mut Refused,
        edge: &Edge,
        runtime: &Runtime,
    ) {
        // What is wrong with rules will not pass by itself: they are not tried twice.
        if self.in_force.lock().as_ref() == Some(rules) {
            refused.rules = None;
            return;
        }
        if refused.rules.as_ref() == Some(rules) {
            return;
        }
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        match self.apply(rules, edge, runtime).await {
            Ok(()) => {
                refused.rules = None;
                tracing::info!(buckets = rules.buckets.len(), "other rules are in force");
            }
            Err(error) => {
                refused.rules = Some(rules.clone());
                tracing::error!(%error, "rules cannot be used here: the old ones stay");
            }
        }
    }
}

impl RulesSource {
    /// The rules of now: the cluster's, where it has some.
    async fn read(&mut self) -> Result<Found, ConfigError> {
        let agreed = self.views.as_mut().and_then(|views| views.borrow_and_update().rules.clone());
        let file = self.file.clone();
        let read = spawn_blocking(move || match (agreed, file) {
            (Some(agreed), _) => parse(&agreed.toml, &Environment::of_process()).map(Some),
            (None, Some(file)) => file.read(),
            (None, None) => Ok(None),
        });
        // The task ends in the midst only when the process does.
        read.await.unwrap_or(Ok(None))
    }

    /// Waits until it is worth looking again; an error where there is nobody to tell any more.
    async fn may_have_changed(
        &mut self,
        clock: &SharedClock,
    ) -> Result<(), watch::error::RecvError> {
        let Some(views) = &mut self.views else {
            clock.sleep(LOOK_EVERY).await;
            return Ok(());
        };
        tokio::select! {
            changed = views.changed() => changed,
            () = clock.sleep(LOOK_EVERY) => Ok(()),
        }
    }

    fn name(&self) -> String {
        let agreed = self.views.as_ref().and_then(|views| views.borrow().rules.clone());
        match (agreed, &self.file) {
            (Some(rules), _) => format!("the cluster's rules, version {}", rules.version),
            (None, Some(file)) => file.path().display().to_string(),
            (None, None) => String::new(),
        }
    }
}

/// What was said already, so that it is not said every time.
#[derive(Default)]
struct Refused {
    rules: Option<RuleSet>,
    error: Option<String>,
}

impl Refused {
    fn unreadable(&mut self, error: &ConfigError, source: &str) {
        let error = error.to_string();
        if self.error.as_ref() != Some(&error) {
            tracing::error!(source, error, "rules cannot be used here: the old ones stay");
            self.error = Some(error);
        }
    }
}
