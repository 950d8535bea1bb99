//! `GET /v1/events`: walks from page to page while segments arrive, against a sorted list; what is
//! refused, and what an answer says of itself.

mod oracle;
mod requests;
mod walks;
