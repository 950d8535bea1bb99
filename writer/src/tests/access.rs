//! Tokens at the writer: events of other tenants, other callers' keys and ids.

use std::collections::BTreeSet;
use std::path::Path;

use sealcast_common::serve::access::{AccessConfig, Role, Tenants, TokenText, create_token};
use serde_json::{Value, json};

use super::support::{Answer, PlannedFiles, Writer, config, event, sealed_rows};
use crate::{Config, Seams};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A writer with a tokens file.
struct Locked {
    dir: tempfile::TempDir,
    writer: Writer,
}

fn token(dir: &Path, tenants: Option<&[&str]>) -> TokenText {
    let tenants = match tenants {
        None => Tenants::All,
        Some(names) => Tenants::Only(names.iter().map(|name| (*name).to_owned()).collect()),
    };
    let granted = ("client", BTreeSet::from([Role::Ingest]), tenants);
    create_token(&dir.join("tokens.toml"), granted, None, &Seams::default()).unwrap()
}

impl Locked {
    /// Tokens must be there before: nobody waits for a reload.
    async fn start(dir: tempfile::TempDir) -> Self {
        Self::start_on(dir, Seams::default()).await
    }

    async fn start_on(dir: tempfile::TempDir, seams: Seams) -> Self {
        let tokens = Some(dir.path().join("tokens.toml"));
        let access = AccessConfig { tokens, ..AccessConfig::default() };
        let config = Config { access, ..config(&dir.path().join("writer")) };
        let writer = Writer::start_with(config, seams).await.unwrap();
        Locked { dir, writer }
    }

    async fn post(&self, token: &TokenText, key: Option<&str>, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", token.reveal());
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        self.writer.post_with(&headers, body.to_string()).await
    }

    async fn stop(self) -> usize {
        self.writer.stop().await.unwrap();
        sealed_rows(&self.dir.path().join("writer")).len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_event_of_another_tenant_refuses_the_request_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (acme, both) =
        (token(dir.path(), Some(&["acme"])), token(dir.path(), Some(&["acme", "b"])));
    let (all, none) = (token(dir.path(), None), token(dir.path(), Some(&[])));
    let locked = Locked::start(dir).await;
    let own = || event("acme", "a");
    for (tenant, at) in [("globex", 0), ("globex", 1), ("globex", 2), ("ACME", 1), ("acme ", 1)] {
        let mut events = vec![own(), own()];
        events.insert(at, event(tenant, "a"));
        let refused = locked.post(&acme, None, &json!(events)).await;
        assert_eq!(refused.code(), (403, "tenant_denied".into()), "{tenant}: {}", refused.text);
        assert_eq!(
            (&refused.json()["index"], &refused.json()["field"]),
            (&json!(at), &json!("tenant"))
        );
    }
    // Also beside an event that is bad in itself, and where the good ones are to be kept.
    let mixed = [own(), json!({ "tenant": "acme" }), event("globex", "a")];
    let text = mixed.map(|event| event.to_string()).join("\n");
    let bearer = format!("Bearer {}", acme.reveal());
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/x-ndjson")];
    let refused = locked.writer.post_with(&headers, text).await;
    assert_eq!(refused.code(), (403, "tenant_denied".into()));
    assert_eq!(refused.json()["line"], 3);
    assert_eq!(locked.post(&none, None, &own()).await.code(), (403, "tenant_denied".into()));
    assert_eq!(locked.post(&acme, None, &json!([own(), own()])).await.status, 200);
    let two = json!([own(), event("b", "a")]);
    assert_eq!(locked.post(&both, None, &two).await.status, 200);
    assert_eq!(locked.post(&all, None, &event("globex", "a")).await.status, 200);
    assert_eq!(locked.stop().await, 5, "what was refused is not stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_ids_of_others_can_neither_be_met_nor_tried() {
    let dir = tempfile::tempdir().unwrap();
    // One shard has them all: nothing but the scope of a key keeps them apart.
    let (acme, globex) = (token(dir.path(), Some(&["acme"])), token(dir.path(), Some(&["globex"])));
    let (next, all) = (token(dir.path(), Some(&["acme"])), token(dir.path(), None));
    let locked = Locked::start(dir).await;
    let own = |tenant: &str| json!({ "event_id": ID, "tenant": tenant, "action": "a" });
    let first = locked.post(&acme, Some("batch-1"), &own("acme")).await.json();
    assert_eq!(first["duplicates"], 0);
    // Another tenant's caller gets what a fresh key gets, whatever it sends.
    for (caller, tenant) in [(&globex, "globex"), (&all, "initech")] {
        let answer = locked.post(caller, Some("batch-1"), &own(tenant)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.json()["duplicates"], 0, "{}", answer.text);
    }
    let other = locked.post(&globex, Some("batch-1"), &event("globex", "other")).await;
    assert_eq!(other.code(), (422, "idempotency_key_reused".into()), "its own key is known");
    // The same client with its next token repeats safely, and is told of reuse.
    assert_eq!(locked.post(&next, Some("batch-1"), &own("acme")).await.json(), first);
    let other = locked.post(&next, Some("batch-1"), &event("acme", "other")).await;
    assert_eq!(other.code(), (422, "idempotency_key_reused".into()));
    let Locked { dir, writer } = locked;
    writer.stop().await.unwrap();
    // After a restart as before.
    let locked = Locked::start(dir).await;
    assert_eq!(locked.post(&acme, Some("batch-1"), &own("acme")).await.json(), first);
    assert_eq!(locked.stop().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_limited_to_tenants_learns_nothing_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let (acme, all) = (token(dir.path(), Some(&["acme"])), token(dir.path(), None));
    let files = PlannedFiles::new(|asked, path| {
        let cause = || std::io::Error::other(format!("secret of {}", path.display()));
        (asked == "append").then(cause)
    });
    let locked = Locked::start_on(dir, files.seams()).await;
    // The first fails itself, the next one meets the fault.
    for _ in 0..2 {
        let refused = locked.post(&acme, None, &event("acme", "a")).await;
        assert_eq!(refused.code(), (503, "shard_suspended".into()));
        assert!(!refused.text.contains("secret"), "{}", refused.text);
        assert!(refused.json()["hint"].is_string() && refused.json()["shard"].is_u64());
    }
    let refused = locked.post(&all, None, &event("acme", "a")).await;
    assert!(refused.text.contains("secret"), "{}", refused.text);
    let _suspended = locked.writer.stop().await;
}
