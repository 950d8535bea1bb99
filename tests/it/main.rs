//! Whole paths through real processes: one binary, one module per story.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod apart;
mod commands;
mod corruption;
mod demo;
mod path;
mod s3;
