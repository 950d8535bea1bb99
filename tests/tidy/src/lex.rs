//! Splits Rust source into code, comments and literals, so that a rule about code is not
//! triggered by a sentence about it.
//!
//! This is not a parser: it knows just enough of the lexical grammar (nested comments, raw
//! strings, characters against lifetimes) to tell the three apart byte by byte.

/// What a byte of source belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything that is neither of the others; the quotes of a literal are part of the literal.
    Code,
    /// Line, block and doc comments.
    Comment,
    /// Strings, byte strings, raw strings and characters.
    Literal,
}

/// An identifier or keyword and its one-based line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The identifier's text.
    pub text: &'a str,
    /// One-based line.
    pub line: usize,
    /// Byte offset just behind the identifier.
    pub end: usize,
}

/// The source with every byte that is not of `kind` blanked; newlines stay, so lines still count.
pub fn only(source: &str, kind: Kind) -> String {
    let kinds = classify(source);
    let mut bytes = source.as_bytes().to_vec();
    for (byte, found) in bytes.iter_mut().zip(kinds) {
        if found != kind && *byte != b'\n' {
            *byte = b' ';
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The source with its literals blanked: code and comments.
pub fn without_literals(source: &str) -> String {
    let kinds = classify(source);
    let mut bytes = source.as_bytes().to_vec();
    for (byte, found) in bytes.iter_mut().zip(kinds) {
        if found == Kind::Literal && *byte != b'\n' {
            *byte = b' ';
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All identifiers of a text in order. Works on any text, not only on Rust.
pub fn words(text: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    let (mut line, mut start) = (1, None);
    for (at, c) in text.char_indices().chain([(text.len(), '\n')]) {
        match (is_word(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.push(Word { text: &text[from..at], line, end: at });
                start = None;
            }
            _ => {}
        }
        if c == '\n' {
            line += 1;
        }
    }
    found
}

/// The one-based line of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count()
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn classify(source: &str) -> Vec<Kind> {
    let bytes = source.as_bytes();
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = token(source, at);
        kinds[at..end].fill(kind);
        at = end;
    }
    kinds
}

/// The kind of the token that starts at `at`, and the offset behind it (always past `at`).
fn token(source: &str, at: usize) -> (Kind, usize) {
    let bytes = source.as_bytes();
    match bytes[at] {
        b'/' if bytes[at..].starts_with(b"//") => (Kind::Comment, line_end(bytes, at)),
        b'/' if bytes[at..].starts_with(b"/*") => (Kind::Comment, block_end(bytes, at)),
        b'"' => (Kind::Literal, string_end(bytes, at, b'"')),
        b'\'' => char_end(source, at).map_or((Kind::Code, at + 1), |end| (Kind::Literal, end)),
        b'r' => raw_end(bytes, at).map_or((Kind::Code, at + 1), |end| (Kind::Literal, end)),
        _ => (Kind::Code, at + 1),
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn block_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut at) = (0_usize, at);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if bytes[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], at: usize, quote: u8) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a character literal, or nothing for a lifetime or a loop label.
fn char_end(source: &str, at: usize) -> Option<usize> {
    let mut rest = source[at + 1..].chars();
    let first = rest.next()?;
    if first == '\\' {
        return Some(string_end(source.as_bytes(), at, b'\''));
    }
    (rest.next()? == '\'').then(|| at + 1 + first.len_utf8() + 1)
}

/// The end of a raw string whose `r` is at `at`, or nothing for an identifier.
fn raw_end(bytes: &[u8], at: usize) -> Option<usize> {
    let before = bytes[..at].iter().rev().take_while(|byte| is_word(char::from(**byte))).count();
    let prefixed = before == 1 && matches!(bytes[at - 1], b'b' | b'c');
    if before > 0 && !prefixed {
        return None;
    }
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    if bytes.get(at + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let body = at + 2 + hashes;
    let length = bytes[body..].windows(close.len()).position(|window| window == close);
    Some(length.map_or(bytes.len(), |length| body + length + close.len()))
}
