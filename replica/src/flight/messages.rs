//! Messages of Flight that the library lacks: session options.

use std::collections::HashMap;

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SessionOptionValue {
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4, 5")]
    pub(crate) value: Option<OptionValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StringList {
    #[prost(string, repeated, tag = "1")]
    pub(crate) values: Vec<String>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum OptionValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(sfixed64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Number(f64),
    #[prost(message, tag = "5")]
    List(StringList),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SessionOptions {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) options: HashMap<String, SessionOptionValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OptionError {
    /// 1: no such name; 2: no such value.
    #[prost(int32, tag = "1")]
    pub(crate) value: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) errors: HashMap<String, OptionError>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CloseSessionResult {
    /// 1: closed.
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}
