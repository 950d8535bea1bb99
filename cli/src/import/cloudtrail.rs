//! Maps a CloudTrail record to an event: columns where there is one, everything else in `attributes`.
//!
//! Nothing is lost: a member of the record is left out of `attributes` only if a column says all of it.

use serde_json::value::RawValue;
use uuid::Uuid;

use super::event::Fault;
use super::json::{Members, ObjectWriter, is_string, shown, unquoted};

/// Members that every CloudTrail record has, and no event of ours.
const SIGNATURE: [&str; 3] = ["eventVersion", "eventSource", "eventName"];
/// Members that are a column one to one, if they are strings.
const COLUMNS: [(&str, &str); 8] = [
    ("eventTime", "time"),
    ("eventName", "action"),
    ("eventSource", "category"),
    ("errorCode", "outcome_reason"),
    ("errorMessage", "message"),
    ("sourceIPAddress", "source_ip"),
    ("userAgent", "user_agent"),
    ("requestID", "request_id"),
];
/// An event without these would say something else than the record.
const REQUIRED: [&str; 2] = ["eventTime", "eventName"];
/// Targets of one event; what goes beyond stays in `attributes` only.
const TARGETS_MAX: usize = 64;

/// Whether an object is a CloudTrail record.
pub(super) fn recognises(members: &Members<'_>) -> bool {
    SIGNATURE.iter().all(|name| members.get(name).is_some())
}

/// The event of a record whose text has `text_bytes` bytes; `derive` gives an id if it has none.
pub(super) fn event(
    record: &Members<'_>,
    text_bytes: usize,
    derive: impl FnOnce() -> Result<String, Fault>,
) -> Result<String, Fault> {
    for field in REQUIRED {
        if record.string(field).is_none() {
            return Err(Fault::Field {
                field,
                found: shown(record.get(field)),
                expected: "a string",
            });
        }
    }
    let identity = record.object("userIdentity");
    let own_id = record.string("eventID").filter(|id| is_uuid(id));
    let recipient = record.string("recipientAccountId");
    let tenant = recipient.or_else(|| identity.as_ref()?.string("accountId"));
    let tenant = tenant.ok_or_else(|| Fault::Field {
        field: "recipientAccountId",
        found: shown(record.get("recipientAccountId")),
        expected: "an account in it or in userIdentity.accountId: it is the event's tenant",
    })?;
    let resources = resources(record);

    let mut json = String::with_capacity(text_bytes + 256);
    let mut event = ObjectWriter::new(&mut json);
    match own_id {
        Some(id) => event.raw("event_id", id),
        None => event.text("event_id", &derive()?),
    }
    event.raw("tenant", tenant);
    for (name, column) in COLUMNS {
        if let Some(value) = record.string(name) {
            event.raw(column, value);
        }
    }
    if let Some(identity) = &identity {
        write_actor(identity, &mut event);
    }
    if let Some(targets) = &resources.targets {
        event.json("targets", targets);
    }
    event.text("outcome", outcome(record));

    let said_by_column = |name: &str, value: &RawValue| match name {
        "eventID" => own_id.is_some(),
        "recipientAccountId" => recipient.is_some(),
        "resources" => resources.complete,
        _ => is_string(value) && COLUMNS.iter().any(|(known, _)| *known == name),
    };
    let mut attributes = String::with_capacity(text_bytes);
    let mut rest = ObjectWriter::new(&mut attributes);
    for (name, value) in record.iter().filter(|(name, value)| !said_by_column(name, value)) {
        rest.raw(name, value);
    }
    rest.end();
    event.json("attributes", &attributes);
    event.end();
    Ok(json)
}

/// The hyphenated form only: other spellings would not come back the same.
fn is_uuid(id: &RawValue) -> bool {
    unquoted(id)
        .is_some_and(|text| Uuid::try_parse(&text).is_ok_and(|uuid| uuid.to_string() == text))
}

fn write_actor(identity: &Members<'_>, event: &mut ObjectWriter<'_>) {
    let first = |names: &[&str]| names.iter().find_map(|name| identity.string(name));
    let issuer_name = || {
        let issuer = identity.object("sessionContext")?.object("sessionIssuer")?;
        issuer.string("userName")
    };
    let columns = [
        ("actor_type", first(&["type"])),
        ("actor_id", first(&["arn", "principalId", "invokedBy", "accountId"])),
        ("actor_name", first(&["userName"]).or_else(issuer_name)),
    ];
    for (column, value) in columns {
        if let Some(value) = value {
            event.raw(column, value);
        }
    }
}

fn outcome(record: &Members<'_>) -> &'static str {
    let Some(code) = record.string("errorCode").and_then(unquoted) else {
        return if is_failed_sign_in(record) { "failure" } else { "success" };
    };
    let denied = code.contains("AccessDenied")
        || code.starts_with("Unauthorized")
        || code == "Client.UnauthorizedOperation";
    if denied { "denied" } else { "failure" }
}

/// A failed console sign-in has no error code: only its response says so.
fn is_failed_sign_in(record: &Members<'_>) -> bool {
    let response = record.object("responseElements");
    let result = response.and_then(|response| response.string("ConsoleLogin"));
    result.and_then(unquoted).is_some_and(|result| result == "Failure")
}

/// The record's `resources` as targets.
struct Resources {
    /// A JSON array, if there is at least one.
    targets: Option<String>,
    /// The targets say all that `resources` says.
    complete: bool,
}

fn resources(record: &Members<'_>) -> Resources {
    let listed =
        record.get("resources").map(|value| serde_json::from_str::<Vec<Members<'_>>>(value.get()));
    let Some(Ok(listed)) = listed else {
        return Resources { targets: None, complete: false };
    };
    let mut complete = listed.len() <= TARGETS_MAX;
    let mut targets = Vec::new();
    for resource in listed.iter().take(TARGETS_MAX) {
        let id = ["ARN", "ARNPrefix"].iter().find_map(|name| Some((*name, resource.string(name)?)));
        let kind = resource.string("type");
        complete &= resource.iter().all(|(name, _)| match name {
            "type" => kind.is_some(),
            _ => id.is_some_and(|(id_name, _)| id_name == "ARN" && name == "ARN"),
        });
        let Some((_, id)) = id else {
            complete = false;
            continue;
        };
        let mut target = String::new();
        let mut writer = ObjectWriter::new(&mut target);
        if let Some(kind) = kind {
            writer.raw("type", kind);
        }
        writer.raw("id", id);
        writer.end();
        targets.push(target);
    }
    let targets = (!targets.is_empty()).then(|| format!("[{}]", targets.join(",")));
    // An empty list is no target: it stays visible as it was.
    let complete = complete && targets.is_some();
    Resources { targets, complete }
}
