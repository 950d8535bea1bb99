//! The rules. Each takes the tree and answers with what breaks it.

pub mod boundaries;
pub mod documents;
pub mod features;
pub mod manifests;
pub mod portable;
pub mod sources;
