//! What each attack does.

use std::path::{Path, PathBuf};

use arrow_buffer::Buffer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sealcast_common::bucket::StreamIndex;
use sealcast_common::clock::Micros;
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::crc32;
use sealcast_common::segment::{BlockKind, Row, Seal, SegmentView};
use serde_json::json;

use super::insider;
use super::insider::{Insider, Stolen};
use super::scene::{Roles, Scene, copy};
use crate::output::{Failure, failed};

type Done = Result<(), Failure>;

/// Changes rows as `edit` says and publishes what the keys allow.
async fn edited(scene: &Scene, stolen: Stolen, edit: impl FnOnce(&mut Insider)) -> Done {
    let mut insider = Insider::of(&scene.path("")).await?;
    edit(&mut insider);
    insider.publish(stolen).await
}

/// The first row that is fit for it is changed.
async fn row(scene: &Scene, stolen: Stolen, fit: fn(&Row) -> bool, change: fn(&mut Row)) -> Done {
    edited(scene, stolen, |insider| {
        if let Some((_, row)) = insider.rows().find(|(_, row)| fit(row)) {
            change(row);
        }
    })
    .await
}

pub(super) async fn action(scene: &Scene, stolen: Stolen) -> Done {
    row(scene, stolen, |_| true, |row| row.event.action = "report.viewed".into()).await
}

pub(super) async fn time(scene: &Scene, stolen: Stolen) -> Done {
    row(scene, stolen, |_| true, |row| row.event.time.0 -= 3_600_000_000).await
}

/// By a microsecond at the end of a segment: still ascending.
pub(super) async fn ingest(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        let rows = insider.commits.first_mut().and_then(|commit| commit.values_mut().next());
        if let Some(last) = rows.and_then(|rows| rows.last_mut()) {
            last.ingested_at = Micros(last.ingested_at.0 + 1);
        }
    })
    .await
}

pub(super) async fn actor(scene: &Scene, stolen: Stolen) -> Done {
    let fit = |row: &Row| row.event.actor_id.is_some();
    row(scene, stolen, fit, |row| row.event.actor_id = Some("nobody".into())).await
}

pub(super) async fn outcome(scene: &Scene, stolen: Stolen) -> Done {
    let fit = |row: &Row| row.event.outcome.as_deref().is_some_and(|outcome| outcome != "success");
    row(scene, stolen, fit, |row| row.event.outcome = Some("success".into())).await
}

pub(super) async fn attributes(scene: &Scene, stolen: Stolen) -> Done {
    row(scene, stolen, |row| row.event.attributes.is_some(), |row| row.event.attributes = None)
        .await
}

pub(super) async fn tenant(scene: &Scene, stolen: Stolen) -> Done {
    row(scene, stolen, |_| true, |row| row.event.tenant = "somebody-else".into()).await
}

pub(super) async fn within(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        if let Some(rows) = insider.commits.first_mut().and_then(|c| c.values_mut().next()) {
            let (first, second) = (rows[0].event.clone(), rows[1].event.clone());
            (rows[0].event, rows[1].event) = (second, first);
        }
    })
    .await
}

pub(super) async fn between(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        let commit = insider.commits.iter_mut().find(|commit| commit.len() > 1);
        let mut shards = commit.into_iter().flat_map(|commit| commit.values_mut());
        if let (Some(one), Some(other)) = (shards.next(), shards.next()) {
            std::mem::swap(&mut one[0].event, &mut other[0].event);
        }
    })
    .await
}

pub(super) async fn dropped(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        if let Some(rows) = insider.commits.first_mut().and_then(|c| c.values_mut().next()) {
            rows.remove(0);
        }
    })
    .await
}

pub(super) async fn inserted(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        if let Some(rows) = insider.commits.first_mut().and_then(|c| c.values_mut().next()) {
            let mut row = rows[0].clone();
            row.event.event_id[0] ^= 1;
            rows.insert(0, row);
        }
    })
    .await
}

pub(super) async fn facts(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        insider.lie = |file| resealed(file, |seal, _| seal.facts.time.1.0 -= 1);
    })
    .await
}

pub(super) async fn id_index(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        insider.lie = |file| {
            resealed(file, |seal, file| {
                let index = seal.blocks.iter_mut().find(|b| b.kind == BlockKind::EventIndex);
                let Some(block) = index else { return };
                let (start, end) = (block.offset as usize, (block.offset + block.len) as usize);
                // Until the checksum takes as many bytes as before.
                for bit in 0..8 {
                    file[start + 9] ^= 1 << bit;
                    block.crc32 = crc32(&file[start..end]);
                    if block.crc32 > u32::from(u16::MAX) {
                        break;
                    }
                }
            })
        };
    })
    .await
}

/// The file with another seal of the same length.
fn resealed(mut file: Vec<u8>, change: fn(&mut Seal, &mut Vec<u8>)) -> Result<Vec<u8>, Corruption> {
    let view = SegmentView::parse(Buffer::from(file.clone()))?;
    let mut seal = Seal::clone(view.seal());
    let old = footer(&seal);
    change(&mut seal, &mut file);
    let new = footer(&seal);
    let at = file.windows(old.len()).position(|part| part == old.as_bytes());
    match at.filter(|_| old.len() == new.len()) {
        Some(at) => file[at..at + new.len()].copy_from_slice(new.as_bytes()),
        None => return Err(Corruption::new("seal", None, "a seal of the same length", "another")),
    }
    Ok(file)
}

fn footer(seal: &Seal) -> String {
    let mut bytes = seal.to_cbor();
    bytes.extend(crc32(&bytes).to_be_bytes());
    BASE64.encode(bytes)
}

pub(super) async fn rolled_back(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        if let Some(rows) = insider.commits.last_mut().and_then(|commit| commit.get_mut(&0)) {
            rows.clear();
        }
    })
    .await
}

pub(super) async fn hidden(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        insider.commits.iter_mut().for_each(|commit| drop(commit.remove(&1)));
    })
    .await
}

pub(super) async fn grown(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        if let Some((_, row)) = insider.rows().next() {
            row.event.action = "report.viewed".into();
        }
        let more = insider.commits.last().cloned().unwrap_or_default();
        insider.commits.push(more.clone());
        insider.commits.push(more);
        insider.epochs_more = 2;
    })
    .await
}

pub(super) async fn other_keys(scene: &Scene, stolen: Stolen) -> Done {
    edited(scene, stolen, |insider| {
        insider.log = [42; 32];
    })
    .await
}

/// The files whose path contains `text`, below the scene, in order; not those of the backup.
fn files(scene: &Scene, text: &str) -> Result<Vec<PathBuf>, Failure> {
    let (mut found, mut folders) = (Vec::new(), vec![scene.path("writer"), scene.path("store")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains(text) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn last(scene: &Scene, text: &str) -> Result<PathBuf, Failure> {
    let found = files(scene, text)?.pop();
    found.ok_or_else(|| Failure::new(format!("nothing named {text} to attack")))
}

fn put(path: &Path, bytes: &[u8]) -> Done {
    RealFiles.replace(path, bytes).map_err(failed)
}

pub(super) async fn bit(scene: &Scene, text: &str) -> Done {
    let path = last(scene, text)?;
    let mut bytes = std::fs::read(&path).map_err(failed)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    put(&path, &bytes)
}

pub(super) async fn remove_last(scene: &Scene, text: &str) -> Done {
    std::fs::remove_file(last(scene, text)?).map_err(failed)
}

pub(super) async fn remove_ending(scene: &Scene, text: &str, ending: &str) -> Done {
    let found = files(scene, text)?;
    let last = found.iter().rfind(|path| path.to_string_lossy().ends_with(ending));
    last.map_or(Ok(()), std::fs::remove_file).map_err(failed)
}

pub(super) async fn remove(scene: &Scene, parts: &[&str]) -> Done {
    parts.iter().try_for_each(|part| insider::remove(&scene.path(part)))
}

/// From the backup.
pub(super) async fn restore(scene: &Scene, parts: &[&str]) -> Done {
    for part in parts {
        insider::remove(&scene.path(part))?;
        copy(&scene.path("before").join(part), &scene.path(part)).map_err(failed)?;
    }
    Ok(())
}

pub(super) async fn swap_segments(scene: &Scene) -> Done {
    let (one, other) = (last(scene, "sh/0000/seg")?, last(scene, "sh/0001/seg")?);
    let (first, second) = (std::fs::read(&one), std::fs::read(&other));
    put(&one, &second.map_err(failed)?)?;
    put(&other, &first.map_err(failed)?)
}

pub(super) async fn commit_deleted(scene: &Scene) -> Done {
    let records = files(scene, "/log/")?;
    let records = records.iter().filter(|path| path.starts_with(scene.path("store/st")));
    match records.map(std::fs::remove_file).nth(1) {
        Some(removed) => removed.map_err(failed),
        None => Err(Failure::new("no commit to remove")),
    }
}

pub(super) async fn tail_cut(scene: &Scene) -> Done {
    let stream = scene.path("store/st");
    let records = files(scene, "/log/")?;
    let last = records.iter().rfind(|path| path.starts_with(&stream));
    last.map_or(Ok(()), std::fs::remove_file).map_err(failed)?;
    for hint in ["/head", "/snap/", "/leaf/"] {
        for path in files(scene, hint)?.iter().filter(|path| path.starts_with(&stream)) {
            std::fs::remove_file(path).map_err(failed)?;
        }
    }
    Ok(())
}

pub(super) async fn index(scene: &Scene) -> Done {
    let entry = last(scene, "store/streams/")?;
    let name = std::fs::read(&entry).map_err(failed)?;
    let name = StreamIndex::stream_of(&name).unwrap_or_default();
    let text = std::fs::read_to_string(&entry).map_err(failed)?;
    put(&entry, text.replace(&name, "nobody").as_bytes())
}

pub(super) async fn public_key(scene: &Scene) -> Done {
    let keys = files(scene, "writer/keys/")?;
    let mut keys = keys.iter().filter(|path| path.extension().is_some_and(|e| e == "pub"));
    match (keys.next(), keys.next()) {
        (Some(one), Some(other)) => std::fs::copy(one, other).map(drop).map_err(failed),
        _ => Err(Failure::new("fewer than two keys to attack")),
    }
}

/// The clone takes other events and seals them, with the same keys and the same memory.
pub(super) async fn cloned(scene: &Scene) -> Done {
    let (clone, elsewhere) = (scene.path("before/writer"), scene.path("before/store"));
    let roles = Roles::start(&clone, &elsewhere).await?;
    let events: Vec<_> =
        (0..40).map(|i| json!({"tenant": format!("t{i}"), "action": "taken.elsewhere"})).collect();
    let sent = roles.send(&events, 3_000).await;
    roles.stop().await?;
    sent?;
    insider::remove(&scene.path("writer"))?;
    copy(&clone, &scene.path("writer")).map_err(failed)
}
