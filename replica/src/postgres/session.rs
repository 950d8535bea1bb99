//! One connection after its login: which message does what, and in which state.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use sealcast_common::serve::access::{Access, Denied, Grant, Role};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::cancel::Key;
use super::extended::{Portal, Statement};
use super::lexer::split;
use super::message::{Malformed, Message, decode};
use super::out::Described;
use super::settings::Settings;
use super::state::{Refusal, notice};
use super::value::{Column, format};
use super::wire::Wire;
use super::words::{ISOLATION, REPEATABLE, Wants, isolation, read};
use super::{MESSAGE_BYTES_MAX, Server};
use crate::metrics;
use crate::sql::PgType;

/// Why a message is not answered.
#[derive(Debug)]
pub(super) enum Trouble {
    Refused(Box<Refusal>),
    /// There is nobody to answer.
    Gone,
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Trouble::Refused(Box::new(refusal))
    }
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Trouble::Gone
    }
}

impl From<Malformed> for Trouble {
    fn from(malformed: Malformed) -> Self {
        Refusal::fatal("08P01", malformed.to_string()).into()
    }
}

/// Blocks of statements. There is nothing to undo in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    Outside,
    /// Each statement sees the newest snapshot.
    Inside,
    /// All of them see the one that the first of them saw.
    Repeatable,
    /// A statement of it was refused: so is the rest.
    Failed,
}

/// See the module. Not to be printed: it holds a token.
pub(super) struct Session {
    pub(super) server: Arc<Server>,
    pub(super) wire: Wire,
    pub(super) access: Access,
    /// The token, shown once and asked for again before each statement.
    pub(super) password: String,
    pub(super) grant: Arc<Grant>,
    pub(super) key: Key,
    pub(super) settings: Settings,
    pub(super) block: Block,
    /// Which state the statements of a repeatable block see.
    pub(super) as_of: Option<String>,
    pub(super) statements: HashMap<String, Statement>,
    pub(super) portals: HashMap<String, Portal>,
    /// What the client has sent as a whole, of which a statement is a part.
    pub(super) text: String,
    /// After a refusal, until the client says that it has seen it.
    pub(super) skipping: bool,
    pub(super) _place: OwnedSemaphorePermit,
}

/// How a refused token is told: nothing of what was shown.
pub(super) fn denied(denied: &Denied) -> Refusal {
    let problem = denied.problem();
    match denied {
        Denied::RoleMissing(_) | Denied::TenantDenied => Refusal::fatal("42501", problem.detail),
        _ => Refusal::fatal("28P01", "password authentication failed")
            .hint("the password is a token; `sealcast token create` makes one"),
    }
}

/// Whether `grant` may run SQL.
pub(super) fn may_query(grant: &Grant) -> Result<(), Refusal> {
    match grant.has(Role::Query) {
        true => Ok(()),
        false => Err(denied(&Denied::RoleMissing(&[Role::Query]))),
    }
}

impl Session {
    /// Serves the connection to its end.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let there = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    Refusal::fatal("57P01", "the replica is stopping").write(&mut self.wire.out);
                    break;
                }
                there = self.wire.wait() => there,
            };
            if !there {
                return;
            }
            match Box::pin(self.next()).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(Trouble::Gone) => return,
                Err(Trouble::Refused(refusal)) => {
                    self.refuse(&refusal);
                    // Told at once: a client may wait for it with no more than a `Flush`.
                    if refusal.fatal || self.wire.flush().await.is_err() {
                        break;
                    }
                }
            }
        }
        self.wire.close().await;
    }

    /// Answers the next message; false: it was the last.
    async fn next(&mut self) -> Result<bool, Trouble> {
        let (tag, body) = match self.wire.message(MESSAGE_BYTES_MAX).await {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(
                    Malformed("has a length that is none; expected 4 bytes to 1 MiB").into()
                );
            }
            read => read?,
        };
        let message = decode(tag, &body)?;
        match message {
            Message::Terminate => return Ok(false),
            Message::Sync => {
                self.skipping = false;
                if self.block == Block::Outside {
                    self.portals.retain(|_, portal| portal.hold);
                }
                self.ready().await?;
            }
            _ if self.skipping => {}
            Message::Query(sql) => self.simple(sql).await?,
            Message::Flush => self.wire.flush().await?,
            Message::Stray => {}
            other => self.extended(other).await.inspect_err(|_| self.skipping = true)?,
        }
        Ok(true)
    }

    fn refuse(&mut self, refusal: &Refusal) {
        metrics::postgres_statement(refusal.code);
        if matches!(self.block, Block::Inside | Block::Repeatable) {
            self.block = Block::Failed;
        }
        refusal.write(&mut self.wire.out);
    }

    async fn ready(&mut self) -> Result<(), Trouble> {
        let status = match self.block {
            Block::Outside => b'I',
            Block::Inside | Block::Repeatable => b'T',
            Block::Failed => b'E',
        };
        self.wire.out.ready(status);
        Ok(self.wire.flush().await?)
    }

    /// Statements in one text, answered in order up to the first refusal.
    async fn simple(&mut self, text: String) -> Result<(), Trouble> {
        self.text = text.clone();
        let pieces = split(&text);
        if pieces.is_empty() {
            self.wire.out.sign(b'I');
        }
        for piece in pieces {
            match Box::pin(self.one(piece)).await {
                Ok(()) => {}
                Err(Trouble::Refused(refusal)) if !refusal.fatal => {
                    self.refuse(&refusal);
                    break;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        self.portals.remove("");
        self.ready().await
    }

    async fn one(&mut self, sql: &str) -> Result<(), Trouble> {
        match self.wants(sql)? {
            Wants::Rows(sql) => {
                let mut answer = self.ask(&sql, None).await?;
                self.tell_columns(&answer.columns, &[]);
                let (rows, _) = answer.give(&mut self.wire, &[], None).await?;
                self.complete(&format!("SELECT {rows}"));
                Ok(())
            }
            other => self.other(other, true).await,
        }
    }

    /// What `sql` wants, if it may want anything now.
    pub(super) fn wants(&self, sql: &str) -> Result<Wants, Refusal> {
        let wants = read(sql)?;
        self.allow(&wants)?;
        Ok(wants)
    }

    /// After a refusal nothing goes on within a block.
    pub(super) fn allow(&self, wants: &Wants) -> Result<(), Refusal> {
        if self.block != Block::Failed || matches!(wants, Wants::Commit | Wants::Rollback) {
            return Ok(());
        }
        let message = "a statement of this block was refused: the rest is too, until ROLLBACK";
        Err(Refusal::new("25P02", message))
    }

    /// Whose connection it is, asked again: a token can be revoked meanwhile.
    pub(super) fn recognise(&mut self) -> Result<(), Refusal> {
        let found = self.access.authenticate_password(&self.password);
        self.grant = found.map_err(|error| denied(&error))?;
        may_query(&self.grant)
    }

    pub(super) fn complete(&mut self, tag: &str) {
        metrics::postgres_statement("ok");
        self.wire.out.complete(tag);
    }

    pub(super) fn tell_columns(&mut self, columns: &[Column], formats: &[i16]) {
        let all = columns.iter().enumerate();
        self.wire.out.columns(all.map(|(place, column)| -> Described<'_> {
            let (oid, size, ..) = column.kind.facts();
            (&column.name, oid, size, format(formats, place))
        }));
    }

    /// Columns of texts that are no query's.
    pub(super) fn texts(names: &[&str]) -> Vec<Column> {
        let text = |name: &&str| Column { name: (*name).to_owned(), kind: PgType::Text };
        names.iter().map(text).collect()
    }

    /// Whatever is no query. `whole`: with what its rows are made of.
    pub(super) async fn other(&mut self, wants: Wants, whole: bool) -> Result<(), Trouble> {
        match wants {
            Wants::Rows(sql) => return Err(Refusal::new("XX000", sql).into()),
            Wants::Set { name, value } => {
                if let Some(warning) = self.settings.set(&name, &value)? {
                    notice(&mut self.wire.out, warning);
                }
                if let Some(name) = Settings::reported_as(&name) {
                    let value = self.settings.get(name).unwrap_or_default();
                    self.wire.out.parameter(name, value);
                }
                self.complete("SET");
            }
            Wants::Reset(name) => {
                self.settings.reset(name.as_deref());
                self.complete("RESET");
            }
            Wants::Show(name) => self.show(&name, whole)?,
            Wants::Begin { repeatable } => {
                if self.block == Block::Outside {
                    let usual = || self.settings.get(ISOLATION).and_then(isolation);
                    self.begin(repeatable.or_else(usual).unwrap_or(false));
                } else {
                    notice(&mut self.wire.out, "a block is open already, and goes on");
                }
                self.complete("BEGIN");
            }
            Wants::Isolate { repeatable } => {
                if self.block != Block::Outside && self.as_of.is_none() {
                    self.begin(repeatable);
                }
                self.complete("SET");
            }
            Wants::Commit | Wants::Rollback => {
                let kept = wants == Wants::Commit && self.block != Block::Failed;
                (self.block, self.as_of) = (Block::Outside, None);
                self.portals.retain(|_, portal| portal.hold);
                self.complete(if kept { "COMMIT" } else { "ROLLBACK" });
            }
            Wants::Taken(tag) => self.complete(tag),
            Wants::Discard => {
                self.settings.reset(None);
                self.statements.clear();
                self.portals.clear();
                self.complete("DISCARD ALL");
            }
            Wants::Deallocate(name) => {
                match name {
                    Some(name) => drop(self.statements.remove(&name)),
                    None => self.statements.clear(),
                }
                self.complete("DEALLOCATE");
            }
            Wants::Declare { name, sql, hold } => self.declare(name, sql, hold)?,
            Wants::Fetch { name, count, given } => self.fetch(&name, count, (given, whole)).await?,
            Wants::CloseCursor(name) => {
                match name {
                    Some(name) => drop(self.portals.remove(&name)),
                    None => self.portals.clear(),
                }
                self.complete("CLOSE CURSOR");
            }
            Wants::Copy(copy) => {
                let mut answer = self.ask(&copy.sql, None).await?;
                let rows = answer.copy(&mut self.wire, &copy).await?;
                self.complete(&format!("COPY {rows}"));
            }
        }
        Ok(())
    }

    fn begin(&mut self, repeatable: bool) {
        self.block = if repeatable { Block::Repeatable } else { Block::Inside };
    }

    fn show(&mut self, name: &str, whole: bool) -> Result<(), Refusal> {
        let rows: Vec<Vec<String>> = match name {
            "all" => {
                let all = self.settings.all().into_iter();
                all.map(|(name, value)| vec![name.into(), value.into(), String::new()]).collect()
            }
            "transaction_isolation" if self.block == Block::Repeatable => {
                vec![vec![REPEATABLE.to_owned()]]
            }
            name => {
                let value = self
                    .settings
                    .get(name)
                    .ok_or_else(|| Refusal::new("42704", format!("setting {name} is not known")))?;
                vec![vec![value.to_owned()]]
            }
        };
        if whole {
            self.tell_columns(&shown(name), &[]);
        }
        for row in rows {
            let out = &mut self.wire.out;
            out.begin(b'D');
            out.i16(i16::try_from(row.len()).unwrap_or(i16::MAX));
            row.iter().for_each(|value| out.value(Some(value.as_bytes())));
            out.end();
        }
        self.complete("SHOW");
        Ok(())
    }
}

/// The columns of SHOW.
pub(super) fn shown(name: &str) -> Vec<Column> {
    match name {
        "all" => Session::texts(&["name", "setting", "description"]),
        name => Session::texts(&[name]),
    }
}
