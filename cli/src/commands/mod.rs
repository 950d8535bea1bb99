//! One file per command.

#[cfg(feature = "roles")]
pub(crate) mod demo;
#[cfg(feature = "roles")]
pub(crate) mod dev;
pub(crate) mod flush;
pub(crate) mod import;
pub(crate) mod inspect;
#[cfg(feature = "roles")]
mod local;
mod prompt;
#[cfg(feature = "roles")]
pub(crate) mod roles;
pub(crate) mod sql;
pub(crate) mod verify;
