//! What every role's server shares: problem documents, probes, configuration, logs, shutdown.

mod config;
mod probes;
mod problem;
mod server;
mod telemetry;

pub use config::{ConfigError, load_section, suggest};
pub use probes::{Health, probe_routes};
pub use problem::Problem;
pub use server::{Bound, ServeError, bind, serve, shutdown_signal};
pub use telemetry::{LogFormat, init_telemetry, metrics_text};
