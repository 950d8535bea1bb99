//! Two incidents that are planted among the ordinary events, for queries to find.

use serde_json::{Value, json};

use super::actions::export;

/// What a query will find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planted {
    pub tenant: &'static str,
    pub actor_id: &'static str,
    pub source_ip: &'static str,
}

/// One account, one address: many denied sign-ins, then one that succeeds.
pub const BRUTE_FORCE: Planted =
    Planted { tenant: "acme", actor_id: "finance.admin@acme.example", source_ip: "203.0.113.201" };

/// One account, one new address: a sign-in, a new key, large downloads, and the key is gone again.
pub const EXFILTRATION: Planted = Planted {
    tenant: "borealis",
    actor_id: "leo.brandt@borealis.example",
    source_ip: "198.51.100.222",
};

/// Fewer steps than this tell no story.
const STEPS_MIN: usize = 5;
/// Between two steps other events happen.
const STRIDE: usize = 3;

/// What a story says about one of its events; the rest is filled in like any other event's.
pub(super) struct Scene {
    pub(super) planted: Planted,
    pub(super) actor_name: &'static str,
    pub(super) user_agent: &'static str,
    pub(super) action: &'static str,
    pub(super) category: &'static str,
    pub(super) service: &'static str,
    pub(super) outcome: &'static str,
    pub(super) reason: Option<&'static str>,
    pub(super) severity: u8,
    pub(super) target: (&'static str, String),
    pub(super) message: String,
    pub(super) attributes: Value,
}

#[derive(Clone, Copy)]
enum Plot {
    BruteForce,
    Exfiltration,
}

/// When a story's steps take place.
#[derive(Clone, Copy)]
pub(super) struct Story {
    plot: Plot,
    first: usize,
    steps: usize,
}

/// The stories of a day with so many events.
pub(super) fn stories(events: usize) -> [Story; 2] {
    let long_enough = |steps: usize| if steps < STEPS_MIN { 0 } else { steps };
    [
        Story {
            plot: Plot::Exfiltration,
            first: events / 14,
            steps: long_enough((events / 100).min(40)),
        },
        Story {
            plot: Plot::BruteForce,
            first: events / 5 * 3,
            steps: long_enough((events / 50).min(80)),
        },
    ]
}

impl Story {
    /// The scene that takes the place of the event with this index.
    pub(super) fn scene(&self, index: usize) -> Option<Scene> {
        let offset = index.checked_sub(self.first)?;
        let step = offset / STRIDE;
        let here = offset.is_multiple_of(STRIDE) && step < self.steps;
        here.then(|| match self.plot {
            Plot::BruteForce => brute_force(step, self.steps),
            Plot::Exfiltration => exfiltration(step, self.steps),
        })
    }
}

fn brute_force(step: usize, steps: usize) -> Scene {
    let succeeds = step + 1 == steps;
    let (outcome, reason, verb) = if succeeds {
        ("success", None, "signed in to")
    } else {
        ("denied", Some("bad_password"), "was refused by")
    };
    Scene {
        planted: BRUTE_FORCE,
        actor_name: "Finance Admin",
        user_agent: "python-requests/2.32.3",
        action: "user.login",
        category: "auth",
        service: "identity",
        outcome,
        reason,
        severity: if succeeds { 9 } else { 13 },
        target: ("application", "application-00001".to_owned()),
        message: format!("Finance Admin {verb} application-00001"),
        attributes: json!({
            "attempt": step + 1,
            "client": { "platform": "unknown", "version": "" },
            "method": "password",
            "mfa": false,
            "risk": 0.97,
        }),
    }
}

fn exfiltration(step: usize, steps: usize) -> Scene {
    let (action, category, service, target) = match step {
        0 => ("user.login", "auth", "identity", ("application", "application-00001".to_owned())),
        1 => ("apikey.create", "admin", "identity", ("api_key", "api_key-09001".to_owned())),
        2 => (
            "export.request",
            "data_export",
            "exports",
            ("dataset", "dataset-customers".to_owned()),
        ),
        _ if step + 1 == steps => {
            ("apikey.revoke", "admin", "identity", ("api_key", "api_key-09001".to_owned()))
        }
        _ => (
            "export.download",
            "data_export",
            "exports",
            ("dataset", format!("dataset-customers-{step:03}")),
        ),
    };
    let attributes = if category == "data_export" {
        export(2_000_000 + 1_000 * step as u32, "parquet")
    } else {
        json!({ "client": { "platform": "desktop", "version": "4.12.0" }, "mfa": true, "risk": 0.64 })
    };
    Scene {
        planted: EXFILTRATION,
        actor_name: "Leo Brandt",
        user_agent: "curl/8.8.0",
        action,
        category,
        service,
        outcome: "success",
        reason: None,
        severity: 10,
        message: format!("Leo Brandt did {action} on {}", target.1),
        target,
        attributes,
    }
}
