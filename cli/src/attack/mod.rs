//! `sealcast attack-demo`: every attack of the matrix, on a copy, and which check finds it.
//!
//! Reading order: `scene` (what is attacked), `insider` (who makes history anew with stolen keys),
//! `list` (the attacks), `hands` (what each does).

mod args;
mod hands;
mod insider;
mod list;
mod scene;

#[cfg(test)]
mod tests;

pub(crate) use args::AttackDemoArgs;
pub(crate) use insider::Stolen;
pub(crate) use list::{Attack, attacks};
pub(crate) use scene::Scene;

use crate::verify::Report;

impl Attack {
    /// The check that the attack is to be found by, if it was.
    pub(crate) fn found_by<'r>(
        &self,
        report: &'r Report,
    ) -> Option<&'r sealcast_common::fault::Corruption> {
        report.findings.iter().find(|found| self.checks.contains(&found.check))
    }
}
