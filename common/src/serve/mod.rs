//! What every role's server shares: problem documents, probes, configuration, logs, shutdown.

pub mod access;
mod config;
mod metrics;
pub mod openapi;
mod probes;
mod problem;
mod server;
mod telemetry;
mod watch;

pub use config::{ConfigError, SECTIONS, load_section, suggest, with_suggestion};
pub use probes::{Health, probe_routes};
pub use problem::Problem;
pub use server::{Bound, CertificateText, ServeError, Tls, TlsError, bind, serve, shutdown_signal};
pub use telemetry::{LogFormat, init_telemetry, metrics_text};
