//! The guard: who asks is known before any handler runs, and every route says which role it wants.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};

use super::live::bearer;
use super::{Access, Grant, Role};
use crate::fault::Kind;
use crate::serve::Problem;
use crate::serve::grpc::is_grpc;

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// No credentials.
    TokenMissing,
    /// Not a token, or of nobody here, or revoked.
    TokenInvalid,
    /// Its time is over.
    TokenExpired,
    /// The token is for something else.
    RoleMissing(&'static [Role]),
    /// The token is for other tenants.
    TenantDenied,
}

impl Denied {
    /// The stable word.
    pub fn code(&self) -> &'static str {
        match self {
            Denied::TokenMissing => "token_missing",
            Denied::TokenInvalid => "token_invalid",
            Denied::TokenExpired => "token_expired",
            Denied::RoleMissing(_) => "role_missing",
            Denied::TenantDenied => "tenant_denied",
        }
    }

    /// The document. It says nothing of what was shown, only what is expected.
    pub fn problem(&self) -> Problem {
        let (status, detail) = match self {
            Denied::TokenMissing => (StatusCode::UNAUTHORIZED, "request carries no token".into()),
            Denied::TokenInvalid => {
                (StatusCode::UNAUTHORIZED, "token is not known here: wrong or revoked".into())
            }
            Denied::TokenExpired => (StatusCode::UNAUTHORIZED, "token has expired".into()),
            Denied::RoleMissing(roles) => {
                let roles: Vec<&str> = roles.iter().map(|role| role.word()).collect();
                let roles = roles.join(" or ");
                (StatusCode::FORBIDDEN, format!("token lacks the role {roles}"))
            }
            Denied::TenantDenied => (
                StatusCode::FORBIDDEN,
                "token is not for the tenant of this event; nothing was stored".into(),
            ),
        };
        let hint = match self {
            Denied::TokenMissing | Denied::TokenInvalid => {
                "send Authorization: Bearer TOKEN (or Basic, the token as password); \
                 `sealcast token create` makes one"
            }
            _ => "ask for a token that allows it: `sealcast token create` makes one",
        };
        metrics::counter!("sealcast_access_refused_total", "code" => self.code()).increment(1);
        Problem::new(Kind::Invalid, self.code(), detail).status(status).hint(hint)
    }

    fn challenge(&self) -> Option<&'static str> {
        match self {
            Denied::TokenMissing => Some("Bearer realm=\"sealcast\""),
            Denied::TokenInvalid | Denied::TokenExpired => {
                Some("Bearer realm=\"sealcast\", error=\"invalid_token\"")
            }
            _ => None,
        }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let mut response = self.problem().into_response();
        if let Some(challenge) = self.challenge() {
            let challenge = HeaderValue::from_static(challenge);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Who asks: for handlers.
#[derive(Clone, Debug)]
pub struct Caller(pub Arc<Grant>);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Fails closed: a route that was forgotten outside the guard answers nobody.
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| {
            Problem::new(Kind::Internal, "internal", "route does not stand behind the guard")
        })
    }
}

/// In the extensions of an answer: tells the client what to show from now on, its own token as
/// `Authorization: Bearer`. Handlers never see it.
#[derive(Clone, Copy, Debug)]
pub struct ShowToken;

/// What strangers may ask, beside `/livez`, `/readyz` and `/docs`.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct Strangers {
    /// `/metrics`.
    pub(in crate::serve) metrics: bool,
    /// Everything else: a server whose requests prove themselves.
    pub(in crate::serve) routes: bool,
}

#[derive(Clone, Debug)]
struct Guard {
    access: Access,
    strangers: Strangers,
}

/// Puts the guard before every route of `router`, unknown ones included. Only `/livez` and the
/// page `/docs` are for everybody; `/readyz` tells strangers yes or no; `/metrics` is for the role `admin`, unless it is
/// for `strangers` too.
pub(in crate::serve) fn guard(router: Router, access: Access, strangers: Strangers) -> Router {
    router.layer(from_fn_with_state(Guard { access, strangers }, admit))
}

async fn admit(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let known = guard.access.authenticate(request.headers());
    let grpc = is_grpc(request.headers());
    let shown = grpc.then(|| bearer(request.headers()));
    // Whatever a handler logs or answers, it cannot be the secret.
    request.headers_mut().remove(header::AUTHORIZATION);
    let open = match request.uri().path() {
        "/livez" | "/readyz" | "/docs" => true,
        "/metrics" => guard.strangers.metrics,
        _ => guard.strangers.routes,
    };
    match known {
        Ok(grant) => {
            if request.uri().path() == "/metrics" && !open && !grant.has(Role::Admin) {
                return Denied::RoleMissing(&[Role::Admin]).into_response();
            }
            request.extensions_mut().insert(Caller(grant));
            let mut response = next.run(request).await;
            let wanted = response.extensions_mut().remove::<ShowToken>();
            if let (Some(ShowToken), Some(shown)) = (wanted, shown) {
                response.headers_mut().insert(header::AUTHORIZATION, shown);
            }
            response
        }
        Err(_) if open => next.run(request).await,
        Err(denied) if grpc => denied.problem().into_grpc(),
        Err(denied) => denied.into_response(),
    }
}

/// The route's methods, for callers with one of these roles.
pub fn only<S>(roles: &'static [Role], methods: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    methods.route_layer(from_fn_with_state(roles, check))
}

async fn check(
    State(roles): State<&'static [Role]>,
    Caller(grant): Caller,
    request: Request,
    next: Next,
) -> Response {
    if roles.iter().any(|role| grant.has(*role)) {
        return next.run(request).await;
    }
    Denied::RoleMissing(roles).into_response()
}
