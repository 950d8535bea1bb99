//! `COPY (query) TO STDOUT`: text or CSV, as psql's `\copy` asks for it.

use super::lexer::{Placed, Token};
use super::state::Refusal;

/// An answer as lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyOut {
    pub(super) sql: String,
    csv: bool,
    pub(super) header: bool,
    delimiter: u8,
    null: String,
}

fn unclear() -> Refusal {
    Refusal::new("42601", "COPY is not understood; expected COPY (query) TO STDOUT, as text or csv")
}

impl CopyOut {
    /// Reads the statement.
    pub(super) fn read(sql: &str, tokens: &[Placed]) -> Result<Self, Refusal> {
        let mut depth = 0_usize;
        let mut to = None;
        for (place, (token, ..)) in tokens.iter().enumerate() {
            match token {
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') => depth = depth.saturating_sub(1),
                Token::Word(word) if depth == 0 && word == "from" => {
                    return Err(super::words::writes());
                }
                Token::Word(word) if depth == 0 && word == "to" => {
                    to = Some(place);
                    break;
                }
                _ => {}
            }
        }
        let to = to.ok_or_else(unclear)?;
        let what = tokens.get(1..to).ok_or_else(unclear)?;
        let (first, last) = what.first().zip(what.last()).ok_or_else(unclear)?;
        let slice = |from: usize, to: usize| sql.get(from..to).ok_or_else(unclear);
        let query = match &first.0 {
            Token::Symbol('(') => slice(first.2, last.1)?.to_owned(),
            Token::Word(_) => match what.iter().find(|it| it.0 == Token::Symbol('(')) {
                Some(open) => {
                    let columns = slice(open.2, last.1)?;
                    format!("select {columns} from {}", slice(first.1, open.1)?)
                }
                None => format!("select * from {}", slice(first.1, last.2)?),
            },
            _ => return Err(unclear()),
        };
        let rest = tokens.get(to + 1..).unwrap_or_default();
        match rest.first() {
            Some((Token::Word(word), ..)) if word == "stdout" => {}
            _ => {
                return Err(Refusal::new("42501", "COPY writes no files here; expected TO STDOUT"));
            }
        }
        Self::options(query, rest.get(1..).unwrap_or_default())
    }

    fn options(sql: String, tokens: &[Placed]) -> Result<Self, Refusal> {
        let (mut csv, mut header) = (false, false);
        let (mut delimiter, mut null) = (None, None);
        let mut tokens = tokens.iter().map(|(token, ..)| token).peekable();
        while let Some(token) = tokens.next() {
            let Token::Word(word) = token else {
                if matches!(token, Token::Text(_)) {
                    return Err(unclear());
                }
                continue;
            };
            match word.as_str() {
                "csv" => csv = true,
                "binary" => return Err(Refusal::new("0A000", "COPY is given as text or csv")),
                "header" => {
                    let off = matches!(tokens.peek(), Some(Token::Word(word)) if word == "false" || word == "off");
                    header = !off;
                }
                "delimiter" | "null" => {
                    while matches!(tokens.peek(), Some(Token::Word(word)) if word == "as") {
                        tokens.next();
                    }
                    let Some(Token::Text(text)) = tokens.next() else { return Err(unclear()) };
                    if word == "null" {
                        null = Some(text.clone());
                    } else {
                        delimiter = Some(text.clone());
                    }
                }
                "with" | "format" | "text" | "true" | "on" | "false" | "off" => {}
                other => {
                    let message = format!(
                        "COPY option {other} is not known; expected csv, text, header, delimiter, null"
                    );
                    return Err(Refusal::new("0A000", message));
                }
            }
        }
        let delimiter = match delimiter.as_deref().map(str::as_bytes) {
            None if csv => b',',
            None => b'\t',
            Some(b"\\t") => b'\t',
            Some([one]) => *one,
            Some(_) => return Err(Refusal::new("22023", "COPY delimiter is not one character")),
        };
        let null = null.unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() });
        Ok(CopyOut { sql, csv, header, delimiter, null })
    }

    /// One line of values.
    pub(super) fn line<'v>(&self, values: impl Iterator<Item = Option<&'v [u8]>>) -> Vec<u8> {
        let mut line = Vec::new();
        for (place, value) in values.enumerate() {
            if place > 0 {
                line.push(self.delimiter);
            }
            match value {
                None => line.extend(self.null.bytes()),
                Some(value) if self.csv => self.csv_value(value, &mut line),
                Some(value) => self.text_value(value, &mut line),
            }
        }
        line.push(b'\n');
        line
    }

    fn csv_value(&self, value: &[u8], line: &mut Vec<u8>) {
        let special = |byte: &u8| matches!(byte, b'"' | b'\n' | b'\r') || *byte == self.delimiter;
        // What reads as null, and as the end of the data, is quoted too.
        if !value.iter().any(special) && value != self.null.as_bytes() && value != b"\\." {
            return line.extend(value);
        }
        line.push(b'"');
        for byte in value {
            if *byte == b'"' {
                line.push(b'"');
            }
            line.push(*byte);
        }
        line.push(b'"');
    }

    fn text_value(&self, value: &[u8], line: &mut Vec<u8>) {
        for byte in value {
            match byte {
                b'\\' => line.extend(b"\\\\"),
                b'\n' => line.extend(b"\\n"),
                b'\r' => line.extend(b"\\r"),
                b'\t' => line.extend(b"\\t"),
                other if *other == self.delimiter => line.extend([b'\\', *other]),
                other => line.push(*other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lexer::tokens;
    use super::*;

    fn read(sql: &str) -> Result<CopyOut, Refusal> {
        CopyOut::read(sql, &tokens(sql))
    }

    #[test]
    fn what_psql_sends() {
        let copy = read("COPY  ( select ')' as a from events ) TO STDOUT csv header").unwrap();
        assert_eq!((copy.sql.trim(), copy.header), ("select ')' as a from events", true));
        let values = [Some(&b"a,b"[..]), None, Some(b""), Some(b"x\"y")];
        assert_eq!(copy.line(values.into_iter()), b"\"a,b\",,\"\",\"x\"\"y\"\n");
        let copy =
            read("COPY events (time, tenant) TO STDOUT WITH (FORMAT text, NULL 'nil')").unwrap();
        assert_eq!(copy.sql, "select time, tenant from events ");
        assert_eq!(copy.line([Some(&b"a\tb"[..]), None].into_iter()), b"a\\tb\tnil\n");
        assert_eq!(read("COPY events TO STDOUT csv quote '|'").unwrap_err().state, "0A000");
        assert_eq!(read("COPY events FROM STDIN").unwrap_err().state, "25006");
        assert_eq!(read("COPY events TO '/etc/passwd'").unwrap_err().state, "42501");
        assert_eq!(read("COPY (select 1) TO PROGRAM 'sh'").unwrap_err().state, "42501");
    }
}
