//! Arguments of `sealcast verify`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 0: everything checked is ok. 1: tampered or corrupt; each finding names the check, the
file and the byte. 2: something could not be checked, and nothing wrong was found in the rest.

Without a policy the keys that a store names are taken as they are: a store that was forged as a
whole, with keys of its own, passes. With one, the cluster log must be signed by the key that the
policy names and cosigned as its quorum asks, and every shard must stand in it.")]
pub(crate) struct VerifyArgs {
    /// A store (folder or URL), a writer's directory, a folder holding both, or one file: also a .tlog-proof with its leaf
    #[arg(value_name = "DIR|URL|FILE")]
    pub(crate) target: String,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Whom to trust: a C2SP tlog-policy file with the cluster log's key, and witnesses
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The key of the log alone, instead of a policy
    #[arg(long, value_name = "KEY", conflicts_with = "policy")]
    pub(crate) vkey: Option<String>,
    /// Of a proof: its log's keys (keys/<shard>.pub), when the key that is trusted was rotated
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// The leaf that a proof is about [default: FILE.leaf.cbor beside FILE.tlog-proof]
    #[arg(long, value_name = "FILE")]
    pub(crate) leaf: Option<PathBuf>,
    /// What was seen before: made at the first time, and from then on a store that is older, shorter
    /// or another one is tampered with
    #[arg(long, value_name = "FILE")]
    pub(crate) trust_state: Option<PathBuf>,
    /// Begin a trust state with whatever keys the store names, without a policy
    #[arg(long, requires = "trust_state")]
    pub(crate) trust_on_first_use: bool,
    /// Where to save what was found tampered with [default: sealcast-evidence-<time>]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) evidence: Option<PathBuf>,
    /// Save nothing
    #[arg(long, conflicts_with = "evidence")]
    pub(crate) no_evidence: bool,
}
