//! `/openapi.json` says what the routers do, and everything that `docs/http.md` says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sealcast_tests::{Cluster, Roles, skip};
use serde_json::Value;

const ROLES: [&str; 3] = ["writer", "shipper", "replica"];

fn documents() -> [Value; 3] {
    [sealcast_writer::openapi(), sealcast_shipper::openapi(), sealcast_replica::openapi()]
        .map(|document| document.to_json())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Path and method of every operation.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &'_ Value)| -> Vec<(String, String)> {
        item.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())).collect()
    };
    let named = paths.iter().flat_map(of);
    named
        .map(|(path, method)| (path.clone(), method.clone(), &document["paths"][path][method]))
        .collect()
}

/// The paths that routers are given in the sources of a role.
fn routed(folder: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        // The description itself names routes too.
        if !is_source || path.ends_with("openapi.rs") {
            continue;
        }
        let text: String = std::fs::read_to_string(path).unwrap().split_whitespace().collect();
        let routes = text.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(routes.map(str::to_owned));
    }
    found
}

#[test]
fn every_route_is_described_and_every_described_one_exists() {
    let shared = routed("common/src/serve");
    let folders = [
        vec!["writer/src/api"],
        vec!["shipper/src"],
        vec!["replica/src/serve", "replica/src/pages"],
    ];
    for ((role, document), folders) in ROLES.iter().zip(documents()).zip(folders) {
        let mut routers: BTreeSet<String> = folders.into_iter().flat_map(routed).collect();
        routers.extend(shared.clone());
        routers.insert("/openapi.json".into());
        let described: BTreeSet<String> =
            operations(&document).into_iter().map(|(path, ..)| path).collect();
        assert_eq!(described, routers, "{role}: left the document, right the router");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn running_roles_serve_it_and_take_exactly_its_methods() {
    let cluster = Cluster::start(Roles::Dev).await;
    let client = reqwest::Client::new();
    for (at, role) in ROLES.into_iter().enumerate() {
        let url = cluster.url(at);
        let got = client.get(format!("{url}/openapi.json")).send().await.unwrap();
        let served: Value = got.json().await.unwrap();
        let same = served == documents()[at];
        assert!(
            same,
            "{role} serves another document: were the programs built from these sources?"
        );
        let mut methods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, method, _) in operations(&served) {
            methods.entry(path).or_default().insert(method);
        }
        for (path, known) in methods {
            let target = format!(
                "{url}{}",
                path.replace("{id}", "x").replace("{stream}", "x").replace("{event_id}", "x")
            );
            for method in ["get", "post", "put", "patch", "delete"] {
                let word = method.to_uppercase().parse().unwrap();
                let status = client.request(word, &target).send().await.unwrap().status();
                let wrong = status == reqwest::StatusCode::METHOD_NOT_ALLOWED;
                assert_eq!(!wrong, known.contains(method), "{role}: {method} {path}: {status}");
            }
        }
    }
}

/// The page is whole in itself: it loads nothing from elsewhere, and its policy allows just what it has.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_nobody_else() {
    let cluster = Cluster::start(Roles::Dev).await;
    for role in 0..ROLES.len() {
        let answer = reqwest::get(format!("{}/docs", cluster.url(role))).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert_eq!(policy.matches("'sha256-").count(), 2, "{policy}");
        assert!(!policy.contains("47DEQpj8HBSa"), "a hash of nothing: {policy}");
        let page = answer.text().await.unwrap();
        assert!(page.contains("openapi.json") && page.len() < 16_384, "{}", page.len());
        for elsewhere in ["http:", "https:", "//cdn", "src=", "@import", "innerHTML", "style="] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
    }
}

/// Codes in the tables of `docs/http.md`, and in its first paragraph.
fn documented_codes() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("docs/http.md")).unwrap();
    let mut codes = BTreeSet::new();
    for line in text.lines() {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(status), Some(listed)) = (cells.next(), cells.next()) else { continue };
        if status.starts_with(|c: char| c.is_ascii_digit()) {
            codes.extend(listed.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    codes
}

fn described_codes(document: &Value) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for (_, _, operation) in operations(document) {
        for response in operation["responses"].as_object().unwrap().values() {
            let all = &response["content"]["application/problem+json"]["schema"]["allOf"][1];
            let listed = all["properties"]["code"]["enum"].as_array().into_iter().flatten();
            codes.extend(listed.filter_map(Value::as_str).map(str::to_owned));
        }
    }
    codes
}

#[test]
fn every_documented_code_is_described_and_the_other_way_round() {
    let documents = documents();
    let described: BTreeSet<String> = documents.iter().flat_map(described_codes).collect();
    let text = std::fs::read_to_string(root().join("docs/http.md")).unwrap();
    let general = ["unknown_route", "wrong_method"];
    for code in general {
        let info = documents.iter().all(|document| document["info"].to_string().contains(code));
        assert!(info, "{code}");
    }
    let documented = documented_codes();
    assert!(documented.len() > 50, "the tables of docs/http.md are read: {documented:?}");
    let missing: Vec<_> = documented
        .iter()
        .filter(|code| !described.contains(*code) && !general.contains(&code.as_str()))
        .collect();
    assert!(missing.is_empty(), "in docs/http.md, but in no openapi.rs: {missing:?}");
    let silent: Vec<_> =
        described.iter().filter(|code| !text.contains(&format!("`{code}`"))).collect();
    assert!(silent.is_empty(), "in an openapi.rs, but not in docs/http.md: {silent:?}");
}

/// Codes that the sources give to problems: what stands behind a `Kind`.
fn given_codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for folder in ["writer/src/api", "shipper/src", "replica/src/serve", "replica/src/pages"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let Ok(text) = std::fs::read_to_string(entry.unwrap().path()) else { continue };
            let text: String = text.split_whitespace().collect();
            for rest in text.split("Kind::").skip(1) {
                let code = rest
                    .split_once(",\"")
                    .filter(|(kind, _)| kind.chars().all(char::is_alphabetic));
                codes.extend(code.and_then(|(_, rest)| rest.split('"').next()).map(str::to_owned));
            }
        }
    }
    codes
}

#[test]
fn every_code_of_the_sources_is_described() {
    let described: BTreeSet<String> = documents().iter().flat_map(described_codes).collect();
    let given = given_codes();
    assert!(given.len() > 40, "{given:?}");
    let missing: Vec<_> = given.difference(&described).collect();
    assert!(missing.is_empty(), "in the sources, but in no openapi.rs: {missing:?}");
}

/// Calls `check` for every object of a document.
fn walk(value: &Value, place: &str, check: &mut impl FnMut(&str, &serde_json::Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            check(place, members);
            for (name, member) in members {
                walk(member, &format!("{place}/{name}"), check);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                walk(item, &format!("{place}/{at}"), check);
            }
        }
        _ => {}
    }
}

#[test]
fn documents_are_well_formed() {
    for (role, document) in ROLES.iter().zip(documents()) {
        assert_eq!(document["openapi"], "3.1.0", "{role}");
        walk(&document, "", &mut |place, members| {
            if let Some(target) = members.get("$ref").and_then(Value::as_str) {
                let target = target.strip_prefix('#').unwrap();
                assert!(document.pointer(target).is_some(), "{role}{place}: no {target}");
            }
        });
        let mut ids = BTreeSet::new();
        for (path, method, operation) in operations(&document) {
            let place = format!("{role}: {method} {path}");
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(ids.insert(id), "{place}: its operationId is taken");
            for text in ["summary", "description"] {
                assert!(operation[text].as_str().is_some_and(|t| !t.is_empty()), "{place}: {text}");
            }
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{place}: no success");
            for (status, response) in responses {
                assert!(response["description"].is_string(), "{place}: {status}");
            }
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let in_path: BTreeSet<_> =
                path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
            let described: BTreeSet<_> = parameters
                .iter()
                .filter(|parameter| parameter["in"] == "path")
                .filter_map(|parameter| parameter["name"].as_str())
                .collect();
            assert_eq!(described, in_path, "{place}");
            if let Some(body) = operation.get("requestBody") {
                for (media, content) in body["content"].as_object().unwrap() {
                    assert!(!content["example"].is_null(), "{place}: {media} has no example");
                }
            }
        }
        let schemes = &document["components"]["securitySchemes"];
        assert_eq!(schemes["bearer"]["scheme"], "bearer", "{role}");
    }
}

#[tokio::test]
async fn a_validator_of_others_agrees() {
    let test = "openapi validator";
    let Some(python) = sealcast_tests::python(test) else { return };
    let dir = tempfile::tempdir().unwrap();
    for (role, document) in ROLES.iter().zip(documents()) {
        let file = dir.path().join(format!("{role}.json"));
        #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
        std::fs::write(&file, document.to_string()).unwrap();
        let script = "import sys, json\n\
            try:\n    from openapi_spec_validator import OpenAPIV31SpecValidator\n\
            except ImportError:\n    sys.exit(77)\n\
            OpenAPIV31SpecValidator(json.load(open(sys.argv[1]))).validate()";
        let name = file.display().to_string();
        let output = sealcast_tests::run(&python, &["-c", script, &name]).await;
        if output.status.code() == Some(77) {
            return skip(test, "openapi-spec-validator is not installed (run scripts/test)");
        }
        assert!(output.status.success(), "{role}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
