//! The SQL prompt: history, editing, a few backslash commands.

use std::borrow::Cow;
use std::path::PathBuf;

use reedline::{
    DefaultHinter, FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline,
    Signal, ValidationResult, Validator,
};
use sealcast_common::clock::{Clock as _, WallClock};
use serde_json::json;

use super::sql::print_result;
use crate::args::SqlFormat;
use crate::client::Client;
use crate::output::{Failure, failed, failure, line};

const HISTORY_LINES: usize = 1_000;
const HELP: &str = r"\d            columns of events
\d NAME       columns of a table
\dt           tables
\timing       show how long each statement took
\q            quit (also Ctrl-D)
A statement ends with a semicolon; Enter before it continues the line.";

pub(super) async fn run(client: Client, format: SqlFormat) -> Result<u8, Failure> {
    line(r"sealcast sql: statements end with ; and \? shows help");
    let mut editor = Reedline::create()
        .with_validator(Box::new(EndsWithSemicolon))
        .with_hinter(Box::new(DefaultHinter::default()));
    if let Some(file) = history_file() {
        let history = FileBackedHistory::with_file(HISTORY_LINES, file).map_err(failed)?;
        editor = editor.with_history(Box::new(history));
    }
    let clock = WallClock::default();
    let mut timing = false;
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let read = editor.read_line(&Sealcast);
            (editor, read)
        });
        let (back, read) = read.await.map_err(failed)?;
        editor = back;
        let text = match read.map_err(failed)? {
            Signal::Success(text) => text,
            Signal::CtrlD => return Ok(0),
            _ => continue,
        };
        let statement = match command(text.trim().trim_end_matches(';').trim(), &mut timing) {
            Step::Quit => return Ok(0),
            Step::Nothing => continue,
            Step::Run(statement) => statement,
        };
        let started = clock.monotonic();
        if let Err(error) = print_result(&client, json!({ "sql": statement }), format).await {
            failure(&error);
        }
        if timing {
            line(format!("time {} ms", (clock.monotonic() - started).as_millis()));
        }
    }
}

enum Step {
    Quit,
    Nothing,
    Run(String),
}

fn command(text: &str, timing: &mut bool) -> Step {
    let (word, argument) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "" => Step::Nothing,
        r"\q" | "exit" | "quit" => Step::Quit,
        r"\?" | r"\h" | "help" => {
            line(HELP);
            Step::Nothing
        }
        r"\timing" => {
            *timing = !*timing;
            line(if *timing { "timing on" } else { "timing off" });
            Step::Nothing
        }
        r"\dt" => Step::Run("show tables".into()),
        r"\d" if argument.is_empty() => Step::Run("describe events".into()),
        r"\d" => Step::Run(format!("describe {argument}")),
        _ if word.starts_with('\\') => {
            line(format!(r"unknown command {word}; \? shows help"));
            Step::Nothing
        }
        _ => Step::Run(text.to_owned()),
    }
}

/// `$XDG_STATE_HOME/sealcast/history` or its default; no history without a home.
#[expect(clippy::disallowed_methods, reason = "the prompt's history is no setting of a role")]
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    Some(state.or_else(home)?.join("sealcast").join("history"))
}

struct EndsWithSemicolon;

impl Validator for EndsWithSemicolon {
    fn validate(&self, text: &str) -> ValidationResult {
        let text = text.trim();
        let word = text.starts_with('\\') || matches!(text, "" | "exit" | "quit" | "help");
        if word || text.ends_with(';') {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}

struct Sealcast;

impl Prompt for Sealcast {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "sealcast".into()
    }
    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }
    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        "> ".into()
    }
    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "     ...> ".into()
    }
    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("(search {}) ", search.term).into()
    }
}
