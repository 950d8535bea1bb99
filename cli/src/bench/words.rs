//! The vocabulary of the generated events: 60 actions, 300 user agents, words for free text.

/// Families of actions, and what is acted on.
pub(super) const FAMILIES: [(&str, &str); 12] = [
    ("auth", "session"),
    ("iam", "role"),
    ("storage", "object"),
    ("billing", "invoice"),
    ("compute", "instance"),
    ("network", "rule"),
    ("database", "table"),
    ("secrets", "secret"),
    ("deploy", "release"),
    ("support", "ticket"),
    ("files", "document"),
    ("admin", "setting"),
];

/// What is done: five verbs for each of the twelve families make sixty actions.
pub(super) const VERBS: [&str; 5] = ["read", "list", "update", "create", "delete"];

/// Clients, each in [`AGENT_VERSIONS`] versions: three hundred user agents.
pub(super) const AGENTS: [&str; 15] = [
    "Mozilla/5.0 (X11; Linux x86_64) Firefox",
    "Mozilla/5.0 (Macintosh) Safari",
    "Mozilla/5.0 (Windows NT 10.0) Chrome",
    "curl",
    "python-requests",
    "aws-sdk-go",
    "aws-sdk-java",
    "terraform-provider",
    "kubectl",
    "okhttp",
    "Go-http-client",
    "node-fetch",
    "git",
    "postman-runtime",
    "sealcast-sdk",
];

/// Versions of every client.
pub(super) const AGENT_VERSIONS: usize = 20;

/// Where it happened, the most frequent first.
pub(super) const REGIONS: [&str; 12] = [
    "us-east-1",
    "eu-west-1",
    "eu-central-1",
    "us-west-2",
    "us-east-2",
    "ap-northeast-1",
    "eu-north-1",
    "sa-east-1",
    "ca-central-1",
    "me-south-1",
    "af-south-1",
    "ap-south-1",
];

/// Why something was refused or failed.
pub(super) const REASONS: [&str; 6] =
    ["missing_permission", "bad_password", "mfa_required", "timeout", "conflict", "rate_limited"];

/// First half of a tenant's name.
pub(super) const TENANTS: [&str; 16] = [
    "acme", "birch", "cobalt", "delta", "ember", "fjord", "garnet", "harbor", "indigo", "juniper",
    "kelp", "lumen", "maple", "nimbus", "onyx", "prairie",
];

/// Words of free text.
pub(super) const WORDS: [&str; 48] = [
    "access",
    "policy",
    "changed",
    "by",
    "owner",
    "after",
    "review",
    "of",
    "quarterly",
    "report",
    "automatic",
    "rotation",
    "scheduled",
    "window",
    "pending",
    "approval",
    "from",
    "manager",
    "cluster",
    "scaled",
    "down",
    "during",
    "maintenance",
    "retry",
    "succeeded",
    "with",
    "backoff",
    "token",
    "refreshed",
    "for",
    "service",
    "account",
    "customer",
    "request",
    "ticket",
    "closed",
    "legacy",
    "client",
    "upgrade",
    "required",
    "export",
    "finished",
    "archive",
    "restored",
    "snapshot",
    "verified",
    "migration",
    "step",
];

/// What the substring search looks for: in one message and in one object of attributes of 5,000.
pub(super) const NEEDLE: &str = "break-glass";
