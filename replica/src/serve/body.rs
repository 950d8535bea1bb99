//! An answer's body: ends well only if the query said so, and says it once more in a trailer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use axum::body::HttpBody;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use hyper::body::Frame;
use prost::Message as _;
use sealcast_common::serve::Problem;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

/// Trailer: whether the answer was complete.
pub(super) const COMPLETE: HeaderName = HeaderName::from_static("sealcast-complete");
/// Trailer: its rows.
pub(super) const ROWS: HeaderName = HeaderName::from_static("sealcast-rows");

/// In which compressor and connection send what they have: an error makes both drop it, and the
/// client would get nothing at all, not even the status.
const PAUSE: Duration = Duration::from_millis(10);

/// A piece of an answer. An answer without `End` is a broken one.
#[derive(Debug)]
pub(crate) enum Part {
    Bytes(Bytes),
    Flight(Box<FlightData>),
    /// What the rows that follow are made of.
    Columns(SchemaRef),
    Rows(RecordBatch),
    End {
        rows: u64,
        complete: bool,
    },
}

impl Part {
    /// What it takes on its way.
    pub(super) fn size(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Flight(data) => data.encoded_len(),
            // Never nothing: what has no size is not sent.
            Part::Columns(columns) => columns.fields().len().max(1),
            Part::Rows(rows) => slice_bytes(rows).max(1),
            Part::End { .. } => 0,
        }
    }
}

/// What the rows of `batch` take, not what they borrow from.
pub(super) fn slice_bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum()
}

/// The pieces of one answer, as they come.
#[derive(Debug)]
pub(crate) struct Parts {
    parts: mpsc::Receiver<Part>,
    /// Ends with the query's task, even where its work does not let go of `parts` yet.
    watched: Option<oneshot::Receiver<Problem>>,
    problem: Option<Problem>,
}

impl Parts {
    pub(super) fn new(parts: mpsc::Receiver<Part>, watched: oneshot::Receiver<Problem>) -> Self {
        Parts { parts, watched: Some(watched), problem: None }
    }

    /// The next one; `None`: there is no more, whether or not the last was the end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        if let Poll::Ready(part) = self.parts.poll_recv(cx) {
            return Poll::Ready(part);
        }
        if let Some(watched) = &mut self.watched {
            self.problem = ready!(Pin::new(watched).poll(cx)).ok();
            self.watched = None;
        }
        // What was sent before the task ended counts.
        match self.parts.try_recv() {
            Ok(part) => Poll::Ready(Some(part)),
            Err(_) => Poll::Ready(None),
        }
    }

    /// The same, awaited.
    pub(crate) async fn next(&mut self) -> Option<Part> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Why it broke off, for those who can be told so late.
    pub(crate) fn take_problem(&mut self) -> Option<Problem> {
        let told = self.watched.take().and_then(|mut watched| watched.try_recv().ok());
        self.problem.take().or(told)
    }
}

/// The query did not end as it should.
#[derive(Debug, thiserror::Error)]
#[error("query ended before its answer was complete")]
pub(crate) struct Broken;

#[derive(Debug)]
enum Stage {
    Open,
    Breaking(Pin<Box<Sleep>>),
    Ended,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    parts: Parts,
    stage: Stage,
}

impl AnswerBody {
    pub(crate) fn new(parts: Parts) -> Self {
        AnswerBody { parts, stage: Stage::Open }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.stage {
            Stage::Ended => return Poll::Ready(None),
            // An error in the body closes the connection in the middle, or resets the stream:
            // nobody can take what came so far for the whole.
            Stage::Breaking(pause) => {
                ready!(pause.as_mut().poll(cx));
                self.stage = Stage::Ended;
                return Poll::Ready(Some(Err(Broken)));
            }
            Stage::Open => {}
        }
        match ready!(self.parts.poll_next(cx)) {
            Some(Part::Bytes(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Some(Part::End { rows, complete }) => {
                self.stage = Stage::Ended;
                let complete = HeaderValue::from_static(if complete { "true" } else { "false" });
                let trailers =
                    HeaderMap::from_iter([(COMPLETE, complete), (ROWS, HeaderValue::from(rows))]);
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            Some(Part::Flight(_) | Part::Columns(_) | Part::Rows(_)) | None => {
                self.stage = Stage::Breaking(Box::pin(tokio::time::sleep(PAUSE)));
                self.poll_frame(cx)
            }
        }
    }
}
