//! An event as somebody means it, and the many JSON texts that say it.

use std::fmt::Write as _;

use proptest::prelude::*;

/// SplitMix64: the choices of one case.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// A JSON value by its meaning.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Null,
    Bool(bool),
    /// One spelling only.
    Int(i64),
    Uint(u64),
    /// `mantissa × 10^-scale`, never whole.
    Decimal(i64, u32),
    /// A whole number that is said with a point or an exponent: not the integer.
    Whole(u32),
    Text(String),
    List(Vec<Said>),
    Map(Vec<(String, Said)>),
}

fn said() -> impl Strategy<Value = Said> {
    let decimal = |(mantissa, scale): (i64, u32)| {
        Said::Decimal(if mantissa % 10 == 0 { mantissa + 1 } else { mantissa }, scale)
    };
    let scalar = prop_oneof![
        Just(Said::Null),
        any::<bool>().prop_map(Said::Bool),
        any::<i64>().prop_map(Said::Int),
        any::<u64>().prop_map(Said::Uint),
        (-100_000i64..100_000, 1u32..9).prop_map(decimal),
        // More digits than a double keeps.
        (i64::MIN + 2..i64::MAX - 2, 1u32..30).prop_map(decimal),
        (1u32..).prop_map(Said::Whole),
        ".{0,12}".prop_map(Said::Text),
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Said::List),
            members(inner).prop_map(Said::Map),
        ]
    })
}

fn members(value: impl Strategy<Value = Said>) -> impl Strategy<Value = Vec<(String, Said)>> {
    prop::collection::btree_map(".{0,6}", value, 0..4).prop_map(|map| map.into_iter().collect())
}

fn blank(random: &mut Random, out: &mut String) {
    out.push_str(["", "", " ", "\n\t", "\r\n  "][random.below(5)]);
}

fn spell_text(text: &str, random: &mut Random, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        let must = c < ' ' || c == '"' || c == '\\';
        match c {
            '/' if random.below(2) == 0 => out.push_str("\\/"),
            '"' | '\\' if random.below(2) == 0 => out.extend(['\\', c]),
            '\n' if random.below(2) == 0 => out.push_str("\\n"),
            _ if must || random.below(4) == 0 => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    match random.below(2) {
                        0 => write!(out, "\\u{unit:04x}").unwrap(),
                        _ => write!(out, "\\u{unit:04X}").unwrap(),
                    }
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn spell_decimal(mantissa: i64, scale: u32, random: &mut Random) -> String {
    let (sign, digits) = (if mantissa < 0 { "-" } else { "" }, mantissa.unsigned_abs().to_string());
    let scale = scale as usize;
    let (first, rest) = digits.split_at(1);
    let rest = if rest.is_empty() { "0" } else { rest };
    let power = digits.len() as i64 - 1 - scale as i64;
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    match random.below(6) {
        0 => format!("{sign}{whole}.{fraction}"),
        1 => format!("{sign}{whole}.{fraction}000"),
        2 => format!("{sign}{digits}e-{scale}"),
        3 => format!("{sign}{digits}00E-{}", scale + 2),
        4 => format!("{sign}{first}.{rest}e{power:+}"),
        _ => format!("{sign}{first}.{rest}0E{power}"),
    }
}

fn spell_whole(value: u32, random: &mut Random) -> String {
    match random.below(4) {
        0 => format!("{value}.0"),
        1 => format!("{value}e0"),
        2 => format!("{value}.000E+0"),
        _ => format!("{value}00e-2"),
    }
}

impl Said {
    fn spell(&self, random: &mut Random, out: &mut String) {
        blank(random, out);
        match self {
            Said::Null => out.push_str("null"),
            Said::Bool(value) => write!(out, "{value}").unwrap(),
            Said::Int(value) => write!(out, "{value}").unwrap(),
            Said::Uint(value) => write!(out, "{value}").unwrap(),
            Said::Decimal(mantissa, scale) => {
                out.push_str(&spell_decimal(*mantissa, *scale, random));
            }
            Said::Whole(value) => out.push_str(&spell_whole(*value, random)),
            Said::Text(text) => spell_text(text, random, out),
            Said::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    item.spell(random, out);
                }
                out.push(']');
            }
            Said::Map(members) => {
                let mut members: Vec<_> = members.iter().collect();
                random.shuffle(&mut members);
                out.push('{');
                for (i, (name, value)) in members.into_iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    blank(random, out);
                    spell_text(name, random, out);
                    blank(random, out);
                    out.push(':');
                    value.spell(random, out);
                }
                blank(random, out);
                out.push('}');
            }
        }
        blank(random, out);
    }
}

/// One event: named fields, of which null is the same as absent.
#[derive(Clone, Debug)]
pub(crate) struct SaidEvent {
    event_id: u128,
    /// µs since 2023-11-14T22:13:20Z, below one second.
    micros: u32,
    fields: Vec<(&'static str, Option<Said>)>,
}

pub(crate) fn said_event() -> impl Strategy<Value = SaidEvent> {
    let label = || prop::option::of("[a-z]{0,3}".prop_map(Said::Text));
    let free = || prop::option::of(".{0,12}".prop_map(Said::Text));
    let target = ("[a-z]{1,3}", free(), free()).prop_map(|(kind, id, name)| {
        let kind = ("type".to_owned(), Said::Text(kind));
        let more = [("id", id), ("name", name)];
        let more = more.into_iter().map(|(n, v)| (n.to_owned(), v.unwrap_or(Said::Null)));
        Said::Map(std::iter::once(kind).chain(more).collect())
    });
    let targets = prop::option::of(prop::collection::vec(target, 0..4).prop_map(Said::List));
    // Now and then one that stands out of line in the leaf.
    let long = prop::option::weighted(0.05, Just(Said::Text("long/".repeat(2_000))));
    let attributes = (members(said()), long).prop_map(|(mut members, long)| {
        members.extend(long.map(|long| ("longest".to_owned(), long)));
        Said::Map(members)
    });
    let severity = prop::option::of((1i64..=24).prop_map(Said::Int));
    let labels = (label(), label(), label(), label(), severity);
    let texts = (free(), free(), free(), targets, prop::option::of(attributes));
    let whole = (any::<u128>(), 0u32..1_000_000, "[a-c]", "[a-z]{1,3}", labels, texts);
    whole.prop_map(|(event_id, micros, tenant, action, labels, texts)| SaidEvent {
        event_id,
        micros,
        fields: vec![
            ("tenant", Some(Said::Text(tenant))),
            ("action", Some(Said::Text(action))),
            ("category", labels.0),
            ("actor_type", labels.1),
            ("service", labels.2),
            ("user_agent", labels.3),
            ("severity", labels.4),
            ("actor_id", texts.0),
            ("message", texts.1),
            ("request_id", texts.2),
            ("targets", texts.3),
            ("attributes", texts.4),
        ],
    })
}

impl SaidEvent {
    /// One JSON text that says it.
    pub(crate) fn spell(&self, random: &mut Random) -> String {
        let id = uuid::Uuid::from_u128(self.event_id).to_string();
        let id = if random.below(2) == 0 { id } else { id.to_uppercase() };
        let fraction = format!("{:06}", self.micros);
        let time = match random.below(3) {
            0 => format!("2023-11-14T22:13:20.{fraction}Z"),
            1 => format!("2023-11-15T00:43:20.{fraction}+02:30"),
            // Digits beyond microseconds are cut off.
            _ => format!("2023-11-14T15:13:20.{fraction}999-07:00"),
        };
        let fixed = [("event_id", Said::Text(id)), ("time", Said::Text(time))];
        let mut members: Vec<(String, Said)> =
            fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        for (name, value) in &self.fields {
            match value {
                Some(value) => members.push(((*name).to_owned(), value.clone())),
                None if random.below(2) == 0 => members.push(((*name).to_owned(), Said::Null)),
                None => {}
            }
        }
        let mut text = String::new();
        Said::Map(members).spell(random, &mut text);
        text
    }

    /// Events that differ from it in one thing.
    pub(crate) fn changed(&self) -> Vec<SaidEvent> {
        let mut all = vec![
            SaidEvent { event_id: self.event_id ^ 1, ..self.clone() },
            SaidEvent { micros: self.micros ^ 1, ..self.clone() },
        ];
        for (at, (_, value)) in self.fields.iter().enumerate() {
            let mut other = self.clone();
            other.fields[at].1 = match value {
                Some(Said::Text(text)) => Some(Said::Text(format!("{text}x"))),
                Some(Said::Int(value)) => Some(Said::Int(1 + value % 24)),
                Some(Said::Map(members)) => {
                    let more = ("a longer name".to_owned(), Said::Null);
                    Some(Said::Map(members.iter().cloned().chain([more]).collect()))
                }
                _ => continue,
            };
            all.push(other);
        }
        all
    }
}
