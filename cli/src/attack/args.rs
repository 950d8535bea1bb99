//! Arguments of `sealcast attack-demo`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
A small cluster is made by real roles, and an auditor with a policy and a trust state looks at it.
Then, for each attack, a copy is changed by somebody with the access and the keys that are named, who
knows the formats as well as we do, and the auditor looks again. Exit code 0: every attack was found
by a check that is meant to. 1: one was not.")]
pub(crate) struct AttackDemoArgs {
    /// Keep the cluster and the attacked copies here [default: removed in the end]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
    /// Only attacks whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) only: String,
    /// Print one JSON object per attack
    #[arg(long)]
    pub(crate) json: bool,
}
