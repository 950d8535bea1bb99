//! PostgreSQL's protocol, message by message, over real files in a real store folder.

mod catalog;
mod escapes;
mod hostile;
mod protocol;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::kit::Replica;

/// A client that speaks the protocol byte by byte.
struct Client {
    stream: TcpStream,
    key: (i32, i32),
}

/// A message of the server: its kind and its body.
type Told = (u8, Vec<u8>);

fn address(replica: &Replica) -> SocketAddr {
    replica.handle.postgres.unwrap()
}

/// A message, or with kind 0 what has none.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 4).unwrap().to_be_bytes();
    let kind = (kind > 0).then_some(kind);
    kind.into_iter().chain(length).chain(body.iter().copied()).collect()
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = (3_i32 << 16).to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend(text(name));
        body.extend(text(value));
    }
    body.push(0);
    message(0, &body)
}

fn parse(name: &str, sql: &str, types: &[i32]) -> Vec<u8> {
    let mut body = [text(name), text(sql)].concat();
    body.extend(i16::try_from(types.len()).unwrap().to_be_bytes());
    types.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
    message(b'P', &body)
}

/// With one format for all values, and one for all columns.
fn bind(portal: &str, statement: &str, values: &[&[u8]], format: i16) -> Vec<u8> {
    let mut body = [text(portal), text(statement)].concat();
    body.extend(1_i16.to_be_bytes());
    body.extend(format.to_be_bytes());
    body.extend(i16::try_from(values.len()).unwrap().to_be_bytes());
    for value in values {
        body.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend(*value);
    }
    body.extend(1_i16.to_be_bytes());
    body.extend(format.to_be_bytes());
    message(b'B', &body)
}

fn describe(of: u8, name: &str) -> Vec<u8> {
    message(b'D', &[vec![of], text(name)].concat())
}

fn execute(portal: &str, max: i32) -> Vec<u8> {
    message(b'E', &[text(portal), max.to_be_bytes().to_vec()].concat())
}

fn sync() -> Vec<u8> {
    message(b'S', b"")
}

impl Client {
    /// Somebody at a replica without tokens.
    async fn open(replica: &Replica) -> Self {
        Self::login(address(replica), None).await.unwrap()
    }

    /// Somebody with a password; the refusal's code if it is refused.
    async fn login(address: SocketAddr, password: Option<&str>) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut client = Client { stream, key: (0, 0) };
        let start = startup(&[("user", "me"), ("database", "sealcast")]);
        client.send(&start).await;
        if let Some(password) = password {
            assert_eq!(client.next().await, Some((b'R', vec![0, 0, 0, 3])));
            client.send(&message(b'p', &text(password))).await;
        }
        let told = client.until_ready().await;
        if let Some(error) = told.iter().find(|(kind, _)| *kind == b'E') {
            return Err(field(&error.1, b'C'));
        }
        let (_, key) = told.iter().find(|(kind, _)| *kind == b'K').unwrap();
        let number = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().unwrap());
        client.key = (number(&key[..4]), number(&key[4..]));
        Ok(client)
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next message; `None`: the server has closed.
    async fn next(&mut self) -> Option<Told> {
        let kind = self.stream.read_u8().await.ok()?;
        let length = self.stream.read_i32().await.ok()?;
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        self.stream.read_exact(&mut body).await.ok()?;
        Some((kind, body))
    }

    /// All messages up to the one that says that the next statement may come, or up to the end.
    async fn until_ready(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        while let Some(message) = self.next().await {
            let ready = message.0 == b'Z';
            told.push(message);
            if ready {
                break;
            }
        }
        told
    }

    /// What a text of statements is answered.
    async fn simple(&mut self, sql: &str) -> Vec<Told> {
        self.send(&message(b'Q', &text(sql))).await;
        self.until_ready().await
    }

    /// Rows of a statement as text.
    async fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        let told = self.simple(sql).await;
        assert!(!told.iter().any(|(kind, _)| *kind == b'E'), "{sql}: {}", shown(&told));
        rows(&told)
    }

    /// The SQLSTATE and the message of a refusal.
    async fn refused(&mut self, sql: &str) -> (String, String) {
        let told = self.simple(sql).await;
        let error = told.iter().find(|(kind, _)| *kind == b'E');
        let (_, body) = error.unwrap_or_else(|| panic!("{sql}: {}", shown(&told)));
        (field(body, b'C'), field(body, b'M'))
    }
}

/// The kinds of messages, in order.
fn kinds(told: &[Told]) -> String {
    told.iter().map(|(kind, _)| char::from(*kind)).collect()
}

/// Messages for people.
fn shown(told: &[Told]) -> String {
    let line = |(kind, body): &Told| {
        format!("{} {}\n", char::from(*kind), String::from_utf8_lossy(body).replace('\0', "|"))
    };
    told.iter().map(line).collect()
}

/// A field of an error or a notice.
fn field(body: &[u8], name: u8) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let found = fields.find(|field| field.first() == Some(&name));
    found.map(|field| String::from_utf8_lossy(&field[1..]).into_owned()).unwrap_or_default()
}

/// The values of rows.
fn rows(told: &[Told]) -> Vec<Vec<Option<String>>> {
    let rows = told.iter().filter(|(kind, _)| *kind == b'D');
    rows.map(|(_, body)| {
        let mut rest = &body[2..];
        let mut row = Vec::new();
        while !rest.is_empty() {
            let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
            rest = &rest[4..];
            row.push(usize::try_from(length).ok().map(|length| {
                let value = String::from_utf8_lossy(&rest[..length]).into_owned();
                rest = &rest[length..];
                value
            }));
        }
        row
    })
    .collect()
}

fn one(rows: &[Vec<Option<String>>]) -> &str {
    rows[0][0].as_deref().unwrap()
}
