//! Events by the page: `GET /v1/events`, a path of its own past SQL's planner.
//!
//! ```text
//! url ──asked──▶ filter ──walk──▶ picked rows ──render──▶ events, and a cursor for those after them
//! ```
//! Reading order: `asked` (what a URL may say), `cursor` (where a walk is, sealed), `place` (the one
//! order of all rows), `filter` (which rows), `run` (one tenant's rows of a segment, in order),
//! `walk` (all of them, merged), `page` (a page and its cursor), `render` (rows as JSON), `http`.
//!
//! A walk is pinned to the sizes that the shards had at its first page: what arrives later is not in
//! it, on whichever replica it goes on.

mod asked;
mod cursor;
mod filter;
mod http;
mod openapi;
mod page;
mod place;
mod render;
mod run;
mod walk;

pub(crate) use cursor::CursorKey;
pub(crate) use http::routes;
pub(crate) use openapi::{event_schema, pages as openapi};
