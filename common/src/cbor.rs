//! Deterministic CBOR (RFC 8949 §4.2.1): a small writer, and strict reading on `minicbor`.
//!
//! The writer is by hand because a leaf's bytes are evidence: every choice (shortest lengths,
//! shortest floats, definite lengths) is visible in these lines. Reading is a library's.

use crate::fault::Corruption;

/// Appends CBOR items to a buffer. Map keys must be written in ascending order of their encoding.
#[derive(Debug, Default)]
pub struct Writer {
    /// The bytes so far.
    pub buffer: Vec<u8>,
}

impl Writer {
    /// An empty buffer.
    pub fn new() -> Self {
        Writer::default()
    }

    #[inline]
    fn head(&mut self, major: u8, value: u64) {
        let [.., low] = value.to_be_bytes();
        if value <= 23 {
            self.buffer.push(major << 5 | low);
        } else {
            self.long_head(major << 5, value);
        }
    }

    fn long_head(&mut self, major: u8, value: u64) {
        let [a, b, c, d, e, f, g, h] = value.to_be_bytes();
        // Every arm is one write of known length.
        match value {
            0..=0xff => self.buffer.extend_from_slice(&[major | 24, h]),
            0x100..=0xffff => self.buffer.extend_from_slice(&[major | 25, g, h]),
            0x1_0000..=0xffff_ffff => {
                self.buffer.extend_from_slice(&[major | 26, e, f, g, h]);
            }
            _ => self.buffer.extend_from_slice(&[major | 27, a, b, c, d, e, f, g, h]),
        }
    }

    /// Unsigned integer.
    #[inline]
    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.head(0, value);
        self
    }

    /// Signed integer.
    #[inline]
    pub fn int(&mut self, value: i64) -> &mut Self {
        if value >= 0 {
            self.head(0, value.unsigned_abs())
        } else {
            self.head(1, !value as u64)
        }
        self
    }

    /// Byte string.
    #[inline]
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.head(2, value.len() as u64);
        self.buffer.extend_from_slice(value);
        self
    }

    /// Text string.
    #[inline]
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.head(3, value.len() as u64);
        self.buffer.extend_from_slice(value.as_bytes());
        self
    }

    /// Array header; `len` items must follow.
    pub fn array(&mut self, len: usize) -> &mut Self {
        self.head(4, len as u64);
        self
    }

    /// Map header; `len` pairs must follow.
    pub fn map(&mut self, len: usize) -> &mut Self {
        self.head(5, len as u64);
        self
    }

    /// Tag; one item must follow.
    pub fn tag(&mut self, tag: u64) -> &mut Self {
        self.head(6, tag);
        self
    }

    /// Boolean.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.buffer.push(if value { 0xf5 } else { 0xf4 });
        self
    }

    /// Null.
    pub fn null(&mut self) -> &mut Self {
        self.buffer.push(0xf6);
        self
    }

    /// Float in the shortest of the three widths that keeps the value.
    pub fn float(&mut self, value: f64) -> &mut Self {
        let single = value as f32;
        if value.is_nan() {
            self.buffer.extend([0xf9, 0x7e, 0x00]);
        } else if f64::from(single).to_bits() != value.to_bits() {
            self.buffer.push(0xfb);
            self.buffer.extend(value.to_be_bytes());
        } else if let Some(half) = half_bits(single) {
            self.buffer.push(0xf9);
            self.buffer.extend(half.to_be_bytes());
        } else {
            self.buffer.push(0xfa);
            self.buffer.extend(single.to_be_bytes());
        }
        self
    }

    /// Items that are encoded already.
    pub fn raw(&mut self, encoded: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(encoded);
        self
    }

    /// The finished bytes.
    pub fn finish(self) -> Vec<u8> {
        self.buffer
    }
}

/// The IEEE 754 half with exactly this value, if there is one.
fn half_bits(value: f32) -> Option<u16> {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let exponent = ((bits >> 23) & 0xff) as i32;
    let mantissa = bits & 0x7f_ffff;
    match exponent {
        0 if mantissa == 0 => Some(sign),
        0xff if mantissa == 0 => Some(sign | 0x7c00),
        113..=142 if mantissa & 0x1fff == 0 => {
            Some(sign | (((exponent - 112) as u16) << 10) | (mantissa >> 13) as u16)
        }
        // Subnormal halves: 2^-24 × m with 1 ≤ m < 1024.
        103..=112 => {
            let full = mantissa | 0x80_0000;
            let shift = 126 - exponent;
            let half = full.checked_shr(shift as u32).unwrap_or(0);
            (half << shift == full).then_some(sign | half as u16)
        }
        _ => None,
    }
}

/// Strict reading: every error is a [`Corruption`] of `check` with the offset in the CBOR bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    decoder: minicbor::Decoder<'a>,
    check: &'static str,
}

macro_rules! read {
    ($(#[$doc:meta])* $name:ident, $method:ident, $type:ty, $what:literal) => {
        $(#[$doc])*
        pub fn $name(&mut self) -> Result<$type, Corruption> {
            let at = self.decoder.position();
            self.decoder.$method().map_err(|error| self.malformed(at, $what, &error))
        }
    };
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; findings carry `check`.
    pub fn new(bytes: &'a [u8], check: &'static str) -> Self {
        Reader { decoder: minicbor::Decoder::new(bytes), check }
    }

    fn malformed(&self, at: usize, what: &str, error: &minicbor::decode::Error) -> Corruption {
        Corruption::new(self.check, at as u64, what, format!("unreadable cbor: {error}"))
    }

    read!(/// Unsigned integer.
        uint, u64, u64, "an unsigned integer");
    read!(/// Signed integer.
        int, i64, i64, "an integer");
    read!(/// Byte string.
        bytes, bytes, &'a [u8], "a byte string");
    read!(/// Text string.
        text, str, &'a str, "a text string");
    read!(/// Boolean.
        bool, bool, bool, "a boolean");

    /// Byte string of exactly `N` bytes.
    pub fn bytes_exact<const N: usize>(&mut self) -> Result<[u8; N], Corruption> {
        let at = self.decoder.position();
        let bytes = self.bytes()?;
        <[u8; N]>::try_from(bytes).map_err(|_| {
            let found = format!("{} bytes", bytes.len());
            Corruption::new(self.check, at as u64, format!("{N} bytes"), found)
        })
    }

    /// Unsigned integer that fits `T`.
    pub fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Corruption> {
        let at = self.decoder.position();
        let value = self.uint()?;
        T::try_from(value).map_err(|_| {
            let expected = format!("a value of {}", std::any::type_name::<T>());
            Corruption::new(self.check, at as u64, expected, value.to_string())
        })
    }

    fn length(&mut self, map: bool) -> Result<usize, Corruption> {
        let at = self.decoder.position();
        let (read, what) = if map {
            (self.decoder.map(), "a map of definite length")
        } else {
            (self.decoder.array(), "an array of definite length")
        };
        let length = read.map_err(|error| self.malformed(at, what, &error))?;
        let remaining = self.decoder.input().len().saturating_sub(self.decoder.position());
        // Every item takes a byte at least: a longer claim cannot be true, so nothing is allocated
        // for it.
        match length {
            Some(length) if length <= remaining as u64 => Ok(length as usize),
            Some(length) => Err(Corruption::new(
                self.check,
                at as u64,
                format!("at most {remaining} items"),
                length.to_string(),
            )),
            None => Err(Corruption::new(self.check, at as u64, what, "indefinite length")),
        }
    }

    /// Array header.
    pub fn array(&mut self) -> Result<usize, Corruption> {
        self.length(false)
    }

    /// Array header with exactly `len` items.
    pub fn array_exact(&mut self, len: usize) -> Result<(), Corruption> {
        let at = self.decoder.position();
        let found = self.array()?;
        if found == len {
            return Ok(());
        }
        let expected = format!("an array of {len}");
        Err(Corruption::new(self.check, at as u64, expected, format!("an array of {found}")))
    }

    /// Map header.
    pub fn map(&mut self) -> Result<usize, Corruption> {
        self.length(true)
    }

    /// The key `key` must come next.
    pub fn key(&mut self, key: u64) -> Result<(), Corruption> {
        let at = self.decoder.position();
        let found = self.uint()?;
        if found == key {
            return Ok(());
        }
        Err(Corruption::new(self.check, at as u64, format!("key {key}"), format!("key {found}")))
    }

    /// Whether the next item is null; consumes it if so.
    pub fn null(&mut self) -> Result<bool, Corruption> {
        let at = self.decoder.position();
        match self.decoder.datatype() {
            Ok(minicbor::data::Type::Null) => {
                self.decoder.null().map_err(|error| self.malformed(at, "null", &error))?;
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(error) => Err(self.malformed(at, "an item", &error)),
        }
    }

    /// Offset of the next item.
    pub fn position(&self) -> usize {
        self.decoder.position()
    }

    /// The decoder itself, for items that this reader has no word for.
    pub fn decoder(&mut self) -> &mut minicbor::Decoder<'a> {
        &mut self.decoder
    }

    /// The check that findings carry.
    pub fn check(&self) -> &'static str {
        self.check
    }

    /// Nothing may follow.
    pub fn end(&self) -> Result<(), Corruption> {
        let (at, len) = (self.decoder.position(), self.decoder.input().len());
        if at == len {
            return Ok(());
        }
        let found = format!("{} bytes more", len - at);
        Err(Corruption::new(self.check, at as u64, "the end", found))
    }
}
