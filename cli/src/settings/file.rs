//! `sealcast.toml` with the line of every key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sealcast_common::serve::{SECTIONS, suggest};
use toml::{Spanned, Table, Value};

use super::{Fault, Given, Origin};

/// The file cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("configuration file {} cannot be read: {source}", path.display())]
pub(crate) struct Unreadable {
    path: PathBuf,
    source: std::io::Error,
}

/// Sections, keys, lines.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    path: PathBuf,
    sections: BTreeMap<String, Vec<(usize, String, Value)>>,
    /// What is wrong with the file as a whole.
    pub(crate) faults: Vec<Fault>,
}

type Sections = BTreeMap<Spanned<String>, Spanned<Value>>;
type Keys = BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Value>>;

impl SettingsFile {
    /// Reads `path`; mistakes are kept in `faults`.
    pub(crate) fn read(path: &Path) -> Result<Self, Unreadable> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Unreadable { path: path.to_owned(), source })?;
        Ok(Self::parse(path, &text))
    }

    pub(crate) fn parse(path: &Path, text: &str) -> Self {
        let mut file =
            SettingsFile { path: path.to_owned(), sections: BTreeMap::new(), faults: Vec::new() };
        let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        let sections = match toml::from_str::<Sections>(text) {
            Ok(sections) => sections,
            Err(error) => {
                let at = error.span().map_or(1, |span| line(span.start));
                file.fault(at, error.message().to_owned());
                return file;
            }
        };
        let mut sound = Table::new();
        for (name, value) in sections {
            let at = line(name.span().start);
            if !SECTIONS.contains(&name.as_ref().as_str()) {
                let close = suggest(name.as_ref(), SECTIONS);
                let close = close.map(|close| format!("; did you mean [{close}]?"));
                let expected = SECTIONS.map(|section| format!("[{section}]")).join(", ");
                file.fault(
                    at,
                    format!(
                        "unknown section or key {:?}: expected {expected}{}",
                        name.as_ref(),
                        close.unwrap_or_default()
                    ),
                );
            } else if value.as_ref().is_table() {
                sound.insert(name.into_inner(), value.into_inner());
            } else {
                file.fault(at, format!("{0:?} is no section: write [{0}]", name.as_ref()));
            }
        }
        // Keys have lines only when all of the file is sections; otherwise the faults come first.
        let keys: Keys = toml::from_str(text).unwrap_or_default();
        for (section, keys) in keys {
            if sound.contains_key(section.as_ref()) {
                let keys = keys.into_iter();
                let keys = keys.map(|(key, v)| (line(key.span().start), key.into_inner(), v));
                file.sections.insert(section.into_inner(), keys.collect());
            }
        }
        file
    }

    fn fault(&mut self, line: usize, message: String) {
        let place = Origin::File { path: self.path.clone(), line }.to_string();
        self.faults.push(Fault { place, message });
    }

    /// What `[name]` states.
    pub(crate) fn section(&self, name: &str) -> Vec<Given> {
        let keys = self.sections.get(name).into_iter().flatten();
        let given = |(line, key, value): &(usize, String, Value)| Given {
            key: key.clone(),
            value: value.clone(),
            origin: Origin::File { path: self.path.clone(), line: *line },
        };
        keys.map(given).collect()
    }
}
