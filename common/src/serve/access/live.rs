//! The grants in force: the tokens file, read again when it has changed.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderMap, HeaderValue, header};

use super::file::read;
use super::{Denied, Grant, TokenText, TokensError};
use crate::clock::Clock;
use crate::serve::Health;
use crate::serve::watch::{Pace, Stamp};

/// The reason, or note, under which a server speaks of its tokens file.
const HEALTH: &str = "tokens";
/// Of `Basic`: Go's clients of Arrow Flight leave the padding out.
const BASIC: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Of an `Authorization` header; a longer one is no token.
const CREDENTIALS_BYTES_MAX: usize = 1_024;

/// Who is let in. Cheap to clone; all clones see a reload.
#[derive(Clone, Debug)]
pub struct Access(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    Open(Arc<Grant>),
    Tokens(Tokens),
}

#[derive(Debug)]
struct Tokens {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    pace: Pace,
    health: Health,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    grants: HashMap<String, ([u8; 32], Arc<Grant>)>,
    /// The file that was read last, good or bad; `None`: it was missing.
    seen: Option<Stamp>,
}

impl Access {
    /// Everybody may do everything.
    pub fn open() -> Self {
        Access(Arc::new(Kind::Open(Arc::new(Grant::open()))))
    }

    /// Lets in whom the tokens file at `path` names. A broken file is an error now; a missing one
    /// lets nobody in until it is there.
    pub fn from_file(
        path: PathBuf,
        clock: Arc<dyn Clock>,
        health: Health,
    ) -> Result<Self, TokensError> {
        let pace = Pace::new(Arc::clone(&clock));
        let tokens = Tokens { path, clock, pace, health, state: RwLock::default() };
        match tokens.read() {
            Ok((seen, grants)) => tokens.take(State { grants, seen: Some(seen) }),
            Err(error) if error.is_missing() => tokens.lost(&error),
            Err(error) => return Err(error),
        }
        Ok(Access(Arc::new(Kind::Tokens(tokens))))
    }

    /// Whether everybody is let in.
    pub fn is_open(&self) -> bool {
        matches!(*self.0, Kind::Open(_))
    }

    /// Looks at the file again if it is time to.
    pub fn refresh(&self) {
        if let Kind::Tokens(tokens) = &*self.0 {
            tokens.refresh();
        }
    }

    /// Who asks, by `Authorization: Bearer TOKEN`, or `Basic` with the token as password.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Arc<Grant>, Denied> {
        let tokens = match &*self.0 {
            Kind::Open(grant) => return Ok(Arc::clone(grant)),
            Kind::Tokens(tokens) => tokens,
        };
        tokens.refresh();
        let mut stated = headers.get_all(header::AUTHORIZATION).iter();
        let credentials = stated.next().ok_or(Denied::TokenMissing)?;
        if stated.next().is_some() {
            return Err(Denied::TokenInvalid);
        }
        let credentials = credentials.to_str().map_err(|_| Denied::TokenInvalid)?;
        tokens.find(&token(credentials).ok_or(Denied::TokenInvalid)?)
    }

    /// Who asks, by a token alone: for protocols that have a password and no headers.
    pub fn authenticate_password(&self, password: &str) -> Result<Arc<Grant>, Denied> {
        let tokens = match &*self.0 {
            Kind::Open(grant) => return Ok(Arc::clone(grant)),
            Kind::Tokens(tokens) => tokens,
        };
        tokens.refresh();
        if password.len() > CREDENTIALS_BYTES_MAX {
            return Err(Denied::TokenInvalid);
        }
        tokens.find(&TokenText::parse(password).ok_or(Denied::TokenInvalid)?)
    }
}

/// What a client that has shown `headers` shall send from now on. Who needs no token gets a word
/// that is none: clients insist on one.
pub(super) fn bearer(headers: &HeaderMap) -> HeaderValue {
    let credentials = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = credentials.and_then(token).map(|token| format!("Bearer {}", token.reveal()));
    let value = shown.and_then(|text| HeaderValue::from_str(&text).ok());
    let mut value = value.unwrap_or_else(|| HeaderValue::from_static("Bearer open"));
    value.set_sensitive(true);
    value
}

fn token(credentials: &str) -> Option<TokenText> {
    if credentials.len() > CREDENTIALS_BYTES_MAX {
        return None;
    }
    let (scheme, value) = credentials.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return TokenText::parse(value);
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(BASIC.decode(value).ok()?).ok()?;
    TokenText::parse(pair.split_once(':')?.1)
}

type Grants = HashMap<String, ([u8; 32], Arc<Grant>)>;

impl Tokens {
    fn find(&self, token: &TokenText) -> Result<Arc<Grant>, Denied> {
        let found = match self.state.read() {
            Ok(state) => state.grants.get(token.id()).cloned(),
            Err(poisoned) => poisoned.into_inner().grants.get(token.id()).cloned(),
        };
        let (hash, grant) = found.ok_or(Denied::TokenInvalid)?;
        if !token.matches(&hash) {
            return Err(Denied::TokenInvalid);
        }
        match grant.expires_at {
            Some(end) if self.clock.now() >= end => Err(Denied::TokenExpired),
            _ => Ok(grant),
        }
    }

    fn read(&self) -> Result<(Stamp, Grants), TokensError> {
        let failed = |source| TokensError::Io { file: self.path.display().to_string(), source };
        let file = File::open(&self.path).map_err(failed)?;
        let stamp = file.metadata().map(|found| Stamp::of(&found)).map_err(failed)?;
        let mut grants = Grants::new();
        for entry in read(&self.path, file)? {
            let invalid = |reason: String| TokensError::invalid(&self.path, reason);
            let (hash, grant) = entry.grant().map_err(invalid)?;
            grants.insert(entry.id, (hash, Arc::new(grant)));
        }
        Ok((stamp, grants))
    }

    fn refresh(&self) {
        if !self.pace.is_due() {
            return;
        }
        let now = Stamp::at(&self.path);
        if now.as_ref().ok() == self.seen().as_ref() {
            return;
        }
        match self.read() {
            Ok((seen, grants)) => self.take(State { grants, seen: Some(seen) }),
            Err(error) if error.is_missing() => self.lost(&error),
            // What the system refuses now it may allow later: that is tried again.
            Err(error @ TokensError::Io { .. }) => self.keep(self.seen(), &error),
            Err(error) => self.keep(now.ok(), &error),
        }
    }

    fn seen(&self) -> Option<Stamp> {
        match self.state.read() {
            Ok(state) => state.seen.clone(),
            Err(poisoned) => poisoned.into_inner().seen.clone(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        match self.state.write() {
            Ok(mut state) => change(&mut state),
            Err(poisoned) => change(&mut poisoned.into_inner()),
        }
    }

    fn take(&self, state: State) {
        let count = state.grants.len();
        self.change(|old| *old = state);
        self.health.clear(HEALTH);
        reloaded("ok");
        metrics::gauge!("sealcast_access_tokens").set(count as f64);
        tracing::info!(file = %self.path.display(), tokens = count, "tokens read");
    }

    /// Nobody gets in: who takes the file away takes all tokens away.
    fn lost(&self, error: &TokensError) {
        self.change(|state| *state = State::default());
        self.health.not_ready(HEALTH, format!("{error}: nobody is let in"));
        reloaded("missing");
        metrics::gauge!("sealcast_access_tokens").set(0.0);
        tracing::error!(%error, "tokens lost");
    }

    /// An editor may be half-way: what was good goes on, and it is said aloud that it is old.
    fn keep(&self, seen: Option<Stamp>, error: &TokensError) {
        self.change(|state| state.seen = seen);
        self.health.note(HEALTH, format!("{error}: the tokens read before are in force"));
        reloaded("invalid");
        tracing::error!(%error, "tokens not read again");
    }
}

fn reloaded(result: &'static str) {
    metrics::counter!("sealcast_access_reloads_total", "result" => result).increment(1);
}
