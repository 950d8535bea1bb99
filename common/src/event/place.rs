//! Which log and which place a leaf says that it belongs to.

use super::decode::decode_full;
use super::leaf::{LEAF_VERSION, Position, key};
use crate::cbor::Reader;
use crate::clock::Micros;
use crate::fault::{Corruption, hex};
use crate::integrity::log_id;

/// The check that findings carry.
const CHECK: &str = "proof_leaf";

/// The position in a leaf's bytes, which come from anywhere. Without values out of line the whole
/// event must encode to these bytes; with some, the map's keys must be known and ascend.
pub fn position_of(leaf: &[u8]) -> Result<Position, Corruption> {
    let mut reader = Reader::new(leaf, CHECK);
    let (mut version, mut log_id, mut seq, mut ingested_at) = (None, None, None, None);
    let (mut last, mut split) = (None, false);
    for _ in 0..reader.map()? {
        let at = reader.position();
        let found = reader.uint()?;
        if found > key::OUT_OF_LINE_ATTRIBUTES || last.replace(found) >= Some(found) {
            let found = format!("key {found}");
            return Err(Corruption::new(
                CHECK,
                at as u64,
                "known keys, each once, ascending",
                found,
            ));
        }
        match found {
            key::VERSION => version = Some(reader.uint()?),
            key::LOG_ID => log_id = Some(reader.bytes_exact()?),
            key::SEQ => seq = Some(reader.uint()?),
            key::INGESTED_AT => ingested_at = Some(Micros(reader.int()?)),
            _ => {
                split |= matches!(found, key::OUT_OF_LINE | key::OUT_OF_LINE_ATTRIBUTES);
                let at = reader.position();
                reader.decoder().skip().map_err(|error| {
                    Corruption::new(
                        CHECK,
                        at as u64,
                        "a value",
                        format!("unreadable cbor: {error}"),
                    )
                })?;
            }
        }
    }
    reader.end()?;
    if version.is_some_and(|version| version != LEAF_VERSION) {
        let expected = format!("leaf version {LEAF_VERSION}");
        return Err(Corruption::new(CHECK, 0, expected, format!("{version:?}")));
    }
    let (Some(_), Some(log_id), Some(seq), Some(ingested_at)) = (version, log_id, seq, ingested_at)
    else {
        let expected = "version, log id, seq and ingest time";
        return Err(Corruption::new(CHECK, 0, expected, "a map without one of them"));
    };
    if !split {
        decode_full(leaf, CHECK)?;
    }
    Ok(Position { log_id, seq, ingested_at })
}

impl Position {
    /// It is row `seq` of the log of `origin`.
    pub fn check(&self, origin: &str, seq: u64) -> Result<(), Corruption> {
        if (self.log_id, self.seq) == (log_id(origin), seq) {
            return Ok(());
        }
        let expected = format!("row {seq} of {origin}, log id {}", hex(&log_id(origin)));
        let found = format!("row {}, log id {}", self.seq, hex(&self.log_id));
        Err(Corruption::new(CHECK, None, expected, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, encode_leaf};

    fn leaf(attributes: Option<String>) -> (Vec<u8>, Position) {
        let position = Position { log_id: [7; 16], seq: 41, ingested_at: Micros(-5) };
        let event = Event {
            tenant: "acme".into(),
            action: "user.login".into(),
            attributes,
            ..Event::default()
        };
        (encode_leaf(&event.as_ref(), &position).unwrap(), position)
    }

    #[test]
    fn a_leaf_says_where_it_belongs_also_with_values_out_of_line() {
        let large = format!("{{\"a\":\"{}\",\"b\":1}}", "x".repeat(20_000));
        for attributes in [None, Some("{\"a\":1.5}".to_owned()), Some(large)] {
            let (bytes, position) = leaf(attributes);
            assert_eq!(position_of(&bytes), Ok(position));
        }
    }

    #[test]
    fn what_is_no_leaf_is_refused_and_never_panics() {
        let (bytes, position) = leaf(Some("{\"a\":[1,null]}".to_owned()));
        for cut in 0..bytes.len() {
            assert_eq!(position_of(&bytes[..cut]).unwrap_err().check, CHECK);
        }
        assert!(position_of(&[bytes.as_slice(), &[0]].concat()).is_err());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                // Another value is another leaf, which its hash tells; another form is none.
                if let Ok(found) = position_of(&other) {
                    assert!(found != position || other != bytes);
                }
            }
        }
    }
}
