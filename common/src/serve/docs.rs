//! `GET /docs`: the server's description as a page that asks it. One file, nothing from elsewhere;
//! it is the same for everybody, and what it shows it asks for with the token that is typed in.

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

const PAGE: &str = include_str!("docs.html");

/// Where it is.
pub(super) const PATH: &str = "/docs";

/// Only what stands in the page runs, and it talks to its own server alone.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |tag: &str| {
        let (_, rest) = PAGE.split_once(&format!("<{tag}>")).unwrap_or_default();
        let (inside, _) = rest.split_once(&format!("</{tag}>")).unwrap_or_default();
        format!("'sha256-{}'", BASE64.encode(Sha256::digest(inside.as_bytes())))
    };
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash("script"),
        hash("style")
    );
    HeaderValue::from_str(&policy)
        .unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
});

/// The page's route.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/docs", get(page))
}

async fn page() -> impl IntoResponse {
    let fixed = HeaderValue::from_static;
    let headers = [
        (header::CONTENT_TYPE, fixed("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, POLICY.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff")),
        (header::REFERRER_POLICY, fixed("no-referrer")),
        (header::CACHE_CONTROL, fixed("no-cache")),
    ];
    (headers, PAGE)
}
