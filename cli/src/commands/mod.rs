//! One file per command.

#[cfg(feature = "roles")]
mod access;
#[cfg(feature = "roles")]
pub(crate) mod attack;
pub(crate) mod completions;
#[cfg(feature = "roles")]
pub(crate) mod config;
#[cfg(feature = "roles")]
pub(crate) mod demo;
#[cfg(feature = "roles")]
pub(crate) mod dev;
#[cfg(feature = "roles")]
pub(crate) mod doctor;
pub(crate) mod export_log;
pub(crate) mod flush;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod keys;
#[cfg(feature = "roles")]
pub(crate) mod local;
mod prompt;
pub(crate) mod prove;
#[cfg(feature = "roles")]
pub(crate) mod roles;
pub(crate) mod rotate;
#[cfg(feature = "roles")]
pub(crate) mod signer;
pub(crate) mod sql;
pub(crate) mod store;
pub(crate) mod token;
pub(crate) mod verify;
