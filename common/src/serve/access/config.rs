//! Settings of access, section `[access]`: the same for every role.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Access, Peer, Strangers, TokensError};
use crate::seams::Seams;
use crate::serve::server::{Bound, ServeError, Tls, TlsError, bind};
use crate::serve::{ConfigError, Health, load_section};

/// What flags and environment state.
#[derive(Clone, Debug, Default, Serialize, clap::Args)]
#[command(next_help_heading = "Access")]
pub struct AccessArgs {
    /// Tokens file; without one everybody is let in, on loopback only [default: none]
    #[arg(long, env = "SEALCAST_TOKENS", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<PathBuf>,
    /// Certificate chain of the server, PEM [default: none, plain text]
    #[arg(long, env = "SEALCAST_TLS_CERT", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, env = "SEALCAST_TLS_KEY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// Serve plain text beyond loopback: your word that something else encrypts [default: false]
    #[arg(long, env = "SEALCAST_ALLOW_PLAIN_TEXT", value_name = "BOOL", num_args = 0..=1,
          default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_plain_text: Option<bool>,
    /// Serve /metrics without a token [default: false]
    #[arg(long, env = "SEALCAST_METRICS_OPEN", value_name = "BOOL", num_args = 0..=1,
          default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_open: Option<bool>,
    /// File with the token that this role shows to others [default: none]
    #[arg(long, env = "SEALCAST_PEER_TOKEN_FILE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_token_file: Option<PathBuf>,
    /// Certificates (PEM) believed of others, beside the system's [default: none]
    #[arg(long, env = "SEALCAST_PEER_CA", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_ca: Option<PathBuf>,
}

/// The settings in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// Tokens file; without one everybody is let in, on loopback only.
    pub tokens: Option<PathBuf>,
    /// Certificate chain of the server, PEM.
    pub tls_cert: Option<PathBuf>,
    /// Its private key, PEM.
    pub tls_key: Option<PathBuf>,
    /// Serve plain text beyond loopback.
    pub allow_plain_text: bool,
    /// Serve `/metrics` without a token.
    pub metrics_open: bool,
    /// File with the token that this role shows to others.
    pub peer_token_file: Option<PathBuf>,
    /// Certificates believed of others, beside the system's.
    pub peer_ca: Option<PathBuf>,
}

/// Why a server does not open its door.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The tokens file is broken.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Everybody in the network could read and write.
    #[error(
        "address {address} is reachable from outside and no tokens are set; \
         set tokens (--tokens FILE), or listen on 127.0.0.1"
    )]
    Open {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// Everybody in the network could read tokens and events.
    #[error(
        "address {address} is reachable from outside and plain text; set tls_cert and tls_key, \
         or allow_plain_text = true if something else encrypts"
    )]
    Plain {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("setting {missing} is missing; expected tls_cert and tls_key together")]
    Half {
        /// What is not set.
        missing: &'static str,
    },
}

impl AccessConfig {
    /// Defaults, then `[access]` of `file`, then `args`.
    pub fn load(file: Option<&Path>, args: &AccessArgs) -> Result<Self, ConfigError> {
        load_section("access", file, args)
    }

    /// Listens on `address`, with the locks that these settings ask for. What is unsafe is refused.
    pub async fn bind(
        &self,
        address: &str,
        seams: &Seams,
        health: &Health,
    ) -> Result<Bound, ServeError> {
        let access = self.access(seams, health)?;
        let is_open = access.is_open();
        let bound = self.listen(address, access, false, seams, health).await?;
        let address = bound.address;
        if is_open && !address.ip().is_loopback() {
            return Err(AccessError::Open { address }.into());
        }
        if is_open {
            tracing::warn!(%address, "access open");
        }
        Ok(bound)
    }

    /// As [`AccessConfig::bind`], for a server that asks nobody for a token, because each request
    /// proves itself and each answer is for everybody. Tokens, where they are set, guard `/metrics`
    /// and the details of `/readyz`.
    pub async fn bind_public(
        &self,
        address: &str,
        seams: &Seams,
        health: &Health,
    ) -> Result<Bound, ServeError> {
        let access = self.access(seams, health)?;
        self.listen(address, access, true, seams, health).await
    }

    fn access(&self, seams: &Seams, health: &Health) -> Result<Access, AccessError> {
        match &self.tokens {
            None => Ok(Access::open()),
            Some(path) => {
                Ok(Access::from_file(path.clone(), Arc::clone(&seams.clock), health.clone())?)
            }
        }
    }

    async fn listen(
        &self,
        address: &str,
        access: Access,
        routes: bool,
        seams: &Seams,
        health: &Health,
    ) -> Result<Bound, ServeError> {
        let tls = self.tls(seams, health)?;
        let bound = bind(address).await?;
        let address = bound.address;
        // Tokens must not travel in plain text; without tokens there is nothing to hide.
        let shown = !access.is_open() && tls.is_none() && !self.allow_plain_text;
        if shown && !address.ip().is_loopback() {
            return Err(AccessError::Plain { address }.into());
        }
        Ok(bound.locked(access, tls, Strangers { metrics: self.metrics_open, routes }))
    }

    fn tls(&self, seams: &Seams, health: &Health) -> Result<Option<Tls>, AccessError> {
        match (&self.tls_cert, &self.tls_key) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(AccessError::Half { missing: "tls_key" }),
            (None, Some(_)) => Err(AccessError::Half { missing: "tls_cert" }),
            (Some(cert), Some(key)) => {
                let (clock, health) = (Arc::clone(&seams.clock), health.clone());
                Ok(Some(Tls::open(cert.clone(), key.clone(), clock, health)?))
            }
        }
    }

    /// What this role shows to others.
    pub fn peer(&self) -> Peer {
        Peer { token_file: self.peer_token_file.clone(), ca: self.peer_ca.clone() }
    }
}
