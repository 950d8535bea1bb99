//! Logs to standard error, metrics in Prometheus' text format: set up once a process.

use std::io::IsTerminal as _;
use std::str::FromStr;
use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("expected text or json".to_owned()),
        }
    }
}

fn recorder() -> Option<&'static PrometheusHandle> {
    static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let install = || {
        let handle = PrometheusBuilder::new().install_recorder().ok();
        super::metrics::describe();
        handle
    };
    HANDLE.get_or_init(install).as_ref()
}

/// Installs the log subscriber and the metrics recorder. `filter` is a `tracing` directive list
/// such as `info` or `sealcast_writer=debug,warn`. A second call in one process does nothing.
pub fn init_telemetry(format: LogFormat, filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        format!("log filter {filter:?} is invalid: {error}; expected for example `info`")
    })?;
    recorder();
    let registry = tracing_subscriber::registry().with(filter);
    let colours = std::io::stderr().is_terminal();
    let layer = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(std::io::stderr);
    let _already_set = match format {
        LogFormat::Text => registry.with(layer).try_init(),
        LogFormat::Json => {
            registry.with(layer.json().flatten_event(true).with_current_span(false)).try_init()
        }
    };
    Ok(())
}

/// Folds what histograms have gathered, which else grows until somebody scrapes.
pub(super) fn upkeep() {
    if let Some(handle) = recorder() {
        handle.run_upkeep();
    }
}

/// All metrics of the process.
pub fn metrics_text() -> String {
    upkeep();
    recorder().map(PrometheusHandle::render).unwrap_or_default()
}
