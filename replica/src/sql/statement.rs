//! What may be asked: one reading statement, bounded before anything is planned.

use datafusion::sql::parser::Statement as EngineStatement;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use sealcast_common::limits::SQL_BYTES_MAX;

use super::bounds::check_statement;
use super::error::{Position, QueryError};
use super::postgres::rewrite;
use super::session::Dialect;

/// Nesting of parentheses and subqueries, levels.
const NESTING_MAX: usize = 50;
/// Operators, which chain into trees that are as deep as they are many.
const OPERATORS_MAX: usize = 1_000;

/// Parses `text`, which must be one statement that only reads. `marks` says that every `?` stands
/// for a parameter; otherwise `?` is the JSON operator.
pub(super) fn parse(
    text: &str,
    marks: bool,
    meant: Dialect,
) -> Result<EngineStatement, QueryError> {
    bound("bytes", text.len(), SQL_BYTES_MAX)?;
    let dialect = PostgreSqlDialect {};
    let mut tokens = Tokenizer::new(&dialect, text).tokenize_with_location().map_err(|error| {
        let place = error.location;
        QueryError::Syntax {
            message: error.message,
            position: Some(Position { line: place.line, column: place.column }),
        }
    })?;
    bound("operators", tokens.iter().filter(|token| chains(&token.token)).count(), OPERATORS_MAX)?;
    if marks {
        number_marks(&mut tokens);
    }
    let start = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
    let position = start
        .map(|token| Position { line: token.span.start.line, column: token.span.start.column });
    let found = first_words(&tokens);
    let mut parser =
        Parser::new(&dialect).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    // What starts like a writing statement is refused as such, even where its grammar is another's.
    if !starts_reading(&found) {
        return Err(QueryError::NotAllowed { found, position });
    }
    let mut statements = parser.parse_statements().map_err(syntax)?;
    let many = statements.len() > 1;
    match statements.pop() {
        Some(_) if many => {
            Err(QueryError::NotAllowed { found: "list of several statements".into(), position })
        }
        Some(mut statement) if reads(&statement) => {
            if meant == Dialect::Postgres {
                rewrite(&mut statement);
            }
            check_statement(&statement)?;
            Ok(EngineStatement::Statement(Box::new(statement)))
        }
        Some(_) => Err(QueryError::NotAllowed { found, position }),
        None => {
            Err(QueryError::Syntax { message: "the statement is empty".into(), position: None })
        }
    }
}

fn bound(what: &'static str, found: usize, max: usize) -> Result<(), QueryError> {
    if found <= max { Ok(()) } else { Err(QueryError::TooLarge { what, found, max }) }
}

/// Whether the token can join two expressions or queries into one.
fn chains(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::JOIN
                | Keyword::CASE
                | Keyword::XOR
                | Keyword::DIV
                | Keyword::IS
                | Keyword::NOTNULL
                | Keyword::IN
                | Keyword::BETWEEN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::RLIKE
                | Keyword::REGEXP
                | Keyword::OVERLAPS
                | Keyword::MEMBER
                | Keyword::AT
                | Keyword::COLLATE
        ),
        Token::Whitespace(_)
        | Token::Comma
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Placeholder(_)
        | Token::SemiColon
        | Token::Period
        | Token::LParen
        | Token::RParen
        | Token::RBracket
        | Token::EOF => false,
        _ => true,
    }
}

fn number_marks(tokens: &mut [TokenWithSpan]) {
    let marks = tokens.iter_mut().filter(|token| token.token == Token::Question);
    for (i, mark) in marks.enumerate() {
        mark.token = Token::Placeholder(format!("${}", i + 1));
    }
}

/// The first two words, in upper case, without what may be data.
fn first_words(tokens: &[TokenWithSpan]) -> String {
    let words = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::LParen))
        .map_while(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_uppercase()),
            _ => None,
        });
    words.take(2).map(|word| word.chars().take(32).collect()).collect::<Vec<String>>().join(" ")
}

fn starts_reading(words: &str) -> bool {
    let first = words.split(' ').next().unwrap_or_default();
    // An empty or strange beginning is the parser's to explain.
    let writes = [
        "ALTER",
        "ANALYZE",
        "ATTACH",
        "BEGIN",
        "CALL",
        "CLOSE",
        "COMMENT",
        "COMMIT",
        "COPY",
        "CREATE",
        "DEALLOCATE",
        "DECLARE",
        "DELETE",
        "DETACH",
        "DISCARD",
        "DO",
        "DROP",
        "EXECUTE",
        "EXPORT",
        "FETCH",
        "FLUSH",
        "GRANT",
        "IMPORT",
        "INSERT",
        "INSTALL",
        "KILL",
        "LISTEN",
        "LOAD",
        "LOCK",
        "MERGE",
        "MSCK",
        "NOTIFY",
        "OPTIMIZE",
        "PRAGMA",
        "PREPARE",
        "REFRESH",
        "REINDEX",
        "RELEASE",
        "RENAME",
        "REPLACE",
        "RESET",
        "REVOKE",
        "ROLLBACK",
        "SAVEPOINT",
        "SET",
        "START",
        "TRUNCATE",
        "UNCACHE",
        "UNLISTEN",
        "UNLOAD",
        "UPDATE",
        "UPSERT",
        "USE",
        "VACUUM",
    ];
    !writes.contains(&first)
}

/// Whether the statement only reads. The planned statement is judged once more by the session.
fn reads(statement: &Statement) -> bool {
    match statement {
        Statement::Query(_)
        | Statement::ShowTables { .. }
        | Statement::ShowColumns { .. }
        | Statement::ExplainTable { .. } => true,
        Statement::Explain { statement, .. } => reads(statement),
        _ => false,
    }
}

/// The parser puts the place into the message's end: ` at Line: 1, Column: 8`.
fn syntax(error: ParserError) -> QueryError {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            format!("nested deeper than {NESTING_MAX} levels")
        }
    };
    let Some((before, place)) = message.rsplit_once(" at Line: ") else {
        return QueryError::Syntax { message, position: None };
    };
    let position = place.split_once(", Column: ").and_then(|(line, column)| {
        Some(Position { line: line.parse().ok()?, column: column.trim().parse().ok()? })
    });
    QueryError::Syntax { message: before.to_owned(), position }
}
