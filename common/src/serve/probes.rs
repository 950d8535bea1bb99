//! `/livez`, `/readyz` with reasons, `/metrics`: the same for every role.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use serde_json::json;

use super::access::Caller;
use super::telemetry::metrics_text;

/// Why a role is not ready: nothing listed means ready. Notes do not take readiness away.
#[derive(Clone, Debug, Default)]
pub struct Health {
    state: Arc<RwLock<State_>>,
}

#[derive(Debug, Default)]
struct State_ {
    reasons: BTreeMap<String, String>,
    notes: BTreeMap<String, String>,
}

impl Health {
    /// A role that is starting.
    pub fn starting() -> Self {
        let health = Health::default();
        health.not_ready("starting", "the role has not finished starting");
        health
    }

    fn write(&self, change: impl FnOnce(&mut State_)) {
        let mut state = match self.state.write() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        change(&mut state);
    }

    /// States a reason; the same name replaces it.
    pub fn not_ready(&self, name: &str, reason: impl Into<String>) {
        let reason = reason.into();
        self.write(|state| {
            state.reasons.insert(name.to_owned(), reason);
        });
    }

    /// Takes a reason or a note back.
    pub fn clear(&self, name: &str) {
        self.write(|state| {
            state.reasons.remove(name);
            state.notes.remove(name);
        });
    }

    /// Something to know that does not take readiness away (`fsync = "os"`).
    pub fn note(&self, name: &str, note: impl Into<String>) {
        let note = note.into();
        self.write(|state| {
            state.notes.insert(name.to_owned(), note);
        });
    }

    /// The reasons, empty when ready.
    pub fn reasons(&self) -> BTreeMap<String, String> {
        match self.state.read() {
            Ok(state) => state.reasons.clone(),
            Err(poisoned) => poisoned.into_inner().reasons.clone(),
        }
    }

    /// Reasons and notes tell of all tenants: not everybody is told them.
    fn answer(&self, in_detail: bool) -> Response {
        let (reasons, notes) = match self.state.read() {
            Ok(state) => (state.reasons.clone(), state.notes.clone()),
            Err(poisoned) => {
                let state = poisoned.into_inner();
                (state.reasons.clone(), state.notes.clone())
            }
        };
        let ready = reasons.is_empty();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let body = match in_detail {
            true => json!({ "ready": ready, "reasons": reasons, "notes": notes }),
            false => json!({ "ready": ready }),
        };
        (status, Json(body)).into_response()
    }
}

/// The three routes.
pub fn probe_routes(health: Health) -> Router {
    Router::new()
        .route("/livez", get(|| async { Json(json!({ "live": true })) }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(health)
}

async fn readyz(State(health): State<Health>, caller: Option<Extension<Caller>>) -> Response {
    health.answer(caller.is_some_and(|Extension(Caller(grant))| grant.sees_details()))
}

async fn metrics() -> Response {
    let text_format = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, text_format)], metrics_text()).into_response()
}
