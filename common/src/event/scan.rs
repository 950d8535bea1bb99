//! JSON text, read byte by byte where it is plain: white space, strings, numbers.
//!
//! Every method answers `None` for what is not plain JSON; whoever asked leaves the text to the
//! strict reader then.

use std::borrow::Cow;

/// A place in a text.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Scanner { text, at: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    /// The next byte that is no white space; not taken.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    /// `byte` comes next, white space aside.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// `word` comes next.
    pub(super) fn word(&mut self, word: &str) -> Option<()> {
        self.peek()?;
        self.text.get(self.at..)?.starts_with(word).then(|| self.at += word.len())
    }

    /// The string that comes next; borrowed unless it holds escapes.
    #[inline]
    pub(super) fn string(&mut self) -> Option<Cow<'a, str>> {
        self.take(b'"')?;
        let start = self.at;
        self.at += plain_bytes(self.text.as_bytes().get(start..)?);
        if self.text.as_bytes().get(self.at) == Some(&b'"') {
            let inside = self.text.get(start..self.at)?;
            self.at += 1;
            return Some(Cow::Borrowed(inside));
        }
        self.escaped(start)
    }

    /// The rest of the string that began at `start`.
    fn escaped(&mut self, start: usize) -> Option<Cow<'a, str>> {
        while self.text.as_bytes().get(self.at)? == &b'\\' {
            self.at += 2;
            self.at += plain_bytes(self.text.as_bytes().get(self.at..)?);
        }
        (self.text.as_bytes().get(self.at)? == &b'"').then(|| self.at += 1)?;
        serde_json::from_str(self.text.get(start - 1..self.at)?).ok().map(Cow::Owned)
    }

    /// The number that comes next, and whether it is written as an integer.
    pub(super) fn number(&mut self) -> Option<(&'a str, bool)> {
        self.peek()?;
        let start = self.at;
        let _sign = self.here(b'-');
        let first = self.at;
        let whole = self.digits();
        if whole == 0 || (whole > 1 && self.text.as_bytes().get(first) == Some(&b'0')) {
            return None;
        }
        let mut integer = true;
        if self.here(b'.') {
            integer = false;
            (self.digits() > 0).then_some(())?;
        }
        if self.here(b'e') || self.here(b'E') {
            integer = false;
            let _sign = self.here(b'+') || self.here(b'-');
            (self.digits() > 0).then_some(())?;
        }
        Some((self.text.get(start..self.at)?, integer))
    }

    fn here(&mut self, byte: u8) -> bool {
        let found = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn digits(&mut self) -> usize {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }
}

/// Bytes before the first quote, backslash or control character: eight at a time.
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let (words, _rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let found = control | quote | zero(word ^ (ONES * u64::from(b'\\')));
        // A borrow may mark a later byte in error, never an earlier one.
        if found != 0 {
            return i * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let done = words.len() * 8;
    let rest = bytes.get(done..).unwrap_or_default();
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    done + rest.iter().position(special).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found_wherever_it_lies() {
        for length in 0..40 {
            for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
                for at in 0..length {
                    for filler in [b'a', 0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xa2, 0xff] {
                        let mut bytes = vec![filler; length];
                        bytes[at] = special;
                        assert_eq!(plain_bytes(&bytes), at, "{special} in {filler}");
                    }
                }
            }
            assert_eq!(plain_bytes(&vec![b'x'; length]), length);
        }
    }
}
