//! What is printed: results on standard output, everything else on standard error.
//!
//! A reader that has gone (`| head`) is no error of ours: writing to it is given up in silence.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};

/// Why a command did not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What happened.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
    /// Exit code.
    pub(crate) code: u8,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure { message: message.into(), hint: None, code: crate::FAILED }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[cfg(feature = "roles")]
    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

/// Anything that displays, as a failure.
pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

/// A line of a result.
pub(crate) fn line(text: impl AsRef<str>) {
    let mut out = std::io::stdout().lock();
    let _reader_gone = writeln!(out, "{}", text.as_ref());
}

/// Bytes of a result, as they are.
pub(crate) fn raw(bytes: &[u8]) -> std::io::Result<()> {
    std::io::stdout().lock().write_all(bytes)
}

/// A line beside the result.
pub(crate) fn note(text: impl AsRef<str>) {
    let mut out = std::io::stderr().lock();
    let _reader_gone = writeln!(out, "{}", text.as_ref());
}

/// The last word of a command that failed.
pub(crate) fn failure(failure: &Failure) {
    note(format!("error: {}", failure.message));
    if let Some(hint) = &failure.hint {
        note(format!("  hint: {hint}"));
    }
}

/// A table that fits the terminal, or as wide as it needs to be when there is none.
pub(crate) fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(header);
    if std::io::stdout().is_terminal() {
        let (_, width) = console::Term::stdout().size();
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for row in rows {
        table.add_row(row);
    }
    table.to_string()
}

/// A bar on a terminal; a plain line every few seconds elsewhere.
pub(crate) struct Progress {
    bar: ProgressBar,
    plain: bool,
    label: &'static str,
    printed: std::sync::Mutex<u64>,
}

impl Progress {
    /// `total` in `unit`s; unknown totals are zero.
    pub(crate) fn new(label: &'static str, total: u64, bytes: bool) -> Self {
        let plain = !std::io::stderr().is_terminal();
        let bar = if plain { ProgressBar::hidden() } else { ProgressBar::new(total) };
        bar.set_length(total);
        let template = if bytes {
            "{prefix} [{bar:30}] {bytes}/{total_bytes} {msg} {eta}"
        } else {
            "{prefix} [{bar:30}] {pos}/{len} {msg} {eta}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(label);
        if !plain {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress { bar, plain, label, printed: std::sync::Mutex::new(0) }
    }

    pub(crate) fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Moves to `position` and shows `message`. Without a terminal a line appears at each tenth.
    pub(crate) fn set(&self, position: u64, message: &str) {
        self.bar.set_position(position);
        self.bar.set_message(message.to_owned());
        let total = self.bar.length().unwrap_or(0);
        if !self.plain || total == 0 {
            return;
        }
        let tenth = position.saturating_mul(10) / total;
        if let Ok(mut printed) = self.printed.lock()
            && tenth > *printed
        {
            *printed = tenth;
            note(format!("{}: {} % {message}", self.label, (tenth * 10).min(100)));
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
