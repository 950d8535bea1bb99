//! The CloudTrail mapping: single rules, and 2,900 real records against an independent count.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::tests::{imported, outcomes};
use super::{discover, open};

fn record(changes: Value) -> Value {
    let mut record = json!({
        "eventVersion": "1.08",
        "userIdentity": {
            "type": "IAMUser", "principalId": "AIDA", "arn": "arn:aws:iam::1:user/alice",
            "accountId": "1", "userName": "alice",
        },
        "eventTime": "2023-07-10T11:42:44Z",
        "eventSource": "s3.amazonaws.com",
        "eventName": "GetObject",
        "awsRegion": "us-east-1",
        "sourceIPAddress": "192.0.2.1",
        "userAgent": "aws-cli",
        "requestParameters": { "n": 1.50, "none": null },
        "responseElements": null,
        "requestID": "R1",
        "eventID": "3c856bc0-1a07-4c18-89d9-4d9205856714",
        "readOnly": true,
        "recipientAccountId": "1",
    });
    for (name, value) in changes.as_object().unwrap() {
        record[name] = value.clone();
    }
    record
}

fn without(mut record: Value, name: &str) -> Value {
    record.as_object_mut().unwrap().remove(name);
    record
}

fn mapped(record: &Value) -> Value {
    imported(record.to_string()).remove(0)
}

#[test]
fn columns_are_filled_and_the_rest_is_kept_under_its_name() {
    let event = mapped(&record(json!({})));
    let expected = json!({
        "event_id": "3c856bc0-1a07-4c18-89d9-4d9205856714",
        "tenant": "1",
        "time": "2023-07-10T11:42:44Z",
        "action": "GetObject",
        "category": "s3.amazonaws.com",
        "source_ip": "192.0.2.1",
        "user_agent": "aws-cli",
        "request_id": "R1",
        "actor_type": "IAMUser",
        "actor_id": "arn:aws:iam::1:user/alice",
        "actor_name": "alice",
        "outcome": "success",
        "attributes": {
            "eventVersion": "1.08",
            "userIdentity": {
                "type": "IAMUser", "principalId": "AIDA", "arn": "arn:aws:iam::1:user/alice",
                "accountId": "1", "userName": "alice",
            },
            "awsRegion": "us-east-1",
            "requestParameters": { "n": 1.50, "none": null },
            "responseElements": null,
            "readOnly": true,
        },
    });
    assert_eq!(event, expected);
}

#[test]
fn actors_fall_back_to_what_the_identity_has() {
    let cases = [
        (json!({ "principalId": "P", "invokedBy": "s3", "accountId": "1" }), "P", None),
        (
            json!({ "type": "AWSService", "invokedBy": "s3.amazonaws.com" }),
            "s3.amazonaws.com",
            None,
        ),
        (json!({ "accountId": "1" }), "1", None),
        (
            json!({ "arn": "A", "sessionContext": { "sessionIssuer": { "userName": "role" } } }),
            "A",
            Some("role"),
        ),
    ];
    for (identity, id, name) in cases {
        let event = mapped(&record(json!({ "userIdentity": identity })));
        assert_eq!((event["actor_id"].as_str(), event["actor_name"].as_str()), (Some(id), name));
        assert_eq!(event.get("actor_type"), identity.get("type"));
        assert_eq!(event["attributes"]["userIdentity"], identity);
    }
}

#[test]
fn error_codes_decide_the_outcome() {
    let cases = [
        ("AccessDenied", "denied"),
        ("AccessDeniedException", "denied"),
        ("KMS.AccessDeniedException", "denied"),
        ("UnauthorizedOperation", "denied"),
        ("Client.UnauthorizedOperation", "denied"),
        ("ThrottlingException", "failure"),
        ("NoSuchBucketPolicy", "failure"),
    ];
    for (code, outcome) in cases {
        let event = mapped(&record(json!({ "errorCode": code, "errorMessage": "why" })));
        assert_eq!(
            (&event["outcome"], &event["outcome_reason"], &event["message"]),
            (&json!(outcome), &json!(code), &json!("why"))
        );
        assert!(event["attributes"].get("errorCode").is_none());
    }
    // A failed sign-in to the console has no error code.
    let event = mapped(&record(json!({
        "eventName": "ConsoleLogin", "errorMessage": "Failed authentication", "responseElements": { "ConsoleLogin": "Failure" },
    })));
    assert_eq!(
        (&event["outcome"], &event["message"]),
        (&json!("failure"), &json!("Failed authentication"))
    );
}

#[test]
fn resources_become_targets_and_stay_if_a_target_cannot_say_it_all() {
    let target = json!([{ "type": "AWS::S3::Bucket", "id": "arn:b" }]);
    let cases = [
        (json!([{ "type": "AWS::S3::Bucket", "ARN": "arn:b" }]), target.clone(), false),
        (
            json!([{ "type": "AWS::S3::Bucket", "ARN": "arn:b", "accountId": "1" }]),
            target.clone(),
            true,
        ),
        (json!([{ "type": "AWS::S3::Bucket", "ARNPrefix": "arn:b" }]), target.clone(), true),
        (json!([{ "type": "AWS::S3::Bucket", "ARN": "arn:b" }, { "type": "x" }]), target, true),
        (json!([{ "ARN": "arn:c" }]), json!([{ "id": "arn:c" }]), false),
        (json!([]), Value::Null, true),
        (json!(null), Value::Null, true),
        (json!("odd"), Value::Null, true),
    ];
    for (resources, targets, kept) in cases {
        let event = mapped(&record(json!({ "resources": resources })));
        assert_eq!(event["targets"], targets, "{resources}");
        assert_eq!(event["attributes"].get("resources"), kept.then_some(&resources));
    }
}

#[test]
fn members_of_an_unexpected_type_stay_where_they_can_be_seen() {
    let event = mapped(&record(
        json!({ "errorCode": null, "userAgent": 7, "userIdentity": "odd", "requestID": ["R"] }),
    ));
    assert_eq!(event["outcome"], "success");
    for (name, value) in [
        ("errorCode", json!(null)),
        ("userAgent", json!(7)),
        ("userIdentity", json!("odd")),
        ("requestID", json!(["R"])),
    ] {
        assert_eq!(event["attributes"][name], value);
    }
}

#[test]
fn the_tenant_falls_back_and_what_is_needed_is_named() {
    assert_eq!(mapped(&without(record(json!({})), "recipientAccountId"))["tenant"], "1");
    let nobody = record(json!({ "userIdentity": {}, "recipientAccountId": null }));
    assert_eq!(
        outcomes(nobody.to_string()),
        [
            "line 1: field recipientAccountId: found null, expected an account in it or in userIdentity.accountId: it is the event's tenant"
        ]
    );
    assert_eq!(
        outcomes(record(json!({ "eventTime": 7 })).to_string()),
        ["line 1: field eventTime: found 7, expected a string"]
    );
}

#[test]
fn a_record_without_a_usable_id_gets_the_same_one_each_time() {
    let absent = without(record(json!({})), "eventID");
    let first = mapped(&absent);
    assert_eq!(first, mapped(&absent));
    assert!(uuid::Uuid::try_parse(first["event_id"].as_str().unwrap()).is_ok());
    for odd in ["not-a-uuid", "3C856BC0-1A07-4C18-89D9-4D9205856714"] {
        let event = mapped(&record(json!({ "eventID": odd })));
        assert_ne!(event["event_id"], odd);
        assert_eq!(event["attributes"]["eventID"], odd);
    }
}

/// The real records, raw and mapped; nothing if the data is not there.
fn real_records() -> Option<(Vec<Value>, Vec<Value>)> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test has no config to ask where the data lies"
    )]
    let data = std::env::var_os("SEALCAST_DATA");
    let folder =
        data.map(|data| PathBuf::from(data).join("cloudtrail")).filter(|folder| folder.is_dir());
    let Some(folder) = folder else {
        // Past the capture of test output: whatever is skipped must be seen.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: real CloudTrail records: $SEALCAST_DATA/cloudtrail is not a folder"
        );
        return None;
    };
    let sources = discover(&[folder]).unwrap();
    let (mut raw, mut events) = (Vec::new(), Vec::new());
    for file in &sources.files {
        let mut content: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        raw.append(content["Records"].as_array_mut().unwrap());
        events.extend(
            open(file)
                .unwrap()
                .map(|event| serde_json::from_str::<Value>(&event.unwrap().json).unwrap()),
        );
    }
    Some((raw, events))
}

fn count<'a>(
    values: &'a [Value],
    key: impl Fn(&'a Value) -> Option<&'a str>,
) -> BTreeMap<Option<&'a str>, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(key(value)).or_default() += 1;
    }
    counts
}

#[test]
fn real_records_count_the_same_by_action_actor_and_hour() {
    let Some((raw, events)) = real_records() else { return };
    assert_eq!((raw.len(), events.len()), (2900, 2900));
    let actions = count(&events, |event| event["action"].as_str());
    assert_eq!(actions.len(), 260);
    assert_eq!(actions, count(&raw, |record| record["eventName"].as_str()));
    let actor = |record: &'static [&'static str], value: &'_ Value| -> Option<String> {
        record.iter().find_map(|name| value["userIdentity"][*name].as_str()).map(str::to_owned)
    };
    let order = &["arn", "principalId", "invokedBy", "accountId"];
    let mut by_actor: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for record in &raw {
        *by_actor.entry(actor(order, record)).or_default() += 1;
    }
    let mapped_by_actor = count(&events, |event| event["actor_id"].as_str());
    assert_eq!(
        by_actor,
        mapped_by_actor.into_iter().map(|(id, n)| (id.map(str::to_owned), n)).collect()
    );
    let hours = count(&events, |event| event["time"].as_str().and_then(|time| time.get(..13)));
    assert_eq!(
        hours,
        count(&raw, |record| record["eventTime"].as_str().and_then(|time| time.get(..13)))
    );
    let outcomes = count(&events, |event| event["outcome"].as_str());
    assert_eq!(
        outcomes,
        BTreeMap::from([(Some("denied"), 60), (Some("failure"), 240), (Some("success"), 2600)])
    );
}

#[test]
fn real_records_can_be_rebuilt_from_their_events() {
    let Some((raw, events)) = real_records() else { return };
    let columns = [
        ("eventID", "event_id"),
        ("recipientAccountId", "tenant"),
        ("eventTime", "time"),
        ("eventName", "action"),
        ("eventSource", "category"),
        ("errorCode", "outcome_reason"),
        ("errorMessage", "message"),
        ("sourceIPAddress", "source_ip"),
        ("userAgent", "user_agent"),
        ("requestID", "request_id"),
    ];
    for (record, event) in raw.iter().zip(&events) {
        let mut rebuilt: Map<String, Value> = event["attributes"].as_object().unwrap().clone();
        for (name, column) in columns {
            if let Some(value) = event.get(column) {
                assert!(
                    rebuilt.insert(name.to_owned(), value.clone()).is_none(),
                    "{name} is said twice"
                );
            }
        }
        assert_eq!(&Value::Object(rebuilt), record);
    }
}

/// Levels of objects and arrays.
fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The largest of what the bounds of an event are about: `common::limits` must leave room for these.
#[test]
fn real_records_have_these_extremes() {
    let Some((_, events)) = real_records() else { return };
    let max = |size: &dyn Fn(&Value) -> usize| events.iter().map(size).max().unwrap();
    let text = |name: &'static str| max(&move |event| event[name].as_str().map_or(0, str::len));
    assert_eq!(max(&|event| depth(&event["attributes"])), 11, "depth of attributes");
    assert_eq!(max(&|event| event["attributes"].to_string().len()), 5018, "bytes of attributes");
    assert_eq!(max(&|event| event.to_string().len()), 5466, "bytes of an event");
    assert_eq!(max(&|event| event["targets"].as_array().map_or(0, Vec::len)), 10, "targets");
    assert_eq!(text("message"), 680, "bytes of errorMessage");
    assert_eq!(text("user_agent"), 331, "bytes of userAgent");
    assert_eq!(text("outcome_reason"), 40, "bytes of errorCode");
    assert_eq!(text("actor_id"), 113, "bytes of the actor's id");
}
