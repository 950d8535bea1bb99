//! Words of a statement, with their places: enough to tell statements apart and what is no query.

/// A word, a text in quotes, or one other character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// In lower case, unless it was quoted.
    Word(String),
    Text(String),
    Symbol(char),
}

/// A token and the bytes from which and up to which it stands.
pub(super) type Placed = (Token, usize, usize);

/// The tokens of `text`. What does not end ends with the text.
pub(super) fn tokens(text: &str) -> Vec<Placed> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (token, length) = next(rest);
        if let Some(token) = token {
            tokens.push((token, at, at + length));
        }
        at += length.max(1);
    }
    tokens
}

/// The statements of `text`, without those that are empty.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    // Of the statement that is being read: whether it has a token, and from where it stands.
    let (mut is_there, mut from) = (false, 0);
    for (token, at, to) in tokens(text) {
        if token != Token::Symbol(';') {
            is_there = true;
            continue;
        }
        if std::mem::take(&mut is_there) {
            pieces.extend(text.get(from..at).map(str::trim));
        }
        from = to;
    }
    if is_there {
        pieces.extend(text.get(from..).map(str::trim));
    }
    pieces
}

/// The first token of `rest`, or none for what stands between tokens, and its length.
fn next(rest: &str) -> (Option<Token>, usize) {
    let mut chars = rest.chars();
    let first = chars.next().unwrap_or(' ');
    if first.is_whitespace() {
        return (None, first.len_utf8());
    }
    if rest.starts_with("--") {
        return (None, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (None, comment(rest));
    }
    match first {
        '\'' => quoted(rest, 1, '\'', false),
        'e' | 'E' if chars.next() == Some('\'') => quoted(rest, 2, '\'', true),
        '"' => {
            let (token, length) = quoted(rest, 1, '"', false);
            let word = token.map(|token| match token {
                Token::Text(text) => Token::Word(text),
                other => other,
            });
            (word, length)
        }
        '$' => dollar(rest).unwrap_or((Some(Token::Symbol('$')), 1)),
        _ if first.is_alphanumeric() || first == '_' => {
            let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
            let length = rest.find(|c| !inside(c)).unwrap_or(rest.len());
            let word = rest.get(..length).unwrap_or_default().to_lowercase();
            (Some(Token::Word(word)), length)
        }
        other => (Some(Token::Symbol(other)), other.len_utf8()),
    }
}

/// Comments stand inside one another.
fn comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(here) = rest.get(at..).filter(|here| !here.is_empty()) {
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted(rest: &str, from: usize, quote: char, escapes: bool) -> (Option<Token>, usize) {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(from).peekable();
    while let Some((at, c)) = chars.next() {
        if escapes && c == '\\' {
            text.extend(chars.next().map(|(_, c)| c));
        } else if c != quote {
            text.push(c);
        } else if chars.peek().is_some_and(|(_, next)| *next == quote) {
            chars.next();
            text.push(quote);
        } else {
            return (Some(Token::Text(text)), at + 1);
        }
    }
    (Some(Token::Text(text)), rest.len())
}

/// `$tag$ … $tag$`.
fn dollar(rest: &str) -> Option<(Option<Token>, usize)> {
    let end = rest.get(1..)?.find('$')? + 2;
    let tag = rest.get(..end)?;
    let inside = tag.trim_matches('$');
    let is_tag = inside.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !inside.starts_with(|c: char| c.is_ascii_digit());
    if !is_tag {
        return None;
    }
    let body = rest.get(end..)?;
    let length = body.find(tag).map_or(rest.len(), |at| end + at + tag.len());
    let text = rest.get(end..length).unwrap_or_default();
    Some((Some(Token::Text(text.trim_end_matches(tag).to_owned())), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_apart_where_they_end() {
        let text = "select ';', \"a;b\" -- ;\n; /* ; /* ; */ ; */ select $x$;$x$, E'\\';' ;; ";
        let pieces = split(text);
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        assert!(pieces[1].ends_with("E'\\';'"));
        assert!(split(" ; -- nothing\n;").is_empty());
        assert_eq!(split("select $1; select $2"), ["select $1", "select $2"]);
        for end in 0..text.len() {
            let _ended = split(&text[..end]);
        }
    }

    #[test]
    fn words_are_lower_case_unless_quoted() {
        let words: Vec<Token> =
            tokens("SET \"TimeZone\" = 'UTC'").into_iter().map(|it| it.0).collect();
        let word = |text: &str| Token::Word(text.into());
        let expected =
            [word("set"), word("TimeZone"), Token::Symbol('='), Token::Text("UTC".into())];
        assert_eq!(words, expected);
    }
}
