//! Whole paths through real processes: one binary, one module per story.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod access;
mod apart;
mod commands;
mod corruption;
mod counts;
mod demo;
mod deploy;
mod disk_full;
mod eviction;
mod fencing;
mod flight;
mod flight_tls;
mod hostile;
mod kills;
mod mapping;
mod matrix;
mod notebook;
mod openapi;
mod operator;
mod outage;
mod pages;
mod path;
mod postgres;
mod prefixes;
mod rotation;
mod s3;
mod signer;
mod slow;
mod steps;
mod strangers;
mod tls;
mod trust;
mod witness;
