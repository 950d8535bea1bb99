//! An answer's messages: the stream ends well only if the query said so.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow_flight::FlightData;
use bytes::Bytes;
use futures::Stream;
use sealcast_common::fault::Kind;
use sealcast_common::serve::Problem;
use tonic::Status;

use super::status::status;
use crate::serve::{Part, Parts};

/// See the module.
pub(super) struct FlightStream {
    parts: Parts,
    /// What the first message says of the answer.
    metadata: Option<Bytes>,
    ended: bool,
}

impl FlightStream {
    pub(super) fn new(parts: Parts, metadata: Bytes) -> Self {
        FlightStream { parts, metadata: Some(metadata), ended: false }
    }
}

impl Stream for FlightStream {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let part = ready!(self.parts.poll_next(cx));
        if let Some(Part::Flight(mut message)) = part {
            message.app_metadata = self.metadata.take().unwrap_or_default();
            return Poll::Ready(Some(Ok(*message)));
        }
        self.ended = true;
        Poll::Ready(match part {
            Some(Part::End { .. }) => None,
            _ => Some(Err(self.broken())),
        })
    }
}

impl FlightStream {
    fn broken(&mut self) -> Status {
        status(&self.parts.take_problem().unwrap_or_else(|| {
            let detail = "query ended before its answer was complete";
            Problem::new(Kind::Internal, "internal", detail)
        }))
    }
}
