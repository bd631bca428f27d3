//! The Prometheus page.

use std::sync::Arc;
use std::time::Instant;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::apps::Apps;

/// Bounds of every latency histogram, in seconds: 50 microseconds to 30 seconds in doublings.
///
/// Hits take well under a millisecond, so that is where the resolution is.
const LATENCY_BOUNDS_S: [f64; 20] = [
    0.000_05, 0.000_1, 0.000_2, 0.000_4, 0.000_8, 0.001_6, 0.003_2, 0.006_4, 0.012_8, 0.025_6,
    0.051_2, 0.102_4, 0.204_8, 0.409_6, 0.819_2, 1.638_4, 3.276_8, 6.553_6, 13.107_2, 30.0,
];

/// Bounds of ages of what leaves the cache, in seconds: a minute to a month.
const AGE_BOUNDS_S: [f64; 10] = [
    60.0,
    600.0,
    3600.0,
    14_400.0,
    43_200.0,
    86_400.0,
    259_200.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
];

/// The recorder could not be installed.
#[derive(Debug)]
pub struct ExporterError(String);

impl std::fmt::Display for ExporterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "install the metrics recorder: {}", self.0)
    }
}

impl std::error::Error for ExporterError {}

/// Renders what the process has recorded.
#[derive(Clone)]
pub struct Exporter {
    recorded: PrometheusHandle,
    apps: Arc<Apps>,
}

impl Exporter {
    /// Installs the process-wide recorder. Once per process.
    pub fn install() -> Result<Self, ExporterError> {
        PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &LATENCY_BOUNDS_S)
            .and_then(|builder| {
                let ages = Matcher::Full("forebay_eviction_age_seconds".into());
                builder.set_buckets_for_metric(ages, &AGE_BOUNDS_S)
            })
            .and_then(PrometheusBuilder::install_recorder)
            .map(|recorded| Self { recorded, apps: Arc::default() })
            .map_err(|error| ExporterError(error.to_string()))
    }

    /// What each job reads; for the edge to count in.
    pub fn apps(&self) -> &Arc<Apps> {
        &self.apps
    }

    /// Folds recorded samples into their histograms and forgets jobs that are gone; between
    /// scrapes, somebody has to.
    pub fn upkeep(&self, now: Instant) {
        self.recorded.run_upkeep();
        self.apps.forget_idle(now);
    }

    /// The page in Prometheus' text format.
    pub fn render(&self) -> String {
        self.recorded.run_upkeep();
        self.recorded.render() + &self.apps.page()
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exporter")
    }
}
