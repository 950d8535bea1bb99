//! Query strings, read strictly: an unknown parameter is a mistake, not a wish to be ignored.

use axum::extract::Query;
use axum::http::Uri;
use sealcast_common::fault::Kind;
use sealcast_common::serve::{Problem, suggest};

/// The parameters of a request; only `known` ones, each at most once.
pub(crate) fn parameters(uri: &Uri, known: &[&str]) -> Result<Vec<(String, String)>, Problem> {
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| {
        Problem::new(Kind::Invalid, "bad_parameter", format!("query string is invalid: {error}"))
    })?;
    for (i, (name, _)) in pairs.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            let name: String = name.chars().take(100).collect();
            let known_list = known.join(", ");
            let detail = format!("query parameter {name:?} is unknown, expected: {known_list}");
            let close = suggest(&name, known.iter().copied());
            let problem = Problem::new(Kind::Invalid, "unknown_parameter", detail);
            return Err(match close {
                Some(close) => problem.hint(format!("did you mean {close}?")),
                None => problem,
            });
        }
        if pairs.iter().take(i).any(|(earlier, _)| earlier == name) {
            return Err(bad(name, "given twice", "it once"));
        }
    }
    Ok(pairs)
}

/// `true` or `false`.
pub(crate) fn flag(name: &str, value: &str) -> Result<bool, Problem> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(bad(name, value, "true or false")),
    }
}

/// A parameter with a bad value.
pub(crate) fn bad(name: &str, found: &str, expected: &str) -> Problem {
    let found: String = found.chars().take(100).collect();
    let detail = format!("query parameter {name} is {found:?}, expected {expected}");
    Problem::new(Kind::Invalid, "bad_parameter", detail)
}
