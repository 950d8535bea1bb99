//! What can be typed: commands, flags, their environment variables, examples.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Where a writer listens by default.
pub(crate) const WRITER_URL: &str = "http://127.0.0.1:7070";
/// Where a replica listens by default.
pub(crate) const REPLICA_URL: &str = "http://127.0.0.1:7080";
/// Stands after a command's own options in its help.
const GLOBAL: &str = "Everywhere";

/// Sealcast: a tamper-evident event log with verified read replicas.
#[derive(Debug, Parser)]
#[command(
    name = "sealcast",
    version,
    about,
    arg_required_else_help = true,
    after_help = "\
Start here:
  sealcast demo                      everything in one process, with example events
  sealcast dev                       all roles until Ctrl-C
  sealcast import logs/ --writer http://127.0.0.1:7070
  sealcast sql 'select action, count(*) from events group by 1 order by 2 desc limit 5'
  sealcast verify ./sealcast-data    trust nobody: check every byte, row and signature
  sealcast doctor                    is this machine fit to run it?

Settings come from a TOML file (--config), below SEALCAST_* variables, below flags."
)]
pub(crate) struct Cli {
    /// TOML file with sections [writer], [shipper], [replica], [witness], [access]
    #[arg(long, global = true, env = "SEALCAST_CONFIG", value_name = "FILE", help_heading = GLOBAL)]
    pub(crate) config: Option<PathBuf>,
    /// Log filter, for example `info` or `sealcast_writer=debug,warn`
    #[arg(long, global = true, env = "SEALCAST_LOG", value_name = "FILTER", help_heading = GLOBAL)]
    pub(crate) log: Option<String>,
    /// Log lines: text or json
    #[cfg(feature = "roles")]
    #[arg(long, global = true, env = "SEALCAST_LOG_FORMAT", default_value = "text",
          value_name = "FORMAT", help_heading = GLOBAL)]
    pub(crate) log_format: sealcast_common::serve::LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start everything, load events, query and verify them
    #[cfg(feature = "roles")]
    Demo(DemoArgs),
    /// All roles in one process until Ctrl-C
    #[cfg(feature = "roles")]
    Dev(DevArgs),
    /// The writer: takes events over HTTP, seals segments
    #[cfg(feature = "roles")]
    Writer(sealcast_writer::Args),
    /// The shipper: copies sealed segments to the object store
    #[cfg(feature = "roles")]
    Shipper(sealcast_shipper::Args),
    /// The replica: follows the store, verifies, answers SQL
    #[cfg(feature = "roles")]
    Replica(sealcast_replica::Args),
    /// The witness: cosigns checkpoints of logs, so that they cannot show two histories
    #[cfg(feature = "roles")]
    Witness(sealcast_witness::Args),
    /// The signer: the shards' keys in a process and a user of their own
    #[cfg(feature = "roles")]
    Signer(SignerArgs),
    /// Send log files to a writer: CloudTrail, NDJSON, JSON arrays, plain, gz or zst
    Import(ImportArgs),
    /// Ask a replica: one statement, or a prompt
    Sql(SqlArgs),
    /// Seal every tail now and print the token that queries can wait for
    Flush(FlushArgs),
    /// Check a store, a data directory or a file; 0 ok, 1 tampered, 2 cannot check
    Verify(crate::verify::VerifyArgs),
    /// Attack a copy of a cluster in every way that is known, and show what finds it
    #[cfg(feature = "roles")]
    AttackDemo(crate::attack::AttackDemoArgs),
    /// Write a shard's log as static files (C2SP tiles) that others' tools verify
    ExportLog(crate::export::ExportLogArgs),
    /// Write the proof of one row, and its leaf
    Prove(crate::export::ProveArgs),
    /// Say what is in a segment, log, note or commit record
    Inspect(InspectArgs),
    /// Show, make and take over signing keys and what they have signed
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Make, list and revoke the tokens that servers accept
    #[command(subcommand)]
    Token(TokenCommand),
    /// Judge an object store
    #[command(subcommand)]
    Store(StoreCommand),
    /// Check settings, or show those in force and where each came from
    #[cfg(feature = "roles")]
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Examine this machine: clock, file system, limits, store, TLS, ports
    #[cfg(feature = "roles")]
    Doctor(DoctorArgs),
    /// Ask a role whether it is ready; 0 ready, 1 not
    Health(HealthArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "For example: sealcast completions bash > /etc/bash_completion.d/sealcast"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write a page for every command
    Man(ManArgs),
    /// Measure ingest, sealing, verification, freshness and queries on this machine
    #[cfg(feature = "roles")]
    Bench(crate::bench::BenchArgs),
}

#[cfg(feature = "roles")]
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Load these files or folders instead of generated events
    #[arg(long, num_args = 1.., value_name = "FILE|DIR")]
    pub(crate) from: Vec<PathBuf>,
    /// How many events to generate
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub(crate) events: usize,
    /// Keep the data here (default: a temporary folder, removed at the end)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// End after the queries instead of serving on
    #[arg(long)]
    pub(crate) exit: bool,
}

#[cfg(feature = "roles")]
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Data folder: writer/, store/ and replica/ lie in it
    #[arg(long, default_value = "./sealcast-data", env = "SEALCAST_DEV_DIR", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Object store: a folder or a URL (default: DIR/store)
    #[arg(long, env = "SEALCAST_DEV_STORE", value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Writer's address
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDRESS")]
    pub(crate) writer_http: String,
    /// Shipper's address
    #[arg(long, default_value = "127.0.0.1:7071", value_name = "ADDRESS")]
    pub(crate) shipper_http: String,
    /// Replica's address
    #[arg(long, default_value = "127.0.0.1:7080", value_name = "ADDRESS")]
    pub(crate) replica_http: String,
    /// Replica's address for Arrow Flight SQL alone, or none: the replica's other address serves it too
    #[arg(long, default_value = "127.0.0.1:7081", value_name = "ADDRESS")]
    pub(crate) flight: String,
    /// Replica's address for PostgreSQL's protocol, or none
    #[arg(long, visible_alias = "pg", default_value = "127.0.0.1:7082", value_name = "ADDRESS")]
    pub(crate) postgres: String,
    /// Serve without tokens; loopback addresses only
    #[arg(long)]
    pub(crate) no_auth: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Importing again adds nothing: CloudTrail's eventID is the event id, and records without an id get
one from their content. After an interruption, run the same command again; with --state, files that
were finished are not even read.")]
pub(crate) struct ImportArgs {
    /// Files, or folders that are searched for .json, .ndjson, .jsonl, .gz, .zst
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// The writer
    #[arg(long, default_value = WRITER_URL, env = "SEALCAST_WRITER", value_name = "URL")]
    pub(crate) writer: String,
    /// Remember finished files here
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Go on after a record that cannot be imported (they are listed; exit code 1)
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Events in one request
    #[arg(long, default_value_t = 500, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) batch: u32,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SqlFormat {
    Table,
    Json,
    Ndjson,
    Csv,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sealcast sql 'select count(*) from events'
  sealcast sql -p alice 'select time, action from events where actor_name = $1 order by time'
  sealcast sql --min \"$(sealcast flush --token)\" 'select max(time) from events'
  sealcast sql                       the prompt; \\? shows its commands")]
pub(crate) struct SqlArgs {
    /// The statement; without one, a prompt (or standard input if it is no terminal)
    #[arg(value_name = "SQL")]
    pub(crate) statement: Option<String>,
    /// The replica
    #[arg(long, default_value = REPLICA_URL, env = "SEALCAST_REPLICA", value_name = "URL")]
    pub(crate) replica: String,
    /// How rows are printed
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: SqlFormat,
    /// A value for $1, $2 … in order: JSON, or text if it is no JSON
    #[arg(short = 'p', long = "param", value_name = "VALUE")]
    pub(crate) params: Vec<String>,
    /// Wait until the replica holds what this token names
    #[arg(long, value_name = "TOKEN")]
    pub(crate) min: Option<String>,
    /// How long to wait for it, milliseconds
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub(crate) wait_ms: u64,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlushWait {
    /// Until the segments are sealed on the writer
    Sealed,
    /// Until they are committed in the object store
    Shipped,
}

#[derive(Debug, Args)]
pub(crate) struct FlushArgs {
    /// The writer
    #[arg(long, default_value = WRITER_URL, env = "SEALCAST_WRITER", value_name = "URL")]
    pub(crate) writer: String,
    /// How far to wait
    #[arg(long, value_enum, default_value = "sealed")]
    pub(crate) wait: FlushWait,
    /// Print the token alone
    #[arg(long)]
    pub(crate) token: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A .seg, .seg.zst, .wal or .note or .pack file, a commit record, a checkpoint object or a leaf of
    /// the cluster log
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Which sections are meant.
#[cfg(feature = "roles")]
#[derive(Debug, Args)]
pub(crate) struct RolesArgs {
    /// Only this section; may be repeated [default: all]
    #[arg(long, value_enum, value_name = "SECTION")]
    pub(crate) role: Vec<crate::settings::Section>,
    /// Flags as given to the role, after `--`
    #[arg(last = true, requires = "role", value_name = "FLAGS")]
    pub(crate) flags: Vec<String>,
}

#[cfg(feature = "roles")]
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Tell everything that is wrong; 0 right, 1 wrong, 2 the file cannot be read
    #[command(after_help = "\
Checks the file (--config), the SEALCAST_* variables and, after `--`, flags of one role:
  sealcast config check --config sealcast.toml
  sealcast config check --role writer -- --shards 8")]
    Check(RolesArgs),
    /// Print the settings in force as TOML
    Show {
        #[command(flatten)]
        roles: RolesArgs,
        /// Say behind each where it came from: default, file and line, variable, flag
        #[arg(long)]
        origin: bool,
    },
}

#[cfg(feature = "roles")]
#[derive(Debug, Args)]
#[command(after_help = "\
Without TARGET, what the settings name is examined: folders, stores, addresses, certificates.
Exit code 0: ok, or warnings only. 1: something failed.")]
pub(crate) struct DoctorArgs {
    /// One folder or store alone, instead of what the settings name
    #[arg(value_name = "DIR|URL")]
    pub(crate) target: Option<String>,
    /// Only what this role needs; may be repeated [default: all]
    #[arg(long, value_enum, value_name = "SECTION", conflicts_with = "target")]
    pub(crate) role: Vec<crate::settings::Section>,
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a client shows to a server, and whose certificate it believes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectArgs {
    /// Token of the server; the variable or --token-file keep it out of process lists
    #[arg(long, env = "SEALCAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) access_token: Option<String>,
    /// File with the token, one line
    #[arg(long, env = "SEALCAST_TOKEN_FILE", value_name = "FILE", conflicts_with = "access_token")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates (PEM) believed beside the system's
    #[arg(long, env = "SEALCAST_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

#[cfg(feature = "roles")]
#[derive(Debug, Args)]
#[command(after_help = "\
It signs only what continues what it has signed before, and refuses everything else with the reason:
whoever takes over the writer cannot sign another history. Run it as a user of its own, in a group
with the writer's user, and point the writer at it:
  sealcast signer --dir /var/lib/sealcast-signer --socket /run/sealcast/signer.sock \\
    --allow-uid \"$(id -u sealcast)\" --create prod/0000 --create prod/0001
  sealcast writer --cluster prod --shards 2 --signer unix:/run/sealcast/signer.sock
A log's name is <cluster>/<shard as four hex digits>. Never restore DIR from a backup that is older
than the last signature.")]
pub(crate) struct SignerArgs {
    /// Socket to answer on (mode 0660)
    #[arg(long, env = "SEALCAST_SIGNER_SOCKET", value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// Folder of the keys and of what they have signed (mode 0700)
    #[arg(long, env = "SEALCAST_SIGNER_DIR", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// User that may ask for signatures; may be repeated [default: the signer's own]
    #[arg(long, value_name = "UID")]
    pub(crate) allow_uid: Vec<u32>,
    /// Make the key of this log unless there is one, and print its public half; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) create: Vec<String>,
    /// Make a key for every log that an allowed user asks for
    #[arg(long)]
    pub(crate) new_keys: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List a writer's public keys and what each has signed
    Show {
        /// The writer's data directory
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Print a policy for auditors instead (C2SP tlog-policy): these keys, no witnesses
        #[arg(long)]
        policy: bool,
    },
    /// Make a key: the secret half into a file of mode 0600, the public half on standard output
    Generate {
        /// The name in signatures: a log's origin, a witness's or a shipper's name
        #[arg(value_name = "NAME")]
        name: String,
        /// File of the secret half; must not exist [default: NAME.key, `_` for `/`]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Give logs new keys, each handed over to by the old one
    Rotate(crate::commands::rotate::RotateArgs),
    /// Take the sealed data of a folder for what was signed: for a signer that remembers nothing
    #[command(after_help = "\
Verifies the shard first, shows size and root, then writes keys/<shard>.signed. Only for a folder
that is the newest copy there is: of an upgrade, or after a lost file. A memory that exists is never
replaced.")]
    Adopt {
        /// The writer's data directory; the writer must not run
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Only this shard [default: all that have no memory]
        #[arg(long, value_name = "N")]
        shard: Option<u16>,
        /// Show, write nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Add a token and print it, this once
    Create(TokenCreateArgs),
    /// List tokens: never their secrets
    List {
        /// Tokens file
        #[arg(long, env = "SEALCAST_TOKENS", value_name = "FILE")]
        tokens: PathBuf,
    },
    /// Take a token away: servers refuse it within seconds
    Revoke {
        /// Tokens file
        #[arg(long, env = "SEALCAST_TOKENS", value_name = "FILE")]
        tokens: PathBuf,
        /// The token's id, as list shows it: the part after `sc_`
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sealcast token create --tokens tokens.toml --name collector --role ingest --all-tenants
  sealcast token create --tokens tokens.toml --name acme-grafana --role query --tenant acme --expires 90d")]
#[command(group = clap::ArgGroup::new("whose").required(true).args(["tenant", "all_tenants"]))]
pub(crate) struct TokenCreateArgs {
    /// Tokens file; made if it is missing
    #[arg(long, env = "SEALCAST_TOKENS", value_name = "FILE")]
    pub(crate) tokens: PathBuf,
    /// For people: who or what it is for
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// ingest, query or admin; may be repeated
    #[arg(long, required = true, value_name = "ROLE")]
    pub(crate) role: Vec<sealcast_common::serve::access::Role>,
    /// Whose events; may be repeated
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Vec<String>,
    /// Everybody's events, also of tenants to come
    #[arg(long, conflicts_with = "tenant")]
    pub(crate) all_tenants: bool,
    /// For how long: 30d, 12h, 90m, 3600s [default: for ever]
    #[arg(long, value_name = "PERIOD", value_parser = crate::commands::token::period)]
    pub(crate) expires: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Base URL of a writer, shipper or replica
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Only whether the process answers (/livez), not whether it is ready
    #[arg(long)]
    pub(crate) live: bool,
    /// How long to wait, milliseconds
    #[arg(long, default_value_t = 5_000, value_name = "MS")]
    pub(crate) timeout_ms: u64,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write a page for every command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Try whether a store keeps the promises that commits rest on; 0 fit, 1 not fit, 2 cannot tell
    Probe(StoreProbeArgs),
    /// Make tiles and checkpoints' objects again from the rows, where they are lost or damaged
    #[command(after_help = "\
Every segment is verified in full first; what it gives is compared with what lies there. Nothing signed
is written, and no row. 0: all is there now; 1: a segment itself is damaged; 2: the store did not answer.
The cluster log's own tiles are its keeper's: they are not looked at.")]
    Mend {
        /// The store: a folder, file://, s3://, gs://, az://
        #[arg(value_name = "URL")]
        store: String,
        /// Show what differs, write nothing; 1 if anything does
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Credentials and endpoints come from the provider's usual variables (AWS_ACCESS_KEY_ID,
AWS_ENDPOINT, AWS_ALLOW_HTTP …). A few small objects are put under cap/ and removed again.")]
pub(crate) struct StoreProbeArgs {
    /// The store: a folder, file://, s3://, gs://, az://
    #[arg(value_name = "URL")]
    pub(crate) store: String,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
