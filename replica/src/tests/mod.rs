//! The replica through its HTTP surface, over real files in a real store folder.

mod answers;
mod kit;
mod lifecycle;
mod pruning;
mod refusals;
mod strict;
