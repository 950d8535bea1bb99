//! Attributes in one pass, without a tree: JSON text into CBOR, and into canonical text.
//!
//! Only what needs no judgement is taken: any white space, order and escapes, but no escaped names, no duplicates, no
//! depth or names beyond the bound, no map or list above 23 members. For anything else the answer is `None`
//! and the caller takes the tree, which judges every form; so what is accepted, and its bytes, are
//! the same either way.

use std::borrow::Cow;

use super::number::Number;
use super::scan::Scanner;
use super::value::write_json_text;
use crate::cbor::Writer;
use crate::limits::{ATTRIBUTES_DEPTH_MAX, LABEL_BYTES_MAX};

/// Members of a map whose head is one byte.
const SMALL_MAP: usize = 23;

/// One object's way from JSON to CBOR and, if `TEXT`, to canonical JSON.
#[derive(Debug, Default)]
pub(super) struct Transcoder<'a, const TEXT: bool> {
    /// Canonical text so far.
    text: String,
    /// Members of the objects that are open.
    members: Vec<Member<'a>>,
    sorted: Vec<u8>,
    sorted_text: String,
}

/// A name, and where the pair lies in the two outputs.
#[derive(Clone, Copy, Debug)]
struct Member<'a> {
    name: &'a str,
    cbor: (usize, usize),
    text: (usize, usize),
}

impl<'a> Transcoder<'a, false> {
    /// Appends the CBOR of the object `text`; `None` (and nothing appended) unless it is plain.
    pub(super) fn transcode(&mut self, text: &'a str, out: &mut Writer) -> Option<()> {
        let start = out.buffer.len();
        let mut scanner = Scanner::new(text);
        self.members.clear();
        let read = self.object(&mut scanner, ATTRIBUTES_DEPTH_MAX, out);
        let whole = read.is_some() && scanner.is_at_end();
        if !whole {
            out.buffer.truncate(start);
        }
        whole.then_some(())
    }
}

impl<'a> Transcoder<'a, true> {
    /// Appends the CBOR of the object that comes next, and gives its canonical text.
    pub(super) fn canonical(&mut self, from: &mut Scanner<'a>, out: &mut Writer) -> Option<&str> {
        self.members.clear();
        self.text.clear();
        self.object(from, ATTRIBUTES_DEPTH_MAX, out)?;
        Some(&self.text)
    }
}

impl<'a, const TEXT: bool> Transcoder<'a, TEXT> {
    /// The object that comes next, of at most `depth` levels.
    fn object(&mut self, from: &mut Scanner<'a>, depth: usize, out: &mut Writer) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        from.take(b'{')?;
        let (base, head, head_text) = (self.members.len(), out.buffer.len(), self.text.len());
        out.map(0);
        self.say('{');
        if from.peek()? != b'}' {
            loop {
                // An escaped name is unusual enough.
                let Cow::Borrowed(name) = from.string()? else { return None };
                // Of stored attributes, any name has been judged.
                if TEXT && name.len() > LABEL_BYTES_MAX {
                    return None;
                }
                if self.members.len() > base {
                    self.say(',');
                }
                let (cbor, text) = (out.buffer.len(), self.text.len());
                out.text(name);
                self.quote(&Cow::Borrowed(name));
                self.say(':');
                from.take(b':')?;
                self.value(from, depth, out)?;
                let (cbor, text) = ((cbor, out.buffer.len()), (text, self.text.len()));
                self.members.push(Member { name, cbor, text });
                if from.take(b',').is_none() {
                    break;
                }
            }
        }
        from.take(b'}')?;
        self.close(base, head_text, head, out)?;
        self.say('}');
        Some(())
    }

    fn say(&mut self, c: char) {
        if TEXT {
            self.text.push(c);
        }
    }

    #[expect(clippy::ptr_arg, reason = "borrowed tells that the text had no escapes")]
    fn quote(&mut self, text: &Cow<'_, str>) {
        match text {
            _ if !TEXT => {}
            // What was written without escapes needs none.
            Cow::Borrowed(plain) => {
                self.text.push('"');
                self.text.push_str(plain);
                self.text.push('"');
            }
            Cow::Owned(text) => write_json_text(text, &mut self.text),
        }
    }

    fn value(&mut self, from: &mut Scanner<'a>, depth: usize, out: &mut Writer) -> Option<()> {
        match from.peek()? {
            b'{' => return self.object(from, depth, out),
            b'[' => return self.list(from, depth, out),
            b'"' => {
                let text = from.string()?;
                out.text(&text);
                self.quote(&text);
            }
            b't' => {
                out.bool(true);
                self.word("true", from)?;
            }
            b'f' => {
                out.bool(false);
                self.word("false", from)?;
            }
            b'n' => {
                out.null();
                self.word("null", from)?;
            }
            _ => self.number(from, out)?,
        }
        Some(())
    }

    fn word(&mut self, word: &str, from: &mut Scanner<'a>) -> Option<()> {
        if TEXT {
            self.text.push_str(word);
        }
        from.word(word)
    }

    fn number(&mut self, from: &mut Scanner<'a>, out: &mut Writer) -> Option<()> {
        let (literal, integer) = from.number()?;
        match literal.parse::<i64>() {
            Ok(value) if integer && literal != "-0" => {
                out.int(value);
                if TEXT {
                    self.text.push_str(literal);
                }
            }
            _ => {
                let number = Number::parse(literal)?;
                number.write_cbor(out);
                if TEXT {
                    number.write_text(&mut self.text);
                }
            }
        }
        Some(())
    }

    fn list(&mut self, from: &mut Scanner<'a>, depth: usize, out: &mut Writer) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        from.take(b'[')?;
        let head = out.buffer.len();
        out.array(0);
        self.say('[');
        let mut items = 0;
        if from.peek()? != b']' {
            loop {
                self.value(from, depth, out)?;
                items += 1;
                if from.take(b',').is_none() {
                    break;
                }
                self.say(',');
            }
        }
        from.take(b']')?;
        self.say(']');
        if items > SMALL_MAP {
            return None;
        }
        *out.buffer.get_mut(head)? += items as u8;
        Some(())
    }

    /// Names in the order of each output, and the count into the head.
    fn close(
        &mut self,
        base: usize,
        head_text: usize,
        head: usize,
        out: &mut Writer,
    ) -> Option<()> {
        let members = self.members.get_mut(base..)?;
        if members.len() > SMALL_MAP {
            return None;
        }
        *out.buffer.get_mut(head)? += members.len() as u8;
        if !members.is_sorted_by(|a, b| a.name < b.name) {
            members.sort_unstable_by(|a, b| a.name.cmp(b.name));
            if members.windows(2).any(|pair| pair[0].name == pair[1].name) {
                return None;
            }
            if TEXT {
                self.sorted_text.clear();
                for (i, member) in members.iter().enumerate() {
                    self.sorted_text.push_str(if i > 0 { "," } else { "" });
                    self.sorted_text.push_str(self.text.get(member.text.0..member.text.1)?);
                }
                self.text.truncate(head_text + 1);
                self.text.push_str(&self.sorted_text);
            }
        }
        // Shorter names first, as deterministic CBOR demands; the stable sort keeps the order of
        // the bytes among those of one length.
        members.sort_by_key(|member| member.name.len());
        if !members.is_sorted_by_key(|member| member.cbor.0) {
            self.sorted.clear();
            for member in members {
                self.sorted.extend_from_slice(out.buffer.get(member.cbor.0..member.cbor.1)?);
            }
            out.buffer.truncate(head + 1);
            out.buffer.extend_from_slice(&self.sorted);
        }
        self.members.truncate(base);
        Some(())
    }
}
