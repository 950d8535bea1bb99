//! What every role's server shares: problem documents, probes, configuration, logs, shutdown. Feature
//! `access` alone gives tokens, for tools that link no server.

pub mod access;
#[cfg(feature = "serve")]
mod config;
#[cfg(feature = "serve")]
mod docs;
#[cfg(feature = "serve")]
pub mod grpc;
#[cfg(feature = "serve")]
mod metrics;
#[cfg(feature = "serve")]
pub mod openapi;
#[cfg(feature = "serve")]
mod probes;
#[cfg(feature = "serve")]
mod problem;
#[cfg(feature = "serve")]
mod server;
#[cfg(feature = "serve")]
mod telemetry;
#[cfg(feature = "serve")]
mod watch;

#[cfg(feature = "serve")]
pub use config::{ConfigError, SECTIONS, load_section, suggest, with_suggestion};
#[cfg(feature = "serve")]
pub use probes::{Health, probe_routes};
#[cfg(feature = "serve")]
pub use problem::Problem;
#[cfg(feature = "serve")]
pub use server::{
    Bound, CertificateText, Duplex, Knock, ServeError, Tls, TlsError, bind, serve, serve_raw,
    shutdown_signal,
};
#[cfg(feature = "serve")]
pub use telemetry::{LogFormat, init_telemetry, metrics_text};
