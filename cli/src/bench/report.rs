//! What a benchmark says: a table for people, the same as JSON, and on what it was measured.

use std::path::Path;

use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::fault::hex;
use sealcast_common::integrity::file_hash;
use serde_json::{Value, json};

use crate::output::{Failure, failed, line, table};

/// One measured number.
#[derive(Debug)]
pub(super) struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    /// What it should be, for people.
    goal: String,
}

/// Figures of one run.
#[derive(Debug)]
pub(super) struct Report {
    bench: &'static str,
    rows: u64,
    seed: u64,
    figures: Vec<Figure>,
    more: Value,
}

impl Report {
    pub(super) fn new(bench: &'static str, rows: u64, seed: u64) -> Self {
        Report { bench, rows, seed, figures: Vec::new(), more: Value::Null }
    }

    pub(super) fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.goal(name, value, unit, "");
    }

    pub(super) fn goal(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        goal: impl Into<String>,
    ) {
        self.figures.push(Figure { name: name.into(), value, unit, goal: goal.into() });
    }

    /// For JSON only.
    pub(super) fn more(&mut self, more: Value) {
        self.more = more;
    }

    /// Prints the figures, and what they were measured on.
    pub(super) fn print(&self) {
        let header = ["figure", "value", "unit", "goal"].map(str::to_owned);
        let rows: Vec<Vec<String>> = self
            .figures
            .iter()
            .map(|f| vec![f.name.clone(), grouped(f.value), f.unit.to_owned(), f.goal.clone()])
            .collect();
        line(table(&header, &rows));
        self.print_machine();
    }

    /// On what, with which binary, how many rows.
    pub(super) fn print_machine(&self) {
        let machine = Machine::look();
        line(format!("machine  {}", machine.text()));
        line(format!("binary   {}", binary_text()));
        line(format!("rows     {}, seed {}", grouped(self.rows as f64), self.seed));
    }

    /// Writes the same to `file`, if there is one.
    pub(super) fn save(&self, file: Option<&Path>) -> Result<(), Failure> {
        let Some(file) = file else { return Ok(()) };
        let machine = Machine::look();
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|f| json!({ "name": f.name, "value": f.value, "unit": f.unit }))
            .collect();
        let document = json!({
            "bench": self.bench,
            "rows": self.rows,
            "seed": self.seed,
            "machine": { "cpu": machine.cpu, "cores": machine.cores, "memory_gib": machine.memory_gib,
                         "load": machine.load },
            "binary": binary_text(),
            "figures": figures,
            "more": self.more,
        });
        let text = serde_json::to_vec_pretty(&document).map_err(failed)?;
        RealFiles.write_new(file, &text).map_err(|error| {
            Failure::new(format!("report {} cannot be written: {error}", file.display()))
        })
    }
}

struct Machine {
    cpu: String,
    cores: usize,
    memory_gib: u64,
    load: String,
}

impl Machine {
    fn look() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let value_of = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = value_of(&read("/proc/meminfo"), "MemTotal");
        let kib = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let load: Vec<String> =
            read("/proc/loadavg").split(' ').take(2).map(str::to_owned).collect();
        Machine {
            cpu: value_of(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown cpu".into()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            memory_gib: kib.unwrap_or(0) / (1024 * 1024),
            load: load.join(" "),
        }
    }

    fn text(&self) -> String {
        let Machine { cpu, cores, memory_gib, load } = self;
        format!("{cores} × {cpu}, {memory_gib} GiB, load {load} at the end")
    }
}

/// Version, commit if the build knew it, and the hash of the file itself.
fn binary_text() -> String {
    let hash = std::env::current_exe().and_then(std::fs::read).map(|bytes| file_hash(&bytes));
    let hash = hash.map_or("unknown".to_owned(), |hash| hex(&hash[..6]));
    let commit = option_env!("SEALCAST_COMMIT").unwrap_or("not stated");
    let profile =
        if cfg!(debug_assertions) { "a debug build: no figure counts" } else { "release" };
    format!("sealcast {}, commit {commit}, blake3 {hash}, {profile}", env!("CARGO_PKG_VERSION"))
}

/// Thousands apart; three digits that mean something.
pub(super) fn grouped(value: f64) -> String {
    if value.abs() < 100.0 && value.fract() != 0.0 {
        return if value.abs() < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") };
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
