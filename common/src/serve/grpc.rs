//! Problem documents as gRPC has them: a status code, a text, and the stable word beside it.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::Problem;
use crate::fault::Kind;

/// The stable word of a refusal, in the metadata of its status.
pub const CODE: HeaderName = HeaderName::from_static("sealcast-code");

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// Of a text: what follows is not worth a header that is refused on its way.
const MESSAGE_CHARS_MAX: usize = 2_000;

impl Problem {
    /// The number of its gRPC status.
    pub fn grpc_code(&self) -> i32 {
        const CANCELLED: i32 = 1;
        match (self.status, self.kind) {
            (StatusCode::UNAUTHORIZED, _) => 16,
            (StatusCode::FORBIDDEN, _) => 7,
            (StatusCode::NOT_FOUND, _) => 5,
            (StatusCode::REQUEST_TIMEOUT, _) => 4,
            (StatusCode::PRECONDITION_FAILED, _) => 9,
            (StatusCode::PAYLOAD_TOO_LARGE, _) | (_, Kind::Overloaded) => 8,
            (StatusCode::NOT_IMPLEMENTED, _) => 12,
            (_, Kind::Conflict) if self.code == "query_cancelled" => CANCELLED,
            (_, Kind::Conflict) => 10,
            (_, Kind::Unavailable) => 14,
            (_, Kind::Corrupt) => 15,
            (_, Kind::Invalid) => 3,
            (_, Kind::Internal) => 13,
        }
    }

    /// What happened, and what to do.
    pub fn grpc_message(&self) -> String {
        let text = match &self.hint {
            Some(hint) => format!("{}\nhint: {hint}", self.detail),
            None => self.detail.clone(),
        };
        match text.char_indices().nth(MESSAGE_CHARS_MAX) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }

    /// An answer that is nothing but a status, for what is refused before gRPC has begun.
    pub(super) fn into_grpc(self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
            (STATUS, HeaderValue::from(self.grpc_code())),
            (CODE, HeaderValue::from_static(self.code)),
        ];
        let mut response = (StatusCode::OK, headers).into_response();
        if let Ok(text) = HeaderValue::from_str(&escaped(&self.grpc_message())) {
            response.headers_mut().insert(MESSAGE, text);
        }
        response
    }
}

/// Whether the client speaks gRPC: it reads no body of a refusal, and no HTTP status.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}

/// Percent-encoded, as gRPC wants its texts.
fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'%' | 0..=31 | 127.. => {
                let _infallible = write!(out, "%{byte:02X}");
            }
            _ => out.push(char::from(byte)),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_status_with_its_word() {
        let problem = Problem::new(Kind::Invalid, "token_missing", "100 % nö")
            .status(StatusCode::UNAUTHORIZED)
            .hint("send one");
        let response = problem.into_grpc();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], "16");
        assert_eq!(response.headers()["sealcast-code"], "token_missing");
        assert_eq!(response.headers()["grpc-message"], "100 %25 n%C3%B6%0Ahint: send one");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let problem = Problem::new(Kind::Internal, "internal", "ö".repeat(5_000));
        assert_eq!(problem.grpc_message().chars().count(), MESSAGE_CHARS_MAX + 1);
    }
}
