//! From the first byte to the first statement: encryption, cancellation, who asks, what is told.

use std::sync::Arc;
use std::time::Duration;

use sealcast_common::limits::HANDSHAKE_MS_MAX;
use sealcast_common::serve::access::Access;
use sealcast_common::serve::{Duplex, Knock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::message::{Body, Malformed};
use super::session::{Block, Session, Trouble, denied, may_query};
use super::settings::Settings;
use super::state::Refusal;
use super::wire::Wire;
use super::{CONNECTIONS_MAX, Server};
use crate::metrics;
use crate::sql::{CATALOG, EVENTS_SCHEMA};

const SSL: i32 = 80_877_103;
const GSS: i32 = 80_877_104;
const CANCEL: i32 = 80_877_102;
/// The version that is spoken, and the first bytes of all that are understood.
const VERSION: i32 = 3 << 16;
/// What precedes a login, and a password.
const STARTUP_BYTES_MAX: usize = 10_000;
const PASSWORD_BYTES_MAX: usize = 1_024;
/// Questions before the login: for TLS, for GSS, and one more.
const ROUNDS_MAX: usize = 3;
/// The first byte of a handshake.
const HANDSHAKE: u8 = 0x16;

/// What a client says of itself.
struct Startup {
    wire: Wire,
    version: i32,
    parameters: Vec<(String, String)>,
}

/// Serves a connection from its first byte to its end.
pub(super) async fn open(server: Arc<Server>, knock: Knock, stop: CancellationToken) {
    let access = knock.access.clone();
    // Who says nothing, or not enough, holds no place for long.
    let patience = Duration::from_millis(HANDSHAKE_MS_MAX);
    let greeting = tokio::time::timeout(patience, Box::pin(enter(&server, knock, access)));
    let entered = stop.run_until_cancelled(greeting).await;
    if let Some(Ok(Some(session))) = entered {
        let _counted = metrics::PostgresConnection::new();
        Box::pin(session.run(stop)).await;
    }
}

async fn enter(server: &Arc<Server>, knock: Knock, access: Access) -> Option<Session> {
    let startup = greet(server, knock).await?;
    let mut wire = startup.wire;
    match Box::pin(login(server, &mut wire, startup.version, startup.parameters, access)).await {
        Ok(entry) => {
            metrics::postgres_login("ok");
            let Entry { access, password, grant, key, settings, place } = entry;
            Some(Session {
                server: Arc::clone(server),
                wire,
                access,
                password,
                grant,
                key,
                settings,
                block: Block::Outside,
                statements: Default::default(),
                portals: Default::default(),
                text: String::new(),
                skipping: false,
                _place: place,
            })
        }
        Err(Trouble::Gone) => None,
        Err(Trouble::Refused(refusal)) => {
            metrics::postgres_login(refusal.state);
            refusal.write(&mut wire.out);
            wire.close().await;
            None
        }
    }
}

/// What is said before a login. Nothing is read ahead, so that nothing which came in plain text is
/// taken for something that came by TLS.
async fn greet(server: &Server, mut knock: Knock) -> Option<Startup> {
    let _fast = knock.stream.set_nodelay(true);
    let locked = knock.is_locked();
    let mut first = [0];
    if locked && knock.stream.peek(&mut first).await.ok()? == 1 && first[0] == HANDSHAKE {
        let (stream, named) = knock.secure().await?;
        // Somebody else's protocol would be a mix-up of ports, or of what was said to whom.
        return if named { secured(server, stream).await } else { None };
    }
    for _ in 0..ROUNDS_MAX {
        let length = knock.stream.read_i32().await.ok()?;
        let code = knock.stream.read_i32().await.ok()?;
        match code {
            SSL if locked && length == 8 => {
                knock.stream.write_all(b"S").await.ok()?;
                let (stream, _) = knock.secure().await?;
                return secured(server, stream).await;
            }
            SSL | GSS if length == 8 => knock.stream.write_all(b"N").await.ok()?,
            CANCEL if length == 16 => {
                let process = knock.stream.read_i32().await.ok()?;
                let secret = knock.stream.read_i32().await.ok()?;
                server.keys.cancel(process, secret, &server.node.queries);
                return None;
            }
            version => {
                let rest = usize::try_from(length).ok()?.checked_sub(8)?;
                let mut opened = startup(Wire::new(Box::new(knock.stream)), version, rest).await?;
                if locked {
                    metrics::postgres_login("28000");
                    let message = "this server takes TLS connections only";
                    Refusal::fatal("28000", message)
                        .hint("set sslmode=require, or verify-full")
                        .write(&mut opened.wire.out);
                    opened.wire.close().await;
                    return None;
                }
                return Some(opened);
            }
        }
    }
    None
}

/// What is said first within TLS.
async fn secured(server: &Server, mut stream: Box<dyn Duplex>) -> Option<Startup> {
    let length = stream.read_i32().await.ok()?;
    let code = stream.read_i32().await.ok()?;
    if code == CANCEL {
        let process = stream.read_i32().await.ok()?;
        let secret = stream.read_i32().await.ok()?;
        server.keys.cancel(process, secret, &server.node.queries);
        return None;
    }
    let rest = usize::try_from(length).ok()?.checked_sub(8)?;
    startup(Wire::new(stream), code, rest).await
}

async fn startup(mut wire: Wire, version: i32, rest: usize) -> Option<Startup> {
    if rest > STARTUP_BYTES_MAX {
        return None;
    }
    let bytes = wire.exactly(rest).await.ok()?;
    match parameters(&bytes) {
        Ok(parameters) => Some(Startup { wire, version, parameters }),
        Err(malformed) => {
            Refusal::fatal("08P01", malformed.to_string()).write(&mut wire.out);
            wire.close().await;
            None
        }
    }
}

fn parameters(bytes: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
    let mut body = Body(bytes);
    let mut parameters = Vec::new();
    loop {
        let name = body.text()?;
        if name.is_empty() {
            return Ok(parameters);
        }
        parameters.push((name, body.text()?));
    }
}

struct Entry {
    access: Access,
    password: String,
    grant: Arc<sealcast_common::serve::access::Grant>,
    key: super::cancel::Key,
    settings: Settings,
    place: tokio::sync::OwnedSemaphorePermit,
}

async fn login(
    server: &Arc<Server>,
    wire: &mut Wire,
    version: i32,
    parameters: Vec<(String, String)>,
    access: Access,
) -> Result<Entry, Trouble> {
    negotiate(wire, version, &parameters)?;
    let password = if access.is_open() { String::new() } else { ask(wire).await? };
    let grant = access.authenticate_password(&password).map_err(|error| denied(&error))?;
    may_query(&grant)?;
    let place = Arc::clone(&server.places).try_acquire_owned().map_err(|_| {
        Refusal::fatal("53300", format!("{CONNECTIONS_MAX} connections are open already"))
    })?;
    let settings = settings(&parameters)?;
    let key = server.keys.fresh(&*server.random, &grant);
    wire.out.begin(b'R');
    wire.out.i32(0);
    wire.out.end();
    for (name, value) in settings.reported() {
        wire.out.parameter(name, value);
    }
    wire.out.begin(b'K');
    wire.out.i32(key.process);
    wire.out.i32(key.secret);
    wire.out.end();
    wire.out.ready(b'I');
    wire.flush().await?;
    Ok(Entry { access, password, grant, key, settings, place })
}

/// Which version is spoken, and which wishes of newer ones are not known.
fn negotiate(
    wire: &mut Wire,
    version: i32,
    parameters: &[(String, String)],
) -> Result<(), Refusal> {
    if version >> 16 != 3 {
        let found = format!("{}.{}", version >> 16, version & 0xffff);
        let message = format!("protocol {found} is not spoken here; expected 3.0");
        return Err(Refusal::fatal("0A000", message));
    }
    let newer: Vec<&str> = parameters
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| name.starts_with("_pq_."))
        .collect();
    if version != VERSION || !newer.is_empty() {
        wire.out.begin(b'v');
        wire.out.i32(VERSION);
        wire.out.i32(i32::try_from(newer.len()).unwrap_or(i32::MAX));
        newer.iter().for_each(|name| wire.out.text(name));
        wire.out.end();
    }
    Ok(())
}

/// Asks for the token, as it is: other ways would need it in the tokens file, where its hash is.
async fn ask(wire: &mut Wire) -> Result<String, Trouble> {
    const CLEARTEXT: i32 = 3;
    wire.out.begin(b'R');
    wire.out.i32(CLEARTEXT);
    wire.out.end();
    wire.flush().await?;
    let (tag, body) = wire.message(PASSWORD_BYTES_MAX).await?;
    if tag != b'p' {
        return Err(Malformed("is no password, which was asked for").into());
    }
    Ok(Body(&body).text()?)
}

/// What a client sets with its start.
fn settings(parameters: &[(String, String)]) -> Result<Settings, Refusal> {
    let mut settings = Settings::default();
    let user = parameters.iter().find(|(name, _)| name == "user").map(|(_, value)| value.as_str());
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "replication" => {}
            "database" => {
                // Clients that are told none take the user's name.
                let known = ["", CATALOG, EVENTS_SCHEMA, "postgres"];
                if !known.contains(&value.as_str()) && Some(value.as_str()) != user {
                    let shown: String = value.chars().take(64).collect();
                    let message = format!("database {shown:?} does not exist; expected {CATALOG}");
                    return Err(Refusal::fatal("3D000", message));
                }
            }
            "options" => options(&mut settings, value)?,
            newer if newer.starts_with("_pq_.") => {}
            // Told and not meant: a client's own zone is its own matter.
            _ => {
                let _warning = settings.set(name, value).map_err(ended)?;
            }
        }
    }
    Ok(settings)
}

/// `-c name=value`, as PGOPTIONS has it.
fn options(settings: &mut Settings, text: &str) -> Result<(), Refusal> {
    for word in text.split_whitespace() {
        let pair = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")).unwrap_or(word);
        if let Some((name, value)) = pair.split_once('=') {
            settings.set(name, value).map_err(ended)?;
        }
    }
    Ok(())
}

fn ended(mut refusal: Refusal) -> Refusal {
    refusal.fatal = true;
    refusal
}
