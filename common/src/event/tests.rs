//! Events: every refusal, numbers without rounding, leaves that depend on nothing but the event.

use proptest::prelude::*;

use super::*;

fn context() -> ParseContext {
    ParseContext::new(Micros(1_700_000_000_000_000), [7; 16])
}

fn parse(text: &str) -> Result<Event, FieldError> {
    parse_event(text, &context())
}

fn refused(text: &str) -> (String, String) {
    let error = parse(text).unwrap_err();
    (error.code, error.field)
}

fn position() -> Position {
    Position { log_id: [3; 16], seq: 41, ingested_at: Micros(1_700_000_000_000_001) }
}

#[test]
fn defaults_are_filled_in() {
    let event = parse(r#"{"tenant":"t","action":"a"}"#).unwrap();
    assert_eq!(event.event_id, [7; 16]);
    assert_eq!(event.time, context().now);
    assert_eq!(event.attributes, None);
}

#[test]
fn each_bad_field_is_named_with_a_stable_code() {
    let long = "x".repeat(300);
    let deep = format!("{}1{}", "{\"a\":".repeat(40), "}".repeat(40));
    for (text, code, field) in [
        (r"[1]", "wrong_type", "event"),
        (r#"{"action":"a"}"#, "missing_field", "tenant"),
        (r#"{"tenant":"t","action":""}"#, "missing_field", "action"),
        (r#"{"tenant":null,"action":"a"}"#, "missing_field", "tenant"),
        (r#"{"tenant":7,"action":"a"}"#, "wrong_type", "tenant"),
        (r#"{"tenant":"t","action":"a","tenant":"u"}"#, "duplicate_key", "tenant"),
        (r#"{"tenant":"t","action":"a","colour":1}"#, "unknown_field", "colour"),
        (r#"{"tenant":"t","action":"a","_seq":1}"#, "reserved_field", "_seq"),
        (r#"{"tenant":"t","action":"a","time":"yesterday"}"#, "bad_time", "time"),
        (r#"{"tenant":"t","action":"a","time":1700000000}"#, "wrong_type", "time"),
        (r#"{"tenant":"t","action":"a","time":"2999-01-01T00:00:00Z"}"#, "future_time", "time"),
        (r#"{"tenant":"t","action":"a","event_id":"7"}"#, "bad_uuid", "event_id"),
        (r#"{"tenant":"t","action":"a","severity":25}"#, "bad_value", "severity"),
        (r#"{"tenant":"t","action":"a","outcome":"ok"}"#, "bad_value", "outcome"),
        (r#"{"tenant":"t","action":"a","targets":{}}"#, "wrong_type", "targets"),
        (r#"{"tenant":"t","action":"a","targets":[{"x":1}]}"#, "unknown_field", "targets[0].x"),
        (r#"{"tenant":"t","action":"a","attributes":[]}"#, "wrong_type", "attributes"),
        (
            r#"{"tenant":"t","action":"a","attributes":{"a":1,"a":2}}"#,
            "duplicate_key",
            "attributes",
        ),
        (r#"{"tenant":"t","action":"a","attributes":{"a":1e9999999}}"#, "bad_number", "attributes"),
        (
            r#"{"tenant":"t","action":"a","target_id":"x","targets":[{"id":"y"}]}"#,
            "conflicting_fields",
            "targets",
        ),
        (r#"{"tenant":"t","action":"a""#, "invalid_json", "event"),
        (r#"{"tenant":"t","action":"a"} x"#, "invalid_json", "event"),
    ] {
        assert_eq!(refused(text), (code.to_owned(), field.to_owned()), "{text}");
    }
    let text = format!(r#"{{"tenant":"{long}","action":"a"}}"#);
    assert_eq!(refused(&text), ("too_long".into(), "tenant".into()));
    let text = format!(r#"{{"tenant":"t","action":"a","attributes":{deep}}}"#);
    assert_eq!(refused(&text), ("too_deep".into(), "attributes".into()));
}

#[test]
fn a_hundred_thousand_brackets_do_not_overflow_the_stack() {
    let text = format!(r#"{{"tenant":"t","action":"a","attributes":{{"x":{}"#, "[".repeat(100_000));
    assert_eq!(refused(&text).0, "invalid_json");
    let closed = format!("{}{}", "[".repeat(60_000), "]".repeat(60_000));
    let text = format!(r#"{{"tenant":"t","action":"a","attributes":{{"x":{closed}}}}}"#);
    assert!(parse(&text).is_err());
}

#[test]
fn a_flat_target_becomes_the_first_target() {
    let event = parse(r#"{"tenant":"t","action":"a","target_type":"f","target_id":"x"}"#).unwrap();
    assert_eq!(event.targets[0].kind.as_deref(), Some("f"));
    assert_eq!(event.targets[0].id.as_deref(), Some("x"));
}

#[test]
fn numbers_keep_every_digit() {
    for (literal, canonical) in [
        ("0", "0"),
        ("-0", "-0.0"),
        ("18446744073709551615", "18446744073709551615"),
        ("1.50", "1.5"),
        ("1E2", "100.0"),
        ("0.1", "0.1"),
        ("1e300", "1e300"),
        ("18446744073709551616", "18446744073709551616e0"),
        ("3.141592653589793238", "3141592653589793238e-18"),
        ("1e400", "1e400"),
        ("-123456789012345678901234567890", "-12345678901234567890123456789e1"),
    ] {
        let mut text = String::new();
        Number::parse(literal).unwrap().write_text(&mut text);
        assert_eq!(text, canonical, "{literal}");
        assert_eq!(Number::parse(&text), Number::parse(literal), "{literal}");
    }
}

#[test]
fn a_number_that_is_accepted_can_be_stored() {
    for digits in 480..=512 {
        let literal = "7".repeat(digits);
        let text = format!(r#"{{"tenant":"t","action":"a","attributes":{{"n":{literal}}}}}"#);
        match parse(&text) {
            Ok(event) => {
                let bytes = encode_full(&event.as_ref(), &position()).unwrap();
                assert_eq!(decode_full(&bytes, "x").unwrap().0, event);
            }
            Err(error) => {
                assert!(digits > 505, "{digits}");
                assert_eq!(error.code, "bad_number");
            }
        }
    }
}

#[test]
fn a_refusal_never_repeats_a_whole_event() {
    let name = "\u{7f}".repeat(200_000);
    let error = parse(&format!(r#"{{"tenant":"t","action":"a","{name}":1}}"#)).unwrap_err();
    assert_eq!(error.code, "unknown_field");
    assert!(error.field.len() + error.found.len() < 2_000);
}

#[test]
fn attributes_are_canonical_whatever_their_formatting() {
    let a =
        parse(r#"{"tenant":"t","action":"a","attributes":{"b":[1, 2.0],"a":{"y":null,"x":"é"}}}"#);
    let b = parse(
        "{ \"attributes\" : {\"a\":{\"x\":\"\\u00e9\",\"y\":null}, \"b\":[1,2.00]},\n\
         \"action\":\"a\",\"tenant\":\"t\" }",
    );
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(a.attributes.as_deref(), Some(r#"{"a":{"x":"é","y":null},"b":[1,2.0]}"#));
    assert_eq!(a, b);
    let leaf = |event: &Event| encode_leaf(&event.as_ref(), &position()).unwrap();
    assert_eq!(leaf(&a), leaf(&b));
}

#[test]
fn a_leaf_is_deterministic_cbor_for_a_library_too() {
    let event = parse(
        r#"{"tenant":"t","action":"a","severity":9,"targets":[{"type":"f","id":"1"},{"name":"n"}],
            "message":"m","trace_id":"x","attributes":{"long":12345678901234567890123,"f":0.5,
            "aa":1,"b":-7,"list":[true,null]}}"#,
    );
    let leaf = encode_leaf(&event.unwrap().as_ref(), &position()).unwrap();
    let value: ciborium::Value = ciborium::from_reader(leaf.as_slice()).unwrap();
    let ciborium::Value::Map(pairs) = &value else { panic!("{value:?}") };
    let keys: Vec<i128> = pairs.iter().map(|(key, _)| key.as_integer().unwrap().into()).collect();
    assert!(keys.is_sorted(), "{keys:?}");
    let mut again = Vec::new();
    ciborium::into_writer(&value, &mut again).unwrap();
    assert_eq!(again, leaf);
}

#[test]
fn large_values_go_out_of_line_and_leaves_stay_bounded() {
    let large = "y".repeat(60_000);
    let text = format!(
        r#"{{"tenant":"t","action":"a","message":"{large}","attributes":{{"k":"{large}","s":1}}}}"#
    );
    let event = parse(&text).unwrap();
    let leaf = encode_leaf(&event.as_ref(), &position()).unwrap();
    assert!(leaf.len() < 1_000, "{}", leaf.len());
    let members: String = (0..4_000).map(|i| format!("\"{i}\":\"0123456789\",")).collect();
    let text = format!(r#"{{"tenant":"t","action":"a","attributes":{{{members}"z":1}}}}"#);
    let leaf = encode_leaf(&parse(&text).unwrap().as_ref(), &position()).unwrap();
    assert!(leaf.len() < 1_000, "{}", leaf.len());
    let full = encode_full(&event.as_ref(), &position()).unwrap();
    assert_eq!(decode_full(&full, "test").unwrap(), (event, position()));
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Into::into),
        ".{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(".{0,6}", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_sent_comes_back_from_the_log_as_it_was(
        attributes in prop::collection::btree_map(".{0,6}", json_value(), 0..6),
        message in ".{0,40}",
        severity in 1u8..=24,
    ) {
        let attributes: serde_json::Map<_, _> = attributes.into_iter().collect();
        let sent = serde_json::json!({
            "tenant": "t", "action": "a", "message": message, "severity": severity,
            "attributes": attributes,
        });
        let event = parse(&sent.to_string()).unwrap();
        the_same_both_ways(&sent.to_string());
        the_same_both_ways(&serde_json::to_string_pretty(&sent).unwrap());
        let full = encode_full(&event.as_ref(), &position()).unwrap();
        let (back, at) = decode_full(&full, "test").unwrap();
        prop_assert_eq!(&back, &event);
        prop_assert_eq!(at, position());
        let stored = Value::parse_text(&event.attributes.unwrap()).unwrap();
        let text = serde_json::Value::Object(attributes).to_string();
        prop_assert_eq!(stored, Value::parse_text(&text).unwrap());
    }

    #[test]
    fn every_double_stays_itself(float in any::<f64>().prop_filter("finite", |f| f.is_finite())) {
        prop_assert_eq!(Number::parse(&format!("{float:?}")), Some(Number::Float(float)));
    }

    #[test]
    fn number_literals_are_stable(digits in "[1-9][0-9]{0,40}", fraction in "[0-9]{0,20}", e in -400i32..400) {
        let literal = if fraction.is_empty() { format!("{digits}e{e}") } else { format!("{digits}.{fraction}e{e}") };
        let number = Number::parse(&literal).unwrap();
        let mut text = String::new();
        number.write_text(&mut text);
        prop_assert_eq!(Number::parse(&text).unwrap(), number.clone());
        let mut cbor = crate::cbor::Writer::new();
        number.write_cbor(&mut cbor);
        let bytes = cbor.finish();
        let _decodes: ciborium::Value = ciborium::from_reader(bytes.as_slice()).unwrap();
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_full(&bytes, "test");
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }
}

/// Texts of every shape that attributes have; canonical ones take the short cut.
#[test]
fn the_short_cut_of_attributes_gives_the_trees_bytes() {
    use super::transcode::Transcoder;
    use super::value::Value;
    use crate::cbor::Writer;
    let texts = [
        r#"{}"#,
        r#"{"a":1,"b":-1,"bb":"x","c":[],"d":{"aa":2,"b":[1,[2,{"k":null}]],"z":1}}"#,
        r#"{"big":9223372036854775807,"bigger":18446744073709551615,"huge":123456789012345678901234567890}"#,
        r#"{"e":1e400,"f":1.5,"g":0.1,"h":-0.0,"i":-0,"j":1e2,"k":0,"l":1.10}"#,
        r#"{"esc":"a\"b\\c\u00e9\n","plain":"é😀","t":true,"u":false}"#,
        r#"{"b":1,"a":2}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a\n":1}"#,
        r#"{ "a": 1 }"#,
        r#"{"a":01}"#,
        r#"{"a":1.}"#,
        r#"{"a":+1}"#,
        r#"{"a":.5}"#,
        r#"{"a":-}"#,
        r#"{"a":"\x"}"#,
        r#"{"a":"unfinished"#,
        r#"{"a":1}}"#,
        r#"{"a":1,}"#,
        r#"{"a":[1,]}"#,
        r#"{"a" 1}"#,
        r#"{"a":nul}"#,
        "{\"a\":\"\u{1}\"}",
        "[1]",
        "",
    ];
    let long = (0..30).map(|i| format!("\"k{i:02}\":{i}")).collect::<Vec<_>>().join(",");
    let list = (0..40).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    let deep = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let more = [format!("{{{long}}}"), format!("{{\"l\":[{list}]}}"), deep(32), deep(33)];
    let mut short = 0;
    for text in texts.into_iter().chain(more.iter().map(String::as_str)) {
        let mut out = Writer::new();
        let Some(()) = Transcoder::default().transcode(text, &mut out) else {
            assert!(out.buffer.is_empty(), "{text}");
            continue;
        };
        short += 1;
        // The way in: the same bytes, and the text that is stored.
        let sent = format!(r#"{{"tenant":"t","action":"a","attributes":{text}}}"#);
        let (event, prepared) = quick::read(&sent, &context(), &mut Default::default()).unwrap();
        let stored = Event { attributes: parse(&sent).unwrap().attributes, ..event.clone() };
        assert_eq!(event, stored, "{text}");
        assert_eq!(prepared, Prepared::new(&event.as_ref()).unwrap(), "{text}");
        let mut tree = Writer::new();
        Value::parse_text(text).unwrap().write_cbor(&mut tree);
        assert_eq!(out.buffer, tree.buffer, "{text}");
    }
    assert_eq!(short, 8, "texts that take the short cut");
}

/// What the short cut takes must be what the strict reader takes, and become the same.
fn the_same_both_ways(text: &str) -> bool {
    let quick = quick::read(text, &context(), &mut Default::default());
    if let Some((event, prepared)) = &quick {
        assert_eq!(Ok(event), parse(text).as_ref(), "{text}");
        assert_eq!(*prepared, Prepared::new(&event.as_ref()).unwrap(), "{text}");
    }
    quick.is_some()
}

#[test]
fn both_ways_have_the_same_bounds_for_every_field() {
    use crate::limits::*;
    let texts = [
        ("tenant", TENANT_BYTES_MAX),
        ("action", LABEL_BYTES_MAX),
        ("category", LABEL_BYTES_MAX),
        ("actor_type", LABEL_BYTES_MAX),
        ("actor_id", NAME_BYTES_MAX),
        ("actor_name", NAME_BYTES_MAX),
        ("target_type", LABEL_BYTES_MAX),
        ("target_id", NAME_BYTES_MAX),
        ("outcome_reason", AGENT_BYTES_MAX),
        ("source_ip", LABEL_BYTES_MAX),
        ("user_agent", AGENT_BYTES_MAX),
        ("service", LABEL_BYTES_MAX),
        ("request_id", LABEL_BYTES_MAX),
        ("session_id", LABEL_BYTES_MAX),
        ("trace_id", LABEL_BYTES_MAX),
        ("message", MESSAGE_BYTES_MAX),
    ];
    let with = |name: &str, value: serde_json::Value| {
        let mut event = serde_json::json!({ "tenant": "t", "action": "a" });
        event[name] = value;
        event.to_string()
    };
    let long = |bytes: usize| "x".repeat(bytes);
    let mut cases = Vec::new();
    for (name, most) in texts {
        cases.push((with(name, long(most).into()), with(name, long(most + 1).into())));
    }
    for (name, most) in
        [("type", LABEL_BYTES_MAX), ("id", NAME_BYTES_MAX), ("name", NAME_BYTES_MAX)]
    {
        let target = |bytes| with("targets", serde_json::json!([{ name: long(bytes) }]));
        cases.push((target(most), target(most + 1)));
    }
    let targets = |count| with("targets", vec![serde_json::json!({ "id": "x" }); count].into());
    cases.push((targets(TARGETS_MAX), targets(TARGETS_MAX + 1)));
    let key = |bytes| with("attributes", serde_json::json!({ long(bytes): 1 }));
    cases.push((key(LABEL_BYTES_MAX), key(LABEL_BYTES_MAX + 1)));
    // With `{"k":""}` around it.
    let attributes = |bytes| with("attributes", serde_json::json!({ "k": long(bytes - 8) }));
    cases.push((attributes(ATTRIBUTES_BYTES_MAX), attributes(ATTRIBUTES_BYTES_MAX + 1)));
    let padded = |bytes| {
        let short = with("service", "s".into());
        format!("{short}{}", " ".repeat(bytes - short.len()))
    };
    cases.push((padded(EVENT_BYTES_MAX), padded(EVENT_BYTES_MAX + 1)));
    for (most, more) in cases {
        let name = most.get(..80).unwrap_or_default();
        assert!(the_same_both_ways(&most), "{name}");
        assert!(!the_same_both_ways(&more) && parse(&more).is_err(), "{name}");
    }
}

#[test]
fn the_short_cut_of_events_is_as_strict_as_the_long_way() {
    let full = r#"{"event_id":"01890a5d-ac96-774b-bcce-b302099a8057","tenant":"t","action":"a.b",
        "time":"2023-11-14T22:13:20.25+01:00","category":"c","actor_type":"user","actor_id":"u",
        "actor_name":"\u00dc \"q\"","target_type":"f","target_id":"x","outcome":"denied","severity":9,
        "targets":[{"type":"f","id":"x"},{"name":"n"},{}],"outcome_reason":"r","source_ip":"::1",
        "user_agent":"ua","service":"s","request_id":"q","session_id":null,"trace_id":"x",
        "message":"","attributes":{ "b" : [1,2.50,{"z":-1,"y":[]}], "a":{"y":null,"x":"é\n"} } } "#;
    assert!(the_same_both_ways(full));
    assert!(the_same_both_ways(r#"{"tenant":"t","action":"a"}"#));
    // Cut, doubled and replaced bytes: whatever is still taken must be right.
    let mut taken = 0;
    for at in (0..full.len()).filter(|at| full.is_char_boundary(*at)) {
        for change in ["", "\"", ",", "0", "}", "]", "null", "\u{1}", "\\", " ", "e"] {
            let rest = full.get(at + 1..).unwrap_or_default();
            taken += usize::from(the_same_both_ways(&format!("{}{change}{rest}", &full[..at])));
        }
        the_same_both_ways(&full[..at]);
    }
    assert!(taken > 500, "{taken}");
    let name = "n".repeat(300);
    for text in [
        r#"{"tenant":"t","action":"a","tenant":null}"#,
        r#"{"tenant":"t","action":"a","message":null,"message":"m"}"#,
        r#"{"tenant":"","action":"a"}"#,
        r#"{"tenant":"t","action":"a","time":"2999-01-01T00:00:00Z"}"#,
        r#"{"tenant":"t","action":"a","severity":9.0}"#,
        r#"{"tenant":"t","action":"a","target_id":"x","targets":[{"id":"y"}]}"#,
        r#"{"tenant":"t","action":"a","targets":[{"id":"y","id":"y"}]}"#,
        &format!(r#"{{"tenant":"t","action":"a","attributes":{{"{name}":1}}}}"#),
        &format!(r#"{{"tenant":"{name}","action":"a"}}"#),
    ] {
        assert!(!the_same_both_ways(text), "{text}");
    }
}
