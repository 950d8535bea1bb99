//! Statements that are no queries: what clients say of sessions, transactions and cursors.

use super::copy::CopyOut;
use super::lexer::{Placed, Token, tokens};
use super::state::Refusal;

/// What a statement wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// The engine's to answer or to refuse.
    Rows(String),
    Set {
        name: String,
        value: String,
    },
    Reset(Option<String>),
    Show(String),
    Begin {
        alone: bool,
    },
    Commit,
    Rollback,
    /// Taken without an effect: there is nothing to undo, to hear or to forget.
    Taken(&'static str),
    /// All of a connection's settings, statements and cursors.
    Discard,
    Deallocate(Option<String>),
    Declare {
        name: String,
        sql: String,
        hold: bool,
    },
    /// So many rows; all without a number. Passed over instead of given for MOVE.
    Fetch {
        name: String,
        count: Option<u64>,
        given: bool,
    },
    CloseCursor(Option<String>),
    Copy(CopyOut),
}

struct Words<'s> {
    text: &'s str,
    tokens: Vec<Placed>,
    at: usize,
}

impl Words<'_> {
    fn peek(&self) -> Option<&str> {
        match self.tokens.get(self.at) {
            Some((Token::Word(word), ..)) => Some(word),
            _ => None,
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self, words: &[&str]) {
        while words.iter().any(|word| self.take(word)) {}
    }

    fn name(&mut self) -> Option<String> {
        let name = self.peek()?.to_owned();
        self.at += 1;
        Some(name)
    }

    /// What follows, as it stands.
    fn rest(&self) -> &str {
        let from = self.tokens.get(self.at).map_or(self.text.len(), |(_, from, _)| *from);
        self.text.get(from..).unwrap_or_default()
    }

    /// What follows, as a setting's value.
    fn value(&self) -> String {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        match rest {
            [(Token::Text(text) | Token::Word(text), ..)] => text.clone(),
            _ => self.rest().to_owned(),
        }
    }
}

/// Reads what `sql` wants.
pub(super) fn read(sql: &str) -> Result<Wants, Refusal> {
    let mut words = Words { text: sql, tokens: tokens(sql), at: 0 };
    let Some(first) = words.name() else { return Ok(Wants::Rows(sql.to_owned())) };
    Ok(match first.as_str() {
        "set" => set(&mut words)?,
        "reset" => match words.name() {
            None => return Err(unclear(sql)),
            Some(all) if all == "all" => Wants::Reset(None),
            name => Wants::Reset(name),
        },
        "show" if !matches!(words.peek(), Some("tables" | "columns" | "functions")) => {
            Wants::Show(setting(&mut words).ok_or_else(|| unclear(sql))?)
        }
        "begin" => begin(sql),
        "start" if words.take("transaction") => begin(sql),
        "commit" | "end" => Wants::Commit,
        "rollback" if words.peek() == Some("to") || sql.to_lowercase().contains(" to ") => {
            Wants::Taken("ROLLBACK")
        }
        "rollback" | "abort" => Wants::Rollback,
        "savepoint" => Wants::Taken("SAVEPOINT"),
        "release" => Wants::Taken("RELEASE"),
        "unlisten" => Wants::Taken("UNLISTEN"),
        "discard" => Wants::Discard,
        "deallocate" => {
            words.any(&["prepare"]);
            let name = words.name().ok_or_else(|| unclear(sql))?;
            Wants::Deallocate((name != "all").then_some(name))
        }
        "declare" => declare(&mut words).ok_or_else(|| unclear(sql))?,
        "fetch" => fetch(&mut words, true)?,
        "move" => fetch(&mut words, false)?,
        "close" => {
            let name = words.name().ok_or_else(|| unclear(sql))?;
            Wants::CloseCursor((name != "all").then_some(name))
        }
        "copy" => Wants::Copy(CopyOut::read(sql, &words.tokens)?),
        "listen" | "notify" | "prepare" | "execute" | "call" | "do" => {
            let message = format!("{} is not supported here", first.to_uppercase());
            return Err(Refusal::new("0A000", message));
        }
        _ => Wants::Rows(sql.to_owned()),
    })
}

fn unclear(sql: &str) -> Refusal {
    let shown: String = sql.chars().take(64).collect();
    Refusal::new("42601", format!("statement is not complete: {shown}"))
}

/// The name of a setting, also of those that have names of several words.
fn setting(words: &mut Words<'_>) -> Option<String> {
    let name = words.name()?;
    Some(match name.as_str() {
        "time" if words.take("zone") => "timezone".to_owned(),
        "transaction" => {
            words.any(&["isolation", "level"]);
            "transaction_isolation".to_owned()
        }
        "session" if words.take("authorization") => "session_authorization".to_owned(),
        "names" => "client_encoding".to_owned(),
        _ => name.to_lowercase(),
    })
}

fn set(words: &mut Words<'_>) -> Result<Wants, Refusal> {
    let whole = words.text.to_lowercase();
    words.any(&["session", "local"]);
    if matches!(words.peek(), Some("transaction" | "characteristics" | "constraints")) {
        if whole.contains("read write") {
            return Err(writes());
        }
        return Ok(Wants::Taken("SET"));
    }
    let name = setting(words).ok_or_else(|| unclear(words.text))?;
    if !words.take("to") && matches!(words.tokens.get(words.at), Some((Token::Symbol('='), ..))) {
        words.at += 1;
    }
    Ok(Wants::Set { name, value: words.value() })
}

/// What is refused wherever somebody wants to write.
pub(super) fn writes() -> Refusal {
    Refusal::new("25006", "this server only reads: no transaction can write")
        .hint("events come in through the writer")
}

/// Whether one state of the data for several statements is asked for.
fn begin(sql: &str) -> Wants {
    let sql = sql.to_lowercase();
    Wants::Begin { alone: ["serializable", "repeatable"].iter().any(|word| sql.contains(word)) }
}

fn declare(words: &mut Words<'_>) -> Option<Wants> {
    let name = words.name()?;
    words.any(&["binary", "asensitive", "insensitive", "no", "scroll"]);
    if !words.take("cursor") {
        return None;
    }
    let hold = words.take("with");
    words.any(&["without", "hold"]);
    words.take("for").then(|| Wants::Declare { name, sql: words.rest().to_owned(), hold })
}

fn fetch(words: &mut Words<'_>, given: bool) -> Result<Wants, Refusal> {
    let mut count = Some(1);
    while let Some(word) = words.name() {
        match word.as_str() {
            "forward" | "next" | "from" | "in" | "first" => {}
            "all" => count = None,
            "backward" | "prior" | "last" | "absolute" | "relative" => {
                return Err(Refusal::new("55000", "cursors go forward only"));
            }
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                count = Some(number.parse().unwrap_or(u64::MAX));
            }
            _ => return Ok(Wants::Fetch { name: word, count, given }),
        }
    }
    Err(unclear(words.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_beside_queries() {
        let set = |name: &str, value: &str| Wants::Set { name: name.into(), value: value.into() };
        let read = |sql: &str| read(sql).unwrap();
        assert_eq!(read("SET extra_float_digits = 3"), set("extra_float_digits", "3"));
        assert_eq!(read("set session TIME ZONE 'UTC'"), set("timezone", "UTC"));
        assert_eq!(read("SET datestyle TO ISO, MDY"), set("datestyle", "ISO, MDY"));
        assert_eq!(read("SET sealcast.min = 'abc'"), set("sealcast.min", "abc"));
        assert_eq!(
            read("SHOW TRANSACTION ISOLATION LEVEL"),
            Wants::Show("transaction_isolation".into())
        );
        assert_eq!(read("show tables"), Wants::Rows("show tables".into()));
        assert_eq!(read("BEGIN READ ONLY"), Wants::Begin { alone: false });
        assert_eq!(read("rollback to savepoint a"), Wants::Taken("ROLLBACK"));
        let sql = "select 1 from events".to_owned();
        let declared = Wants::Declare { name: "c".into(), sql, hold: false };
        assert_eq!(
            read("DECLARE \"c\" NO SCROLL CURSOR WITHOUT HOLD FOR select 1 from events"),
            declared
        );
        let fetched = |count| Wants::Fetch { name: "c".into(), count, given: true };
        assert_eq!(read("FETCH FORWARD 100 FROM \"c\""), fetched(Some(100)));
        assert_eq!(read("fetch all in c"), fetched(None));
        assert_eq!(read("-- x\nselect 1"), Wants::Rows("-- x\nselect 1".into()));
        assert_eq!(super::read("SET TRANSACTION READ WRITE").unwrap_err().state, "25006");
        assert_eq!(super::read("fetch backward 1 from c").unwrap_err().state, "55000");
    }
}
