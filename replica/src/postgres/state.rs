//! Problems as PostgreSQL tells them: SQLSTATE, message, detail, hint, position.

use sealcast_common::serve::Problem;
use serde_json::Value;

use super::out::Out;

/// A refusal as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) state: &'static str,
    pub(super) message: String,
    detail: Option<Box<str>>,
    hint: Option<Box<str>>,
    /// Line and column, from 1.
    place: Option<(u32, u32)>,
    /// The same as a number of characters, from 1, once the statement is known.
    position: Option<u32>,
    /// The connection ends with it.
    pub(super) fatal: bool,
    /// The stable word that HTTP has for it.
    pub(super) code: &'static str,
}

impl Refusal {
    pub(super) fn new(state: &'static str, message: impl Into<String>) -> Self {
        Refusal {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            place: None,
            position: None,
            fatal: false,
            code: "refused",
        }
    }

    /// The same, with which the connection ends.
    pub(super) fn fatal(state: &'static str, message: impl Into<String>) -> Self {
        Refusal { fatal: true, ..Refusal::new(state, message) }
    }

    pub(super) fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says where in `text` it is, where the refused `statement` is a part of it.
    pub(super) fn within(mut self, text: &str, statement: &str) -> Self {
        let Some((line, column)) = self.place else { return self };
        let from = text.find(statement).unwrap_or(0);
        let before = text.get(..from).map_or(0, |before| before.chars().count());
        let lines = usize::try_from(line).unwrap_or(1).saturating_sub(1);
        let above: usize =
            statement.split('\n').take(lines).map(|line| line.chars().count() + 1).sum();
        let before = u32::try_from(before + above).unwrap_or(u32::MAX);
        self.position = Some(before.saturating_add(column));
        self
    }

    /// Writes it as an error.
    pub(super) fn write(&self, out: &mut Out) {
        let severity = if self.fatal { "FATAL" } else { "ERROR" };
        let position = self.position.map(|position| position.to_string());
        let fields = [
            (b'D', self.detail.as_deref()),
            (b'H', self.hint.as_deref()),
            (b'P', position.as_deref()),
        ];
        message(out, b'E', (severity, self.state, &self.message), &fields);
    }
}

/// Writes a notice.
pub(super) fn notice(out: &mut Out, text: &str) {
    message(out, b'N', ("WARNING", "01000", text), &[]);
}

fn message(
    out: &mut Out,
    tag: u8,
    (severity, state, text): (&str, &str, &str),
    fields: &[(u8, Option<&str>)],
) {
    out.begin(tag);
    let first =
        [(b'S', Some(severity)), (b'V', Some(severity)), (b'C', Some(state)), (b'M', Some(text))];
    for (field, value) in first.iter().chain(fields) {
        if let Some(value) = value {
            out.raw(&[*field]);
            out.text(value);
        }
    }
    out.raw(&[0]);
    out.end();
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        let number = |key: &str| {
            let place = problem.extra.get("position").and_then(|place| place.get(key));
            place.and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
        };
        let id = problem.extra.get("query_id").and_then(Value::as_str);
        Refusal {
            state: state(problem.code),
            place: number("line").zip(number("column")),
            detail: Some(match id {
                Some(id) => format!("code {}, query {id}", problem.code).into(),
                None => format!("code {}", problem.code).into(),
            }),
            hint: problem.hint.map(Into::into),
            message: problem.detail,
            position: None,
            fatal: false,
            code: problem.code,
        }
    }
}

/// The SQLSTATE of a problem's code.
fn state(code: &str) -> &'static str {
    match code {
        "syntax_error" => "42601",
        "unknown_column" => "42703",
        "unknown_table" => "42P01",
        "unknown_function" => "42883",
        "plan_error" => "42000",
        "statement_not_allowed" => "25006",
        "not_supported" => "0A000",
        "parameter_invalid" => "22P02",
        "query_failed" => "22000",
        "request_invalid" | "token_invalid" => "22023",
        "query_cancelled" | "query_timeout" => "57014",
        "sql_too_large" | "too_many_rows" | "result_too_large" | "scan_too_large" => "54000",
        "memory_exhausted" => "53200",
        "too_many_queries" => "53400",
        "replica_starting" | "replica_stale" | "not_yet_replicated" => "57P03",
        "segment_unavailable" | "tiles_unavailable" => "58030",
        "segment_corrupt" | "tiles_corrupt" => "XX001",
        "tenant_denied" | "role_missing" => "42501",
        "query_id_taken" => "55006",
        "unknown_row" | "unknown_event" => "02000",
        _ => "XX000",
    }
}

#[cfg(test)]
mod tests {
    use sealcast_common::fault::Kind;
    use serde_json::json;

    use super::*;

    #[test]
    fn codes_have_the_states_that_clients_branch_on() {
        let said = |code| Refusal::from(Problem::new(Kind::Invalid, code, "")).state;
        assert_eq!(said("syntax_error"), "42601");
        assert_eq!(said("unknown_column"), "42703");
        assert_eq!(said("unknown_table"), "42P01");
        assert_eq!(said("unknown_function"), "42883");
        assert_eq!(said("plan_error"), "42000");
        assert_eq!(said("statement_not_allowed"), "25006");
        assert_eq!(said("query_timeout"), "57014");
        assert_eq!(said("too_many_rows"), "54000");
        assert_eq!(said("memory_exhausted"), "53200");
        assert_eq!(said("too_many_queries"), "53400");
        assert_eq!(said("replica_starting"), "57P03");
        assert_eq!(said("segment_corrupt"), "XX001");
        assert_eq!(said("never heard of"), "XX000");
    }

    #[test]
    fn the_place_is_counted_in_characters_of_the_whole_text() {
        let place = json!({ "line": 2, "column": 3 });
        let problem = Problem::new(Kind::Invalid, "syntax_error", "").with("position", place);
        let refusal = Refusal::from(problem);
        let text = "select 'ä'; select\n1 x";
        assert_eq!(refusal.clone().within(text, "select\n1 x").position, Some(12 + 7 + 3));
        assert_eq!(refusal.within("a\nbc", "a\nbc").position, Some(2 + 3));
    }
}
