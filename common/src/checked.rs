//! Small JSON files and objects that carry their own checksum: one flipped bit in a name or a
//! number would be read as another name or number.
//!
//! Member `crc32` is the CRC-32 of the compact JSON of the members before it. A text without it is
//! taken as it is: earlier versions wrote none.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Error, Value};

use crate::fault::Corruption;

/// The checksum's member.
const MEMBER: &str = "crc32";

/// `value` as indented JSON with its checksum.
pub fn to_text<T: Serialize>(value: &T) -> Vec<u8> {
    let compact = serde_json::to_vec(value).unwrap_or_default();
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    // Behind the last member, whatever the order in which a map would keep it.
    text.truncate(text.len().saturating_sub("\n}".len()));
    text.extend(format!(",\n  \"{MEMBER}\": \"{}\"\n}}\n", checksum(&compact)).into_bytes());
    text
}

fn checksum(compact: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(compact))
}

/// Parses what [`to_text`] made; `check` names the finding.
pub fn parse<T: Serialize + DeserializeOwned>(
    check: &'static str,
    text: &[u8],
) -> Result<T, Corruption> {
    let damaged = |error: Error| {
        let offset = offset(text, &error);
        Corruption::new(check, offset, "JSON as Sealcast writes it", error.to_string())
    };
    let mut document: Value = serde_json::from_slice(text).map_err(damaged)?;
    let stated = document.as_object_mut().and_then(|members| members.remove(MEMBER));
    let value: T = serde_json::from_value(document).map_err(damaged)?;
    let expected = checksum(&serde_json::to_vec(&value).map_err(|e| damaged(Error::custom(e)))?);
    match stated {
        Some(stated) if stated != expected.as_str() => {
            let expected = format!("{MEMBER} {expected}, that of the other members");
            Err(Corruption::new(check, None, expected, stated.to_string()))
        }
        _ => Ok(value),
    }
}

/// The byte at which the JSON itself breaks, if it does.
fn offset(text: &[u8], error: &Error) -> Option<u64> {
    let before = error.line().checked_sub(1)?;
    let lines: usize =
        text.split_inclusive(|byte| *byte == b'\n').take(before).map(<[u8]>::len).sum();
    u64::try_from(lines + error.column().saturating_sub(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{NodeFile, ShippedFile, StoreFile, Vector};

    /// Every bit of a text, each flipped alone, is found.
    fn finds_every_bit<T>(value: &T)
    where
        T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let text = to_text(value);
        assert_eq!(parse::<T>("x", &text).as_ref(), Ok(value), "as it was written");
        // The line break after the last brace is nobody's.
        for at in 0..text.len() - 1 {
            for bit in 0..8 {
                let mut flipped = text.clone();
                flipped[at] ^= 1 << bit;
                let found = parse::<T>("x", &flipped);
                assert!(found.is_err(), "byte {at} bit {bit}: {found:?}");
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let vector = Vector::from([(0, 45), (1, 1 << 40), (0xffff, 7)]);
        finds_every_bit(&ShippedFile { stream: "n-01".into(), seq: 6, vector });
        let (cluster, node) = ("local-9".into(), "n-1".into());
        finds_every_bit(&NodeFile { format: 1, cluster, node, shard_first: 0, shards: 2 });
        finds_every_bit(&StoreFile { format: 1, store_id: "00ff".into() });
    }

    #[test]
    fn a_text_without_a_checksum_is_taken_and_a_break_has_its_offset() {
        let old = br#"{"format": 1, "store_id": "00ff"}"#;
        assert_eq!(parse::<StoreFile>("x", old).unwrap().store_id, "00ff");
        let broken = b"{\n  \"format\": 1x\n}";
        assert_eq!(parse::<StoreFile>("x", broken).unwrap_err().offset, Some(15));
    }
}
