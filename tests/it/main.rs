//! Whole paths through real processes: one binary, one module per story.

mod apart;
mod commands;
mod corruption;
mod demo;
mod path;
mod s3;
