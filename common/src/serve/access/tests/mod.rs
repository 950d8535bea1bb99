//! Tokens and their file, reloads, the guard.

mod door;
mod files;
mod reload;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::clock::{ManualClock, SeededRandom};
use crate::durable::RealFiles;
use crate::seams::Seams;

/// 2023-11-14T22:13:20Z.
const EPOCH: i64 = 1_700_000_000_000_000;
const SECOND: i64 = 1_000_000;

/// A tokens file in a temporary folder, and a clock that stands still.
struct Kit {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    seams: Seams,
}

impl Kit {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(EPOCH));
        let seams = Seams {
            clock: Arc::<ManualClock>::clone(&clock),
            random: Arc::new(SeededRandom::new(1)),
            files: Arc::new(RealFiles),
        };
        Kit { dir: tempfile::tempdir().unwrap(), clock, seams }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("tokens.toml")
    }

    fn create(&self, roles: &[Role], tenants: Tenants, expires_at: Option<Micros>) -> TokenText {
        let granted = ("somebody", roles.iter().copied().collect(), tenants);
        create_token(&self.path(), granted, expires_at, &self.seams).unwrap()
    }

    fn query(&self) -> TokenText {
        self.create(&[Role::Query], Tenants::All, None)
    }

    fn revoke(&self, token: &TokenText) {
        revoke_token(&self.path(), token.id(), &RealFiles).unwrap();
    }

    fn write(&self, text: &str) {
        write_secret(&self.path(), text);
    }
}

fn write_secret(path: &Path, text: &str) {
    crate::durable::replace_secret(&RealFiles, path, text.as_bytes()).unwrap();
}

fn only_tenants(names: &[&str]) -> Tenants {
    Tenants::Only(names.iter().map(|name| (*name).to_owned()).collect())
}
