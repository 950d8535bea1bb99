//! What is kept of a verdict `tampered`: the report, and the files and objects that it names as they
//! were found. Who repairs first destroys what an auditor needs.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use sealcast_common::bucket::Store;
use sealcast_common::clock::{Clock as _, WallClock};
use sealcast_common::durable::{Durable as _, RealFiles};
use serde_json::json;

use super::Report;
use super::files::read;

/// Objects that are copied; the report names them all.
const OBJECTS_MAX: usize = 100;
/// A segment is far smaller as an object.
const OBJECT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Where evidence goes when nobody says otherwise.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(format!("sealcast-evidence-{}", WallClock::default().now().0 / 1_000_000))
}

/// Saves `report.json` and `objects/…` to a folder of its own. Answers how many objects.
pub(crate) async fn save(folder: &Path, target: &str, report: &Report) -> io::Result<usize> {
    RealFiles.create_dir(folder)?;
    let mut document = serde_json::to_value(report).map_err(io::Error::other)?;
    document["verdict"] = report.verdict().into();
    document["target"] = json!(sealcast_common::bucket::without_secret(target));
    document["at"] = json!(WallClock::default().now().0);
    document["version"] = json!(env!("CARGO_PKG_VERSION"));
    let text = serde_json::to_vec_pretty(&document).map_err(io::Error::other)?;
    RealFiles.replace(&folder.join("report.json"), &text)?;
    let names: BTreeSet<&str> = report.findings.iter().map(|found| found.object.as_str()).collect();
    let mut saved = 0;
    for name in names.into_iter().filter(|name| !name.is_empty()).take(OBJECTS_MAX) {
        let Some(bytes) = fetch(target, name).await else { continue };
        let path = folder.join("objects").join(relative(target, name));
        if let Some(parent) = path.parent() {
            RealFiles.create_dir(parent)?;
        }
        RealFiles.replace(&path, &bytes)?;
        saved += 1;
    }
    Ok(saved)
}

/// The bytes, wherever the target has them; what is gone is evidence by its name alone.
async fn fetch(target: &str, name: &str) -> Option<Vec<u8>> {
    if target.contains("://") && !target.starts_with("file://") {
        let found = Store::open(target).ok()?.get(name).await.ok()??;
        return Some(found.to_vec());
    }
    let root = Path::new(target.strip_prefix("file://").unwrap_or(target));
    let places = [PathBuf::from(name), root.join(name), root.join("store").join(name)];
    places.iter().find_map(|path| read(path, OBJECT_BYTES_MAX, "evidence").ok())
}

/// A path that stays below the folder.
fn relative(target: &str, name: &str) -> PathBuf {
    let name = Path::new(name);
    let name = name.strip_prefix(target).unwrap_or(name);
    name.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}
