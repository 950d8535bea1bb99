//! What `sealcast demo` shows: realistic events without anybody's data.

mod actions;
mod cast;
mod clock;
mod generate;
mod stories;

#[cfg(test)]
mod tests;

pub use generate::Generator;
pub use stories::{BRUTE_FORCE, EXFILTRATION, Planted};
