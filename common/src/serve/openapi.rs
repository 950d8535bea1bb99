//! OpenAPI 3.1: how a role describes its routes. Types describe themselves (`utoipa`), refusals are
//! listed code by code, examples are values of the real types.
//!
//! `tests/it/openapi.rs` holds the descriptions against the routers and against `docs/http.md`.

use std::collections::BTreeMap;

use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// A media type with its schema and an example.
pub type Content<'a> = (&'a str, Value, Value);

/// The description of one server.
#[derive(Clone, Debug)]
pub struct Document {
    title: &'static str,
    about: &'static str,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

impl Document {
    /// A server with the routes that every role has.
    pub fn new(title: &'static str, about: &'static str) -> Self {
        let schemas = Map::from_iter([("Problem".to_owned(), problem_schema())]);
        let document = Document { title, about, paths: Map::new(), schemas };
        document
            .route("get", "/livez", livez())
            .route("get", "/readyz", readyz())
            .route("get", "/metrics", metrics())
            .route("get", "/openapi.json", itself())
            .route("get", super::docs::PATH, page())
    }

    /// Adds an operation; `method` in lower case.
    #[must_use]
    pub fn route(mut self, method: &str, path: &str, route: Route) -> Self {
        let (operation, schemas) = route.finish();
        self.schemas.extend(schemas);
        let item = self.paths.entry(path).or_insert_with(|| json!({}));
        if let Value::Object(item) = item {
            item.insert(method.to_owned(), operation);
        }
        self
    }

    /// Adds a schema that no type describes.
    #[must_use]
    pub fn schema(mut self, name: &str, schema: Value) -> Self {
        self.schemas.insert(name.to_owned(), schema);
        self
    }

    /// The document.
    pub fn to_json(&self) -> Value {
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": self.title,
                "version": env!("CARGO_PKG_VERSION"),
                "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
                "description": format!(
                    "{} Every refusal is an RFC 9457 problem document with a stable `code`. Unknown \
                     routes are 404 `unknown_route`, wrong methods 405 `wrong_method`.",
                    self.about
                ),
            },
            "servers": [{ "url": "/" }],
            "security": [{ "bearer": [] }, { "basic": [] }],
            "paths": self.paths,
            "components": {
                "schemas": self.schemas,
                "securitySchemes": { "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the server's token file (`sealcast token create`). \
                                    Servers without a token file ask for none.",
                }, "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "The token as password, any user name.",
                } },
            },
        })
    }

    /// `GET /openapi.json`, and `GET /docs`, the page that shows it.
    pub fn routes<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        let document = self.to_json();
        let described = Router::new().route("/openapi.json", get(async move || Json(document)));
        described.merge(super::docs::routes())
    }
}

/// The description of one operation.
#[derive(Clone, Debug)]
pub struct Route {
    operation: Map<String, Value>,
    parameters: Vec<Value>,
    responses: BTreeMap<u16, Value>,
    problems: BTreeMap<u16, Vec<&'static str>>,
    schemas: Map<String, Value>,
}

impl Route {
    /// `id` is unique in a document; clients that are generated call their functions by it.
    pub fn new(id: &str, summary: &str, description: &str) -> Self {
        let named = [("operationId", id), ("summary", summary), ("description", description)];
        let operation = named.into_iter().map(|(key, text)| (key.to_owned(), text.into()));
        Route {
            operation: operation.collect(),
            parameters: Vec::new(),
            responses: BTreeMap::new(),
            problems: BTreeMap::from([
                (401, vec!["token_missing", "token_invalid", "token_expired"]),
                (403, vec!["role_missing"]),
                (500, vec!["internal"]),
            ]),
            schemas: Map::new(),
        }
    }

    /// Needs no token.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.operation.insert("security".into(), json!([]));
        self.problems.retain(|status, _| !matches!(status, 401 | 403));
        self
    }

    /// For every token, whatever its role.
    #[must_use]
    pub fn any_role(mut self) -> Self {
        self.problems.remove(&403);
        self
    }

    /// A parameter; `place` is `path`, `query` or `header`.
    #[must_use]
    pub fn parameter(mut self, place: &str, name: &str, schema: Value, about: &str) -> Self {
        self.parameters.push(json!({
            "name": name,
            "in": place,
            "required": place == "path",
            "description": about,
            "schema": schema,
        }));
        self
    }

    /// The request's body, in any of these forms.
    #[must_use]
    pub fn body(mut self, about: &str, contents: &[Content<'_>]) -> Self {
        let mut content = Map::new();
        for (media, schema, example) in contents {
            let entry = json!({ "schema": schema, "example": example });
            content.insert((*media).to_owned(), entry);
        }
        let body = json!({ "required": true, "description": about, "content": content });
        self.operation.insert("requestBody".into(), body);
        self
    }

    /// An answer, in any of these forms.
    #[must_use]
    pub fn answer(mut self, status: u16, about: &str, contents: &[Content<'_>]) -> Self {
        let mut content = Map::new();
        for (media, schema, example) in contents {
            let mut entry = json!({ "schema": schema });
            if !example.is_null() {
                entry["example"] = example.clone();
            }
            content.insert((*media).to_owned(), entry);
        }
        let mut response = json!({ "description": about });
        if !content.is_empty() {
            response["content"] = content.into();
        }
        self.responses.insert(status, response);
        self
    }

    /// A JSON answer of a type that describes itself.
    #[must_use]
    pub fn answer_of<T: ToSchema + Serialize>(
        mut self,
        status: u16,
        about: &str,
        example: &T,
    ) -> Self {
        let mut named = Vec::new();
        T::schemas(&mut named);
        named.push((T::name().into_owned(), T::schema()));
        for (name, schema) in named {
            self.schemas.insert(name, serde_json::to_value(schema).unwrap_or_default());
        }
        let schema = reference(&T::name());
        let example = serde_json::to_value(example).unwrap_or_default();
        self.answer(status, about, &[("application/json", schema, example)])
    }

    /// A header of the answer with this status, which has been described before.
    #[must_use]
    pub fn header(mut self, status: u16, name: &str, about: &str) -> Self {
        if let Some(response) = self.responses.get_mut(&status) {
            response["headers"][name] =
                json!({ "description": about, "schema": { "type": "string" } });
        }
        self
    }

    /// Refusals with this status.
    #[must_use]
    pub fn problems(mut self, status: u16, codes: &[&'static str]) -> Self {
        self.problems.entry(status).or_default().extend(codes);
        self
    }

    fn finish(mut self) -> (Value, Map<String, Value>) {
        let mut responses = Map::new();
        for (status, codes) in &self.problems {
            responses.insert(status.to_string(), problem_response(*status, codes));
        }
        for (status, mut response) in self.responses {
            // A status that is an answer and a refusal (503 of a probe): both are described.
            if let Some(refused) = responses.remove(&status.to_string()) {
                response["content"]["application/problem+json"] =
                    refused["content"]["application/problem+json"].clone();
            }
            responses.insert(status.to_string(), response);
        }
        if !self.parameters.is_empty() {
            self.operation.insert("parameters".into(), self.parameters.into());
        }
        self.operation.insert("responses".into(), responses.into());
        (self.operation.into(), self.schemas)
    }
}

/// A reference to a schema of the document.
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn problem_response(status: u16, codes: &[&str]) -> Value {
    let mut response = json!({
        "description": format!("Refused: {}", codes.join(", ")),
        "content": { "application/problem+json": { "schema": { "allOf": [
            reference("Problem"),
            { "properties": { "code": { "enum": codes }, "status": { "const": status } } },
        ] } } },
    });
    if matches!(status, 429 | 503 | 507) {
        let schema = json!({ "type": "integer", "minimum": 0 });
        let about = "Seconds after which a retry makes sense, where known.";
        response["headers"]["Retry-After"] = json!({ "description": about, "schema": schema });
    }
    response
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "description": "RFC 9457. Further members say where and what: see the detail.",
        "required": ["type", "title", "status", "code", "kind", "detail"],
        "properties": {
            "type": { "type": "string", "description": "urn:sealcast:problem:CODE" },
            "title": { "type": "string", "description": "The code in words." },
            "status": { "type": "integer" },
            "code": { "type": "string", "description": "Stable: clients may branch on it." },
            "kind": { "enum": [
                "invalid", "conflict", "unavailable", "overloaded", "corrupt", "internal",
            ] },
            "detail": { "type": "string", "description": "Found against expected." },
            "hint": { "type": "string", "description": "What to do." },
        },
        "additionalProperties": true,
    })
}

fn livez() -> Route {
    let schema = json!({ "type": "object", "properties": { "live": { "const": true } } });
    Route::new("livez", "Is the process alive?", "Answers while the process lives.").open().answer(
        200,
        "Alive.",
        &[("application/json", schema, json!({ "live": true }))],
    )
}

fn readyz() -> Route {
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let schema = json!({
        "type": "object",
        "required": ["ready"],
        "properties": { "ready": { "type": "boolean" }, "reasons": texts, "notes": texts },
    });
    let ready = json!({ "ready": true, "reasons": {}, "notes": {} });
    let reasons = json!({ "draining": "the role is shutting down" });
    let unready = json!({ "ready": false, "reasons": reasons, "notes": {} });
    let about = "Every reason and what to do stands in docs/operating.md. Reasons and notes are for \
                 those who may see all tenants.";
    Route::new("readyz", "Should it get requests?", about)
        .open()
        .answer(200, "Ready.", &[("application/json", schema.clone(), ready)])
        .answer(503, "Not ready: the reasons by name.", &[("application/json", schema, unready)])
}

fn metrics() -> Route {
    let text = json!({ "type": "string" });
    let example = json!("sealcast_build_info{version=\"0.1.0\"} 1\n");
    let about = "Every metric and every alarm stands in docs/operating.md.";
    Route::new("metrics", "Metrics, Prometheus text", about).answer(
        200,
        "Prometheus text format 0.0.4.",
        &[("text/plain", text, example)],
    )
}

fn page() -> Route {
    let text = json!({ "type": "string" });
    let about = "Shows this description and sends requests, with the token that is typed in.";
    Route::new("page", "This description as a page", about).open().answer(
        200,
        "HTML.",
        &[("text/html; charset=utf-8", text, Value::Null)],
    )
}

fn itself() -> Route {
    let schema = json!({ "type": "object" });
    Route::new("openapi", "This document", "OpenAPI 3.1.").any_role().answer(
        200,
        "The description of this server.",
        &[("application/json", schema, json!({ "openapi": "3.1.0" }))],
    )
}
