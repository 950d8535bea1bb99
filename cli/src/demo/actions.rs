//! What actors do: actions, what they touch, and the details that go into `attributes`.

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::cast::{Kind, one_of, skewed, weighted};

/// The kinds of details in `attributes`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    SignIn,
    Billing,
    Storage,
    Admin,
    Export,
}

/// Who does it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Anyone,
    People,
}

pub(super) struct Action {
    pub(super) name: &'static str,
    pub(super) category: &'static str,
    pub(super) service: &'static str,
    pub(super) target: &'static str,
    /// What is said about it: the message is "<actor> <verb> <target>".
    pub(super) verb: &'static str,
    /// When it succeeds; OpenTelemetry's 9 is "info".
    pub(super) severity: u8,
    pub(super) detail: Detail,
    who: Who,
    weight: u32,
}

/// A line of the table below.
const fn action(
    (name, category, service): (&'static str, &'static str, &'static str),
    (target, verb): (&'static str, &'static str),
    severity: u8,
    detail: Detail,
    who: Who,
    weight: u32,
) -> Action {
    Action { name, category, service, target, verb, severity, detail, who, weight }
}

#[rustfmt::skip] // a table reads best with a row per line
static ACTIONS: [Action; 25] = {
    use Detail::{Admin, Billing, Export, SignIn, Storage};
    use Who::{Anyone, People};
    [
        action(("user.login", "auth", "identity"), ("application", "signed in to"), 9, SignIn, People, 150),
        action(("user.logout", "auth", "identity"), ("application", "signed out of"), 9, SignIn, People, 70),
        action(("user.mfa_challenge", "auth", "identity"), ("device", "answered a challenge on"), 9, SignIn, People, 50),
        action(("token.refresh", "auth", "identity"), ("application", "refreshed a token for"), 5, SignIn, Anyone, 90),
        action(("password.change", "auth", "identity"), ("user", "changed the password of"), 10, SignIn, People, 8),
        action(("invoice.create", "billing", "billing"), ("invoice", "created"), 9, Billing, Anyone, 35),
        action(("invoice.view", "billing", "billing"), ("invoice", "viewed"), 5, Billing, Anyone, 60),
        action(("payment.capture", "billing", "payments"), ("payment", "captured"), 9, Billing, Anyone, 35),
        action(("payment.refund", "billing", "payments"), ("payment", "refunded"), 10, Billing, Anyone, 9),
        action(("subscription.update", "billing", "billing"), ("subscription", "updated"), 9, Billing, Anyone, 9),
        action(("object.read", "storage", "files"), ("object", "read"), 5, Storage, Anyone, 210),
        action(("object.write", "storage", "files"), ("object", "wrote"), 9, Storage, Anyone, 110),
        action(("object.delete", "storage", "files"), ("object", "deleted"), 10, Storage, Anyone, 22),
        action(("object.share", "storage", "files"), ("object", "shared"), 10, Storage, People, 22),
        action(("bucket.policy_change", "storage", "files"), ("bucket", "changed the policy of"), 13, Storage, People, 4),
        action(("role.grant", "admin", "identity"), ("user", "granted a role to"), 13, Admin, People, 7),
        action(("role.revoke", "admin", "identity"), ("user", "revoked a role of"), 10, Admin, People, 5),
        action(("user.invite", "admin", "identity"), ("user", "invited"), 9, Admin, People, 9),
        action(("user.suspend", "admin", "identity"), ("user", "suspended"), 13, Admin, People, 2),
        action(("apikey.create", "admin", "identity"), ("api_key", "created"), 13, Admin, People, 6),
        action(("apikey.revoke", "admin", "identity"), ("api_key", "revoked"), 10, Admin, People, 4),
        action(("settings.update", "admin", "console"), ("setting", "updated"), 10, Admin, People, 12),
        action(("audit.query", "admin", "console"), ("report", "queried"), 9, Admin, Anyone, 14),
        action(("export.request", "data_export", "exports"), ("dataset", "requested an export of"), 10, Export, Anyone, 14),
        action(("export.download", "data_export", "exports"), ("dataset", "downloaded"), 10, Export, Anyone, 10),
    ]
};

impl Action {
    /// An action that this kind of actor does.
    pub(super) fn pick(kind: Kind, rng: &mut StdRng) -> &'static Action {
        let weight = |action: &Action| match action.who {
            Who::People if kind != Kind::User => 0,
            Who::People | Who::Anyone => action.weight,
        };
        &ACTIONS[weighted(ACTIONS.iter().map(weight), rng)]
    }

    /// One to three things that it touches, from a limited population, so that they meet again.
    pub(super) fn targets(&self, rng: &mut StdRng) -> Vec<Value> {
        let more = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2][rng.random_range(0..10_usize)];
        let main = target(self.target, 4_000, rng);
        let mut targets = vec![main];
        for (kind, population) in [("project", 60), ("folder", 400)].into_iter().take(more) {
            targets.push(target(kind, population, rng));
        }
        targets
    }

    pub(super) fn attributes(&self, outcome: &str, rng: &mut StdRng) -> Value {
        let duration_ms = f64::from(rng.random_range(150..90_000_u32)) / 100.0;
        let status = match outcome {
            "success" => 200,
            "denied" => 403,
            _ => 500,
        };
        let request = json!({ "duration_ms": duration_ms, "status": status });
        match self.detail {
            Detail::SignIn => json!({
                "method": one_of(&["password", "sso", "passkey"], rng),
                "mfa": rng.random_ratio(4, 5),
                "risk": f64::from(rng.random_range(0..100_u32)) / 100.0,
                "client": { "platform": one_of(&["web", "ios", "android", "desktop"], rng), "version": "4.12.0" },
            }),
            Detail::Billing => json!({
                "amount": { "currency": one_of(&["EUR", "USD", "KRW", "GBP"], rng), "minor_units": rng.random_range(100..900_000_u32) },
                "lines": rng.random_range(1..12_u32),
                "paid": rng.random_ratio(7, 10),
                "request": request,
            }),
            Detail::Storage => json!({
                "bytes": u64::from(rng.random_range(1..2_000_u32)) * u64::from(rng.random_range(1..4_000_u32)),
                "encrypted": true,
                "region": one_of(&["eu-west-1", "us-east-1", "ap-northeast-2"], rng),
                "request": request,
            }),
            Detail::Admin => json!({
                "approved": rng.random_ratio(9, 10),
                "change": { "field": one_of(&["role", "quota", "retention_days", "sso"], rng), "from": rng.random_range(0..30_u32), "to": rng.random_range(30..90_u32) },
            }),
            Detail::Export => {
                export(rng.random_range(10..50_000_u32), one_of(&["csv", "parquet", "json"], rng))
            }
        }
    }
}

/// The details of an export.
pub(super) fn export(rows: u32, format: &str) -> Value {
    json!({
        "bytes": u64::from(rows) * 412,
        "filter": { "columns": 18, "masked": false },
        "format": format,
        "rows": rows,
    })
}

fn target(kind: &str, population: u32, rng: &mut StdRng) -> Value {
    let number = skewed(population, rng);
    let id = format!("{kind}-{number:05}");
    if number.is_multiple_of(3) {
        json!({ "type": kind, "id": id })
    } else {
        json!({ "type": kind, "id": id, "name": format!("{kind} no. {number}") })
    }
}
