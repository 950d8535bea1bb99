//! Configuration: a TOML file, below environment, below flags; unknown keys are refused.
//!
//! `clap` has merged environment and flags already (`SEALCAST_*` is each flag's variable); what it
//! gives here are the settings that were stated, and they win over the file.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Table;

/// The sections of `sealcast.toml`.
pub const SECTIONS: [&str; 5] = ["writer", "shipper", "replica", "witness", "access"];

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration file {file} cannot be read: {reason}")]
    Read {
        /// Its path.
        file: String,
        /// The system's word.
        reason: String,
    },
    /// The file or a setting is wrong.
    #[error("configuration {origin} is invalid: {reason}")]
    Invalid {
        /// File or section.
        origin: String,
        /// What was found and what is expected.
        reason: String,
    },
}

/// The configuration `T` of one section: its defaults, then `[section]` of `file`, then `stated`.
pub fn load_section<T: DeserializeOwned>(
    section: &str,
    file: Option<&Path>,
    stated: &impl Serialize,
) -> Result<T, ConfigError> {
    let origin = file.map_or_else(|| "of flags".to_owned(), |file| file.display().to_string());
    let invalid = |reason: String| ConfigError::Invalid { origin: origin.clone(), reason };
    let mut settings = match file {
        None => Table::new(),
        Some(file) => read_section(section, file)?,
    };
    let stated = Table::try_from(stated).map_err(|error| invalid(error.to_string()))?;
    settings.extend(stated);
    settings.try_into::<T>().map_err(|error| invalid(with_suggestion(&error.to_string())))
}

fn read_section(section: &str, file: &Path) -> Result<Table, ConfigError> {
    let origin = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| ConfigError::Read { file: origin.clone(), reason: error.to_string() })?;
    let invalid = |reason: String| ConfigError::Invalid { origin: origin.clone(), reason };
    let mut root: Table =
        text.parse().map_err(|error: toml::de::Error| invalid(error.to_string()))?;
    for (name, value) in &root {
        if !SECTIONS.contains(&name.as_str()) {
            let close = suggest(name, SECTIONS).map(|s| format!("; did you mean [{s}]?"));
            let expected = SECTIONS.map(|section| format!("[{section}]")).join(", ");
            let close = close.unwrap_or_default();
            let found = format!("unknown section or key {name:?}");
            return Err(invalid(format!("{found}: expected the sections {expected}{close}")));
        }
        if !value.is_table() {
            return Err(invalid(format!("{name:?} is not a section: write [{name}]")));
        }
    }
    match root.remove(section) {
        Some(toml::Value::Table(table)) => Ok(table),
        _ => Ok(Table::new()),
    }
}

/// Adds the nearest known key to serde's "unknown field `x`, expected one of `a`, `b`".
pub fn with_suggestion(message: &str) -> String {
    let message = message.trim_end();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let Some((unknown, known)) = quoted.split_first()
        && message.contains("unknown field")
        && let Some(close) = suggest(unknown, known.iter().copied())
    {
        return format!("{message}\ndid you mean `{close}`?");
    }
    message.to_owned()
}

/// The nearest of `known`, if it is near enough to be a slip.
pub fn suggest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let scored =
        known.into_iter().map(|candidate| (strsim::jaro_winkler(word, candidate), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Sample {
        shards: u16,
        http: String,
    }

    impl Default for Sample {
        fn default() -> Self {
            Sample { shards: 2, http: "127.0.0.1:7070".into() }
        }
    }

    fn load(toml: &str, stated: &serde_json::Value) -> Result<Sample, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sealcast.toml");
        #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
        std::fs::write(&file, toml).unwrap();
        load_section("writer", Some(&file), stated)
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let stated = serde_json::json!({ "shards": 8 });
        let sample = load("[writer]\nshards = 4\nhttp = \"x\"\n", &stated).unwrap();
        assert_eq!((sample.shards, sample.http.as_str()), (8, "x"));
    }

    #[test]
    fn unknown_keys_and_sections_come_with_a_suggestion() {
        let none = serde_json::json!({});
        let error = load("[writer]\nshard = 4\n", &none).unwrap_err().to_string();
        assert!(error.contains("did you mean `shards`?"), "{error}");
        let error = load("[writr]\n", &none).unwrap_err().to_string();
        assert!(error.contains("did you mean [writer]?"), "{error}");
    }
}
