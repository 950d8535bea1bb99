//! Placeholder.
pub mod demo;
pub mod import;
