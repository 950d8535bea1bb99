//! A shard's log for people who trust nobody: read, verified, and given in forms that the tools of
//! others read.
//!
//! Reading order: `log` (where rows lie and what is signed), `store` (a bucket's logs), `rows` (leaves
//! of a verified segment), `tree` (all of them once), `directory` (tiles as files), `files`, `mend` (a
//! store's own tiles, made again).

mod args;
mod directory;
mod files;
mod log;
mod mend;
mod rows;
mod store;
mod tree;

pub(crate) use args::{ExportLogArgs, ProveArgs, SourceArgs};
pub(crate) use directory::export;
pub(crate) use files::write_new;
pub(crate) use log::{ShardLog, shard_logs};
pub(crate) use mend::mend;
pub(crate) use tree::{check_proof, prove};

use crate::output::Failure;

/// Exit code for "nothing is known to be wrong, but it cannot be done".
pub(crate) const CANNOT: u8 = 2;

/// A failure that says nothing against anybody.
pub(crate) fn cannot(why: impl std::fmt::Display) -> Failure {
    Failure { code: CANNOT, ..Failure::new(why.to_string()) }
}
