//! The replica through its HTTP surface, over real files in a real store folder.

mod answers;
mod caching;
mod comfort;
mod escapes;
mod flight;
mod hostile;
mod influx;
mod kit;
mod lifecycle;
mod limits;
mod pages;
mod plans;
mod postgres;
mod proofs;
mod pruning;
mod refusals;
mod streams;
mod strict;
