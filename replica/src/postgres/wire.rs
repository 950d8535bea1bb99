//! A connection's bytes: whole messages in, buffered messages out.

use std::io;
use std::time::Duration;

use sealcast_common::serve::Duplex;
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf,
};

use super::out::Out;

/// What is collected before it is sent.
const SEND_BYTES: usize = 64 * 1024;
/// Who takes nothing of that for so long has left: an answer that nobody reads holds a connection's
/// place no longer. Its query ends by its own time limit.
const SEND_STALL: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Wire {
    reader: BufReader<ReadHalf<Box<dyn Duplex>>>,
    writer: WriteHalf<Box<dyn Duplex>>,
    pub(super) out: Out,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

fn bad(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Duplex>) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Wire { reader: BufReader::new(reader), writer, out: Out::default() }
    }

    /// Waits until there is something to read; false: the client has left. Losing it loses nothing.
    pub(super) async fn wait(&mut self) -> bool {
        matches!(self.reader.fill_buf().await, Ok(bytes) if !bytes.is_empty())
    }

    /// Completes when the client has left. What it sends meanwhile is read later.
    pub(super) async fn left(&mut self) {
        if !self.reader.buffer().is_empty() || self.wait().await {
            std::future::pending::<()>().await;
        }
    }

    /// The next message: its kind and its body.
    pub(super) async fn message(&mut self, max: usize) -> io::Result<(u8, Vec<u8>)> {
        let tag = self.reader.read_u8().await?;
        Ok((tag, self.body(max).await?))
    }

    /// What follows a length, which counts itself.
    pub(super) async fn body(&mut self, max: usize) -> io::Result<Vec<u8>> {
        let length = self.reader.read_i32().await?;
        let length = usize::try_from(length).ok().and_then(|length| length.checked_sub(4));
        let length = length.filter(|length| *length <= max);
        let length = length.ok_or_else(|| bad("message has a length that cannot be"))?;
        self.exactly(length).await
    }

    /// So many bytes.
    pub(super) async fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        // Memory as bytes come, not as a stranger counts them.
        let mut body = Vec::new();
        let mut rest = (&mut self.reader).take(length as u64);
        rest.read_to_end(&mut body).await?;
        if body.len() < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(body) }
    }

    /// Sends what is collected, if it is enough.
    pub(super) async fn relieve(&mut self) -> io::Result<()> {
        if self.out.len() >= SEND_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Sends what is collected.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let bytes = self.out.take();
        let sent = async {
            self.writer.write_all(&bytes).await?;
            self.writer.flush().await
        };
        tokio::time::timeout(SEND_STALL, sent).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Sends the rest and closes.
    pub(super) async fn close(mut self) {
        let _gone = self.flush().await;
        let _gone = self.writer.shutdown().await;
    }
}
