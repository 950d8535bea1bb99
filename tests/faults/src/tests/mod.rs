//! The faults do what they say: a test that relies on a fault that never happens shows nothing.

mod files;
mod proxy;
mod recording;
mod store;
