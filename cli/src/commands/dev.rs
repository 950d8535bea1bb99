//! `sealcast dev`: all roles until Ctrl-C, on loopback.

use std::net::SocketAddr;
use std::path::Path;

use sealcast_common::serve::access::AccessConfig;

use super::access::{everything, locks};
use super::local::{Addresses, Local};
use super::roles::stop_on_signal;
use crate::args::DevArgs;
use crate::output::{Failure, line};

pub(crate) async fn run(args: DevArgs, config: Option<&Path>) -> Result<u8, Failure> {
    if config.is_some() {
        return Err(Failure::new("dev takes flags only, --config is for the roles by themselves")
            .hint("run `sealcast writer`, `shipper` and `replica` apart to use a file"));
    }
    let more = [&args.flight, &args.postgres];
    let more = more.into_iter().filter(|address| *address != "none");
    for address in
        [&args.writer_http, &args.shipper_http, &args.replica_http].into_iter().chain(more)
    {
        require_loopback(address)?;
    }
    let store = match &args.store {
        Some(store) => store.clone(),
        None => args.dir.join("store").display().to_string(),
    };
    let addresses = Addresses {
        writer: args.writer_http.clone(),
        shipper: args.shipper_http.clone(),
        replica: args.replica_http.clone(),
        flight: args.flight.clone(),
        postgres: args.postgres.clone(),
    };
    let (access, fresh) = match args.no_auth {
        true => (AccessConfig::default(), false),
        false => locks(&args.dir)?,
    };
    // Told before anything can fail: a token that is made and not shown would be lost.
    tell_access(&access, fresh)?;
    let local = Box::pin(Local::start_locked(&args.dir, &store, addresses, access)).await?;
    line(format!("data     {}", args.dir.display()));
    line(format!("store    {store}"));
    line(format!("writer   {}", local.writer_url()));
    line(format!("shipper  {}", local.shipper_url()));
    line(format!("replica  {}", local.replica_url()));
    line(format!("flight   {}", local.flight_url()));
    if let Some(url) = local.postgres_url() {
        line(format!("postgres {url}"));
    }
    line("ready; Ctrl-C seals, ships and ends");
    stop_on_signal().cancelled().await;
    local.stop().await?;
    Ok(0)
}

/// Who may do what here; the first time with a token for the person at the keyboard.
fn tell_access(access: &AccessConfig, fresh: bool) -> Result<(), Failure> {
    let token = if fresh { Some(everything(access, "dev", None)?) } else { None };
    match (&access.tokens, token) {
        (None, _) => line(
            "access   no tokens (--no-auth): whoever reaches these loopback ports may read and write",
        ),
        (Some(file), Some(token)) => {
            line(format!("access   tokens in {}; this one may do everything", file.display()));
            line("         and is shown this once:");
            line(format!("export SEALCAST_TOKEN={}", token.reveal()));
        }
        (Some(file), None) => line(format!(
            "access   tokens in {0}; another one: sealcast token create --tokens {0} --name me \
             --role ingest --role query --role admin --all-tenants",
            file.display()
        )),
    }
    Ok(())
}

/// Without TLS, nobody but this machine may reach a port.
fn require_loopback(address: &str) -> Result<(), Failure> {
    let loopback = match address.parse::<SocketAddr>() {
        Ok(address) => address.ip().is_loopback(),
        Err(_) => address.starts_with("localhost:"),
    };
    if loopback {
        return Ok(());
    }
    Err(Failure::new(format!("address {address} is not a loopback address"))
        .hint("dev serves plain text: expected 127.0.0.1:PORT, [::1]:PORT or localhost:PORT"))
}
