//! The contract between the roles: what they must agree on, byte for byte or decision for decision.
//!
//! Reading order: [`event`] (what is sent and hashed), [`integrity`] (tree, notes, signer),
//! [`wal`] (the tail), [`segment`] (the sealed file), [`catalog`] (commits and what they add up
//! to), [`routing`], [`wire`] (what travels by HTTP), [`layout`] (a writer's folder), then the
//! seams [`clock`] and [`durable`] (together: [`seams`]), and the bounds in [`limits`]. With
//! features: `bucket` (object stores, [`trust`]: what a follower remembers) `serve` (HTTP
//! servers) and `access` (tokens alone).

#[cfg(feature = "bucket")]
pub mod bucket;
pub mod catalog;
pub mod cbor;
pub mod checked;
pub mod clock;
pub mod cluster;
pub mod durable;
pub mod event;
pub mod fault;
pub mod integrity;
pub mod layout;
pub mod limits;
pub mod routing;
pub mod seams;
pub mod segment;
#[cfg(feature = "access")]
pub mod serve;
#[cfg(feature = "bucket")]
pub mod trust;
pub mod wal;
pub mod wire;
