//! All three roles in one process: what `demo` and `dev` run on.
//!
//! They still meet only in files, objects and HTTP; one process is for convenience.

use std::path::Path;

use sealcast_common::serve::access::AccessConfig;
use tokio_util::sync::CancellationToken;

use super::roles::{shipper_ended, writer_failure};
use crate::args::ConnectArgs;
use crate::client::Client;
use crate::output::{Failure, failed};

/// Where the roles listen.
pub(crate) struct Addresses {
    pub(crate) writer: String,
    pub(crate) shipper: String,
    pub(crate) replica: String,
    /// Of a port for Flight alone, or `none`.
    pub(crate) flight: String,
    /// Of a port for PostgreSQL's protocol, or `none`.
    pub(crate) postgres: String,
}

/// Running roles. Each has its own stop, so that they end in the order of the data.
pub(crate) struct Local {
    writer: sealcast_writer::Handle,
    shipper: sealcast_shipper::Handle,
    replica: sealcast_replica::Handle,
    stops: [CancellationToken; 3],
    access: AccessConfig,
}

impl Local {
    /// Starts writer, shipper and replica under `dir`, without tokens.
    pub(crate) async fn start(
        dir: &Path,
        store: &str,
        addresses: Addresses,
    ) -> Result<Self, Failure> {
        Box::pin(Self::start_locked(dir, store, addresses, AccessConfig::default())).await
    }

    /// Starts writer, shipper and replica under `dir`, behind the locks of `access`.
    pub(crate) async fn start_locked(
        dir: &Path,
        store: &str,
        addresses: Addresses,
        access: AccessConfig,
    ) -> Result<Self, Failure> {
        let stops = [CancellationToken::new(), CancellationToken::new(), CancellationToken::new()];
        let [stop_writer, stop_shipper, stop_replica] = stops.clone();
        let config = sealcast_writer::Config {
            dir: dir.join("writer"),
            http: addresses.writer,
            access: access.clone(),
            ..sealcast_writer::Config::default()
        };
        let writer = sealcast_writer::start(config, Default::default(), stop_writer);
        let writer = writer.await.map_err(|error| writer_failure(&error))?;
        let config = sealcast_shipper::Config {
            dir: dir.join("writer"),
            store: store.to_owned(),
            http: addresses.shipper,
            access: access.clone(),
            writer: Some(format!("http://{}", writer.http)),
            ..sealcast_shipper::Config::default()
        };
        let shipper = sealcast_shipper::start(config, Default::default(), stop_shipper);
        let shipper = shipper.await.map_err(failed)?;
        let config = sealcast_replica::Config {
            dir: dir.join("replica"),
            store: store.to_owned(),
            http: addresses.replica,
            flight: addresses.flight,
            postgres: addresses.postgres,
            access: access.clone(),
            shipper: vec![format!("http://{}", shipper.http)],
            ..sealcast_replica::Config::default()
        };
        let replica = sealcast_replica::start(config, Default::default(), stop_replica);
        let replica = replica.await.map_err(failed)?;
        Ok(Local { writer, shipper, replica, stops, access })
    }

    pub(crate) fn writer_url(&self) -> String {
        format!("http://{}", self.writer.http)
    }

    pub(crate) fn shipper_url(&self) -> String {
        format!("http://{}", self.shipper.http)
    }

    pub(crate) fn replica_url(&self) -> String {
        format!("http://{}", self.replica.http)
    }

    /// Where Arrow Flight is served: by HTTP's port too.
    pub(crate) fn flight_url(&self) -> String {
        format!("grpc://{}", self.replica.flight.unwrap_or(self.replica.http))
    }

    /// Where PostgreSQL's protocol is served, if it is.
    pub(crate) fn postgres_url(&self) -> Option<String> {
        self.replica.postgres.map(|address| format!("postgres://sealcast@{address}/sealcast"))
    }

    /// Stops in the order of the data: the writer seals its tails, the shipper ships them, the
    /// replica ends last.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        let [stop_writer, stop_shipper, stop_replica] = self.stops;
        let shipper_url = format!("http://{}", self.shipper.http);
        let token_file = self.access.peer_token_file;
        let connect = ConnectArgs { token_file, ..ConnectArgs::default() };
        stop_writer.cancel();
        let writer = self.writer.join().await.map_err(failed);
        // What cannot be shipped now stays sealed on disk and is shipped at the next start.
        let shipped = async { Client::open(&shipper_url, &connect)?.ship().await };
        if let Err(error) = shipped.await {
            tracing::warn!(error = error.message, "last segments not shipped");
        }
        stop_shipper.cancel();
        let shipper = self.shipper.join().await.map_err(failed);
        stop_replica.cancel();
        let replica = self.replica.join().await.map_err(failed);
        // All three have ended before the first trouble is told.
        writer?;
        shipper_ended(&shipper?)?;
        replica?;
        Ok(())
    }
}
