//! JSON numbers without rounding: integers stay integers, decimals keep every digit.

use crate::cbor::Writer;
use crate::limits::NUMBER_CHARS_MAX;

/// A number of `attributes`. The variant follows from the literal alone, so that the text that is
/// stored and the bytes that are hashed always agree.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    /// An integer literal that fits.
    Int(i64),
    /// A positive integer literal above `i64::MAX`.
    Uint(u64),
    /// A literal whose decimal value is what the nearest double prints.
    Float(f64),
    /// Anything else: `digits × 10^exponent`, digits without leading or trailing zeros.
    Decimal {
        /// Below zero.
        negative: bool,
        /// Significant digits.
        digits: String,
        /// Power of ten.
        exponent: i64,
    },
}

impl Number {
    /// Reads a JSON number literal. `None`: not a number, or longer or larger than the bounds.
    pub fn parse(literal: &str) -> Option<Number> {
        if literal.len() > NUMBER_CHARS_MAX {
            return None;
        }
        let is_integer = !literal.contains(['.', 'e', 'E']);
        if is_integer && literal != "-0" {
            if let Ok(value) = literal.parse::<i64>() {
                return Some(Number::Int(value));
            }
            if let Ok(value) = literal.parse::<u64>() {
                return Some(Number::Uint(value));
            }
        }
        let exact = Decimal::parse(literal)?;
        let float: f64 = literal.parse().ok()?;
        if float.is_finite() && Decimal::parse(&format!("{float:e}"))? == exact {
            return Some(Number::Float(float));
        }
        let Decimal { negative, digits, exponent } = exact;
        let number = Number::Decimal { negative, digits, exponent };
        // The canonical literal is read again from what is stored: it must keep the bound too.
        let mut canonical = String::new();
        number.write_text(&mut canonical);
        (canonical.len() <= NUMBER_CHARS_MAX).then_some(number)
    }

    /// The canonical literal: valid JSON, and [`Number::parse`] of it gives the same number.
    pub fn write_text(&self, out: &mut String) {
        use std::fmt::Write as _;
        let _infallible = match self {
            Number::Int(value) => write!(out, "{value}"),
            Number::Uint(value) => write!(out, "{value}"),
            Number::Float(value) => write!(out, "{value:?}"),
            Number::Decimal { negative, digits, exponent } => {
                let sign = if *negative { "-" } else { "" };
                write!(out, "{sign}{digits}e{exponent}")
            }
        };
    }

    /// The leaf's form: integer, shortest float, or decimal fraction (tag 4).
    pub fn write_cbor(&self, out: &mut Writer) {
        match self {
            Number::Int(value) => out.int(*value),
            Number::Uint(value) => out.uint(*value),
            Number::Float(value) => out.float(*value),
            Number::Decimal { negative, digits, exponent } => {
                out.tag(4).array(2).int(*exponent);
                write_mantissa(out, *negative, digits)
            }
        };
    }
}

/// An integer of any size: plain when it fits, bignum (tags 2 and 3) otherwise.
fn write_mantissa<'w>(out: &'w mut Writer, negative: bool, digits: &str) -> &'w mut Writer {
    let mut magnitude = big_endian(digits);
    if negative {
        // CBOR's negative integers encode -1 - n.
        for byte in magnitude.iter_mut().rev() {
            let (less, borrow) = byte.overflowing_sub(1);
            *byte = less;
            if !borrow {
                break;
            }
        }
        let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
        magnitude.drain(..zeros.min(magnitude.len()));
    }
    if magnitude.len() <= 8 {
        let value = magnitude.iter().fold(0u64, |value, byte| (value << 8) | u64::from(*byte));
        if !negative {
            return out.uint(value);
        }
        if let Ok(value) = i64::try_from(value) {
            return out.int(!value);
        }
        // Below i64::MIN but still major type 1: the head is written as a raw item.
        out.buffer.push(0x3b);
        out.buffer.extend(value.to_be_bytes());
        return out;
    }
    out.tag(if negative { 3 } else { 2 }).bytes(&magnitude)
}

/// Decimal digits as a big-endian number without leading zero bytes.
fn big_endian(digits: &str) -> Vec<u8> {
    let mut little: Vec<u8> = Vec::new();
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in &mut little {
            let value = u16::from(*byte) * 10 + carry;
            *byte = (value & 0xff) as u8;
            carry = value >> 8;
        }
        if carry > 0 {
            little.push(carry as u8);
        }
    }
    little.reverse();
    little
}

/// A decimal value in one normal form, for comparing literals exactly.
#[derive(Debug, PartialEq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn parse(literal: &str) -> Option<Decimal> {
        let (negative, rest) = match literal.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, literal),
        };
        let (mantissa, power) = match rest.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse::<i64>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = all.trim_start_matches('0').trim_end_matches('0');
        let trailing = all.len() - all.trim_end_matches('0').len();
        if significant.is_empty() {
            return Some(Decimal { negative, digits: "0".into(), exponent: 0 });
        }
        let exponent = power
            .checked_sub(i64::try_from(fraction.len()).ok()?)?
            .checked_add(i64::try_from(trailing).ok()?)?;
        // Bounded, so that no reader has to build a number of a million digits.
        if exponent.unsigned_abs() > 1_000_000 {
            return None;
        }
        Some(Decimal { negative, digits: significant.into(), exponent })
    }
}
