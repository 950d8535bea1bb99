//! Recognises how a file holds its records, from the way it begins.

use serde::de::IgnoredAny;

/// Bytes that are looked at.
pub(super) const SNIFF_BYTES: usize = 64 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How a file holds its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing but white space.
    Empty,
    /// `{"Records": […]}`, as CloudTrail delivers it.
    CloudTrail,
    /// `[{…}, {…}]`
    Array,
    /// One object per line.
    Lines,
    /// One or more objects that may stretch over lines.
    Objects,
}

/// A shape and the bytes in front of its first record (or line).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sniffed {
    pub(super) shape: Shape,
    pub(super) header_bytes: usize,
}

/// Recognises the shape of a file that begins with `head`; an error carries the byte that no shape begins with.
pub(super) fn sniff(head: &[u8]) -> Result<Sniffed, u8> {
    let mark = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let start = skip_space(head, mark);
    match head.get(start) {
        None => Ok(Sniffed { shape: Shape::Empty, header_bytes: head.len() }),
        Some(b'[') => Ok(Sniffed { shape: Shape::Array, header_bytes: start + 1 }),
        Some(b'{') => Ok(match records_start(head, start) {
            Some(header_bytes) => Sniffed { shape: Shape::CloudTrail, header_bytes },
            // White space stays in front of the first record: line numbers count it.
            None => Sniffed { shape: lines_or_objects(&head[mark..]), header_bytes: mark },
        }),
        Some(&other) => Err(other),
    }
}

fn skip_space(bytes: &[u8], from: usize) -> usize {
    let space = bytes[from..].iter().take_while(|byte| is_space(**byte)).count();
    from + space
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The offset behind `{ "Records" : [`, if the object at `start` begins so.
fn records_start(head: &[u8], start: usize) -> Option<usize> {
    let mut offset = start;
    for token in [b"{".as_slice(), b"\"Records\"", b":", b"["] {
        offset = skip_space(head, offset);
        offset += head[offset..].starts_with(token).then_some(token.len())?;
    }
    Some(offset)
}

/// A first line that is a whole object makes lines; so does a broken one before a whole one.
fn lines_or_objects(head: &[u8]) -> Shape {
    let cut = head.len() >= SNIFF_BYTES - BYTE_ORDER_MARK.len();
    let mut lines =
        head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let (first, second) = (lines.next().unwrap_or_default(), lines.next());
    // A line that outgrows what is looked at cannot be pretty-printed: that has a break early on.
    let only_line_is_cut = cut && second.is_none();
    if only_line_is_cut || is_object(first) || second.is_some_and(is_object) {
        Shape::Lines
    } else {
        Shape::Objects
    }
}

fn is_object(line: &[u8]) -> bool {
    line.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}
