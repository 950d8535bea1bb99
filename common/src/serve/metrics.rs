//! What metrics mean: the table of `docs/operating.md`, which the recorder gives as HELP texts. It
//! is the one place where a metric is described, and a test holds it against the sources.

const OPERATING: &str = include_str!("../../../docs/operating.md");

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Described {
    name: &'static str,
    /// `counter`, `gauge` or `histogram`, and labels.
    kind: &'static str,
    meaning: &'static str,
}

fn described() -> impl Iterator<Item = Described> {
    OPERATING.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        let (kind, meaning) = (cells.next()?, cells.next()?);
        let is_metric = ["counter", "gauge", "histogram"].iter().any(|word| kind.starts_with(word));
        is_metric.then_some(Described { name, kind, meaning })
    })
}

/// Tells the recorder, and the version of this build.
pub(super) fn describe() {
    for Described { name, kind, meaning } in described() {
        match kind.split(',').next() {
            Some("counter") => metrics::describe_counter!(name, meaning),
            Some("gauge") => metrics::describe_gauge!(name, meaning),
            _ => metrics::describe_histogram!(name, meaning),
        }
    }
    metrics::gauge!("sealcast_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// How names of metrics begin; other names do not.
    const PARTS: [&str; 8] = [
        "sealcast_writer_",
        "sealcast_shipper_",
        "sealcast_replica_",
        "sealcast_witness_",
        "sealcast_access_",
        "sealcast_tls_",
        "sealcast_store_",
        "sealcast_build_",
    ];

    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                sources(&path, found);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.push(std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    /// What follows each `start` up to the closing quote, in the sources of the roles.
    fn quoted(start: &str) -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut texts = Vec::new();
        let roles =
            ["writer/src", "shipper/src", "replica/src", "replica/vault/src", "witness/src"];
        for folder in ["common/src"].into_iter().chain(roles) {
            sources(&root.join(folder), &mut texts);
        }
        let of = |text: &String| -> Vec<String> {
            let found = text.split(start).skip(1).filter_map(|rest| rest.split('"').next());
            found.map(str::to_owned).collect()
        };
        texts.iter().flat_map(of).collect()
    }

    #[test]
    fn every_metric_is_described_and_every_described_one_exists() {
        let emitted = quoted("\"sealcast_").into_iter().map(|rest| format!("sealcast_{rest}"));
        // Not the beginnings above.
        let is_name = |name: &String| {
            name.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !name.ends_with('_')
        };
        let emitted: BTreeSet<String> = emitted
            .filter(|name| is_name(name) && PARTS.iter().any(|part| name.starts_with(part)))
            .collect();
        let emitted: BTreeSet<&str> = emitted.iter().map(String::as_str).collect();
        let described: BTreeSet<&str> = described().map(|row| row.name).collect();
        let missing: Vec<_> = emitted.difference(&described).collect();
        assert!(missing.is_empty(), "not in the table of docs/operating.md: {missing:?}");
        let stale: Vec<_> = described.difference(&emitted).collect();
        assert!(stale.is_empty(), "in the table of docs/operating.md, but nowhere else: {stale:?}");
    }

    #[test]
    fn units_stand_last() {
        for Described { name, kind, meaning } in described() {
            assert!(!meaning.is_empty(), "{name}");
            let is_total = name.ends_with("_total");
            assert_eq!(kind.starts_with("counter"), is_total, "{name}: counters end in _total");
            for unit in ["_seconds", "_bytes"] {
                let last = name.trim_end_matches("_total").ends_with(unit);
                assert!(!name.contains(unit) || last, "{name}: the unit stands last");
            }
        }
    }

    #[test]
    fn every_reason_of_readiness_is_explained() {
        let reasons = quoted(".not_ready(\"").into_iter().chain(quoted(".note(\""));
        for reason in reasons {
            let named = OPERATING.lines().any(|line| line.contains(&format!("`{reason}`")));
            assert!(named, "reason `{reason}` is not in docs/operating.md");
        }
    }
}
