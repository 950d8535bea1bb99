//! Problems as statuses of gRPC, with the code that HTTP has in their metadata.

use sealcast_common::serve::Problem;
use sealcast_common::serve::grpc::CODE;
use serde_json::Value;
use tonic::metadata::{AsciiMetadataKey, MetadataMap};
use tonic::{Code, Status};

const REQUEST_INVALID: &str = "request_invalid";

/// The same refusal as over HTTP.
pub(super) fn status(problem: &Problem) -> Status {
    let mut metadata = MetadataMap::new();
    put(&mut metadata, CODE.as_str(), problem.code);
    if let Some(Value::String(id)) = problem.extra.get("query_id") {
        put(&mut metadata, "sealcast-query-id", id);
    }
    if let Some(seconds) = problem.retry_after {
        put(&mut metadata, "retry-after", &seconds.to_string());
    }
    Status::with_metadata(Code::from(problem.grpc_code()), problem.grpc_message(), metadata)
}

/// Sets a header, if `value` can be one.
pub(super) fn put(metadata: &mut MetadataMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (AsciiMetadataKey::from_bytes(name.as_bytes()), value.parse()) {
        metadata.insert(name, value);
    }
}

/// The stable word of a refusal.
pub(super) fn code(status: &Status) -> Option<&str> {
    status.metadata().get(CODE.as_str()).and_then(|code| code.to_str().ok())
}

/// A refusal of the library's: it has no word of ours, and calls a command that it cannot read an
/// error of the server.
pub(super) fn named(mut status: Status) -> Status {
    if code(&status).is_some() {
        return status;
    }
    let (kind, word) = match status.code() {
        Code::Unimplemented => (Code::Unimplemented, "not_supported"),
        Code::Internal | Code::InvalidArgument | Code::Unknown => {
            (Code::InvalidArgument, REQUEST_INVALID)
        }
        // Of a client that left, or sent too much.
        other => (other, REQUEST_INVALID),
    };
    let mut metadata = std::mem::take(status.metadata_mut());
    put(&mut metadata, CODE.as_str(), word);
    Status::with_metadata(kind, status.message(), metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_s_refusals_get_a_word() {
        let status = named(Status::internal("ParseError"));
        assert_eq!(
            (status.code(), code(&status)),
            (Code::InvalidArgument, Some("request_invalid"))
        );
        let status = named(Status::unimplemented("no"));
        assert_eq!((status.code(), code(&status)), (Code::Unimplemented, Some("not_supported")));
    }
}
