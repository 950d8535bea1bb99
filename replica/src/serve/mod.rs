//! HTTP: requests into queries, batches into bytes, errors into problems.
//!
//! Reading order: `http` (routes), `params` (what a request may say), `run` (one query's task),
//! `format` (batches → bytes, with `json` and `plain`), `error` (every refusal, in one map).

mod error;
mod format;
mod http;
mod json;
mod params;
mod plain;
mod run;

pub(crate) use http::router;
pub(crate) use run::{Gate, Node};
