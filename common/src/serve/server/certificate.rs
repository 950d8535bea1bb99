//! A certificate's dates and names: the few fields of X.509 that servers and operators watch.
//!
//! Whether it can be used at all is rustls' word (see `tls`); this only reads what it says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::clock::Micros;

/// Tags of DER.
mod tag {
    pub(super) const OCTETS: u8 = 0x04;
    pub(super) const OID: u8 = 0x06;
    pub(super) const UTC_TIME: u8 = 0x17;
    pub(super) const TIME: u8 = 0x18;
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const DNS_NAME: u8 = 0x82;
    pub(super) const IP_ADDRESS: u8 = 0x87;
    pub(super) const VERSION: u8 = 0xa0;
    pub(super) const EXTENSIONS: u8 = 0xa3;
}

/// The object identifier of subjectAltName, 2.5.29.17.
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1d, 0x11];

/// What the first certificate of a chain says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateText {
    /// Not valid before.
    pub from: Micros,
    /// Not valid from then on.
    pub until: Micros,
    /// Names and addresses that it is for.
    pub names: Vec<String>,
}

impl CertificateText {
    /// Reads the first certificate of PEM text.
    pub fn parse(pem: &str) -> Option<Self> {
        let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE-----")?;
        let (text, _) = rest.split_once("-----END CERTIFICATE-----")?;
        let der = STANDARD.decode(text.split_whitespace().collect::<String>()).ok()?;
        Self::of(&der)
    }

    /// Reads a certificate in DER.
    pub fn of(der: &[u8]) -> Option<Self> {
        let mut certificate = Der(der).open(tag::SEQUENCE)?;
        let mut fields = certificate.open(tag::SEQUENCE)?;
        let mut next = fields.next()?;
        if next.0 == tag::VERSION {
            next = fields.next()?;
        }
        // `next` is the serial number; algorithm and issuer follow.
        let (_serial, _algorithm, _issuer) = (next, fields.next()?, fields.next()?);
        let mut validity = fields.open(tag::SEQUENCE)?;
        let (from, until) = (time(validity.next()?)?, time(validity.next()?)?);
        let extensions = fields.find(|(tag, _)| *tag == tag::EXTENSIONS);
        let names = extensions.and_then(|(_, bytes)| names(Der(bytes))).unwrap_or_default();
        Some(CertificateText { from, until, names })
    }

    /// Whether it may be shown now.
    pub fn is_valid(&self, now: Micros) -> bool {
        self.from <= now && now < self.until
    }
}

/// Elements of DER one after another.
struct Der<'a>(&'a [u8]);

impl<'a> Iterator for Der<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = if *first < 0x80 {
            (usize::from(*first), rest)
        } else {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let add = |sum: usize, digit: &u8| sum.checked_mul(256)?.checked_add((*digit).into());
            (digits.iter().try_fold(0, add)?, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }
}

impl<'a> Der<'a> {
    /// The inside of the next element, which must have this tag.
    fn open(&mut self, tag: u8) -> Option<Der<'a>> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| Der(content))
    }
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time((tag, content): (u8, &[u8])) -> Option<Micros> {
    let text = std::str::from_utf8(content).ok()?;
    let text = match tag {
        tag::TIME => text.to_owned(),
        // Two digits mean 1950 to 2049.
        tag::UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
        tag::UTC_TIME => format!("19{text}"),
        _ => return None,
    };
    let part = |from: usize| text.get(from..from + 2);
    Micros::parse_rfc3339(&format!(
        "{}-{}-{}T{}:{}:{}Z",
        text.get(..4)?,
        part(4)?,
        part(6)?,
        part(8)?,
        part(10)?,
        part(12)?
    ))
}

fn names(mut extensions: Der<'_>) -> Option<Vec<String>> {
    for (_, extension) in extensions.open(tag::SEQUENCE)? {
        let mut parts = Der(extension);
        let is_names = parts.next()? == (tag::OID, &SUBJECT_ALT_NAME[..]);
        if let Some((_, content)) = parts.find(|(tag, _)| is_names && *tag == tag::OCTETS) {
            return Some(Der(content).open(tag::SEQUENCE)?.filter_map(name).collect());
        }
    }
    None
}

fn name((tag, content): (u8, &[u8])) -> Option<String> {
    match tag {
        tag::DNS_NAME => std::str::from_utf8(content).ok().map(str::to_owned),
        tag::IP_ADDRESS => match content.len() {
            4 => Some(std::net::Ipv4Addr::from(<[u8; 4]>::try_from(content).ok()?).to_string()),
            _ => Some(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(content).ok()?).to_string()),
        },
        _ => None,
    }
}
