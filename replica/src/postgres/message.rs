//! Messages of clients. Read strictly: a length or count that does not fit ends the connection.

/// A message is not one of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {0}")]
pub(super) struct Malformed(pub(super) &'static str);

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Statement,
    Portal,
}

/// After login.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe {
        of: Of,
        name: String,
    },
    Execute {
        portal: String,
        max: u64,
    },
    Close {
        of: Of,
        name: String,
    },
    Flush,
    Sync,
    Terminate,
    /// Of a COPY into the server, which is never begun: nothing.
    Stray,
}

/// A statement with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    /// 0 text, 1 binary: none, one for all, or one each.
    pub(super) formats: Vec<i16>,
    pub(super) values: Vec<Option<Vec<u8>>>,
    /// The same of the answer's columns.
    pub(super) results: Vec<i16>,
}

/// A message's body, from its front.
pub(super) struct Body<'b>(pub(super) &'b [u8]);

type Read<T> = Result<T, Malformed>;

impl Body<'_> {
    pub(super) fn bytes(&mut self, count: usize) -> Read<&[u8]> {
        let (front, rest) = self.0.split_at_checked(count).ok_or(Malformed("is too short"))?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        self.bytes(N)?.try_into().map_err(|_| Malformed("is too short"))
    }

    fn u8(&mut self) -> Read<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn i16(&mut self) -> Read<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Read<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// A count of things of which each takes at least `least` bytes.
    fn count(&mut self, least: usize) -> Read<usize> {
        let count = usize::from(u16::from_be_bytes(self.array()?));
        let fits = count * least <= self.0.len();
        fits.then_some(count).ok_or(Malformed("counts more than it holds"))
    }

    /// Text up to its zero.
    pub(super) fn text(&mut self) -> Read<String> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = self.bytes(end.ok_or(Malformed("has a text without an end"))?)?.to_vec();
        self.bytes(1)?;
        String::from_utf8(text).map_err(|_| Malformed("has a text that is not utf-8"))
    }

    fn formats(&mut self) -> Read<Vec<i16>> {
        let count = self.count(2)?;
        let formats = (0..count).map(|_| self.i16()).collect::<Read<Vec<_>>>()?;
        let known = formats.iter().all(|format| matches!(format, 0 | 1));
        known.then_some(formats).ok_or(Malformed("has a format that is neither text nor binary"))
    }

    fn of(&mut self) -> Read<Of> {
        match self.u8()? {
            b'S' => Ok(Of::Statement),
            b'P' => Ok(Of::Portal),
            _ => Err(Malformed("names neither a statement nor a portal")),
        }
    }

    fn bind(&mut self) -> Read<Bind> {
        let (portal, statement) = (self.text()?, self.text()?);
        let formats = self.formats()?;
        let count = self.count(4)?;
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            let length = self.i32()?;
            values.push(match usize::try_from(length) {
                Ok(length) => Some(self.bytes(length)?.to_vec()),
                Err(_) if length == -1 => None,
                Err(_) => return Err(Malformed("has a value of negative length")),
            });
        }
        Ok(Bind { portal, statement, formats, values, results: self.formats()? })
    }
}

/// Reads a message.
pub(super) fn decode(tag: u8, body: &[u8]) -> Read<Message> {
    let mut body = Body(body);
    let message = match tag {
        b'Q' => Message::Query(body.text()?),
        b'P' => {
            let (name, sql) = (body.text()?, body.text()?);
            let count = body.count(4)?;
            let types = (0..count).map(|_| body.i32().map(i32::cast_unsigned));
            Message::Parse { name, sql, types: types.collect::<Read<_>>()? }
        }
        b'B' => Message::Bind(body.bind()?),
        b'D' => Message::Describe { of: body.of()?, name: body.text()? },
        b'E' => {
            let portal = body.text()?;
            // No limit where it is zero, and where it makes no sense.
            let max = u64::try_from(body.i32()?).unwrap_or(0);
            Message::Execute { portal, max }
        }
        b'C' => Message::Close { of: body.of()?, name: body.text()? },
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'd' | b'c' | b'f' => return Ok(Message::Stray),
        _ => return Err(Malformed("is of an unknown kind")),
    };
    if body.0.is_empty() { Ok(message) } else { Err(Malformed("is longer than what it says")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_clients_send_and_no_byte_more_or_less() {
        assert_eq!(decode(b'Q', b"select 1\0"), Ok(Message::Query("select 1".into())));
        let parse = b"s\0select $1\0\0\x01\0\0\0\x17";
        let read = Message::Parse { name: "s".into(), sql: "select $1".into(), types: vec![23] };
        assert_eq!(decode(b'P', parse), Ok(read));
        let bind = b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0";
        let Ok(Message::Bind(read)) = decode(b'B', bind) else { panic!("no bind") };
        assert_eq!(read.values, [Some(b"x".to_vec()), None]);
        for (tag, whole) in [(b'Q', &b"select 1\0"[..]), (b'P', parse), (b'B', bind)] {
            for end in 0..whole.len() {
                assert!(decode(tag, &whole[..end]).is_err(), "{end}");
            }
            assert!(decode(tag, &[whole, b"x"].concat()).is_err());
        }
        assert!(decode(b'?', b"").is_err());
    }
}
