//! Code, comments and literals are told apart where it is easy to go wrong.

use crate::lex::{self, Kind};

fn code_words(source: &str) -> Vec<String> {
    let code = lex::only(source, Kind::Code);
    lex::words(&code).iter().map(|word| word.text.to_owned()).collect()
}

#[test]
fn comments_nest_and_end() {
    assert_eq!(code_words("a /* b /* c */ d */ e // f\ng"), ["a", "e", "g"]);
    assert_eq!(code_words("a /* never closed"), ["a"]);
}

#[test]
fn strings_of_every_form_are_literals() {
    assert_eq!(code_words(r#"a "b \" c" d"#), ["a", "d"]);
    assert_eq!(code_words(r###"a r#"b " c"# d br##"e"# f"## g"###), ["a", "d", "b", "g"]);
    assert_eq!(code_words(r##"a b"\\" c c"d" e"##), ["a", "b", "c", "c", "e"]);
    assert_eq!(code_words("bar r\"x // y\" after"), ["bar", "after"]);
    assert_eq!(code_words("\"// not a comment\" a"), ["a"]);
}

#[test]
fn characters_are_not_lifetimes() {
    assert_eq!(code_words("'a' b"), ["b"]);
    assert_eq!(
        code_words("fn f<'a>(x: &'a str) 'l: loop"),
        ["fn", "f", "a", "x", "a", "str", "l", "loop"]
    );
    assert_eq!(code_words(r"'\'' a '\u{41}' b '…' c '"), ["a", "b", "c"]);
    assert_eq!(code_words("'\"' a '\"'"), ["a"]);
}

#[test]
fn raw_identifiers_are_code() {
    assert_eq!(code_words("r#type r"), ["r", "type", "r"]);
}

#[test]
fn lines_survive_blanking() {
    let source = "/* a\nb */ \"c\nd\"\nunsafe";
    let code = lex::only(source, Kind::Code);
    let words = lex::words(&code);
    assert_eq!((words[0].text, words[0].line), ("unsafe", 4));
    assert_eq!(lex::line_of(&code, code.find("unsafe").unwrap()), 4);
}
