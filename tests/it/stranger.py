"""A stranger's check: counts from the raw files, rows from the sealed segments.

usage: stranger.py CLOUDTRAIL_DIR SEALED_DIR ANSWERS_JSON
"""
import collections
import glob
import json
import sys

import polars
import pyarrow
import pyarrow.ipc

source, sealed, answers = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
records = []
for path in sorted(glob.glob(source + "/**/*.json", recursive=True)):
    with open(path, encoding="utf-8") as file:
        records += json.load(file)["Records"]


def actor(record):
    identity = record["userIdentity"]
    for name in ("arn", "principalId", "invokedBy", "accountId"):
        if isinstance(identity.get(name), str):
            return identity[name]
    return None


counts = {
    "action": collections.Counter(r["eventName"] for r in records),
    "actor": collections.Counter(actor(r) for r in records),
    "hour": collections.Counter(r["eventTime"][:13] for r in records),
}
for name, expected in counts.items():
    found = {(k[:13] if name == "hour" else k): n for k, n in answers[name]}
    assert found == dict(expected), (name, found, expected)

by_arrow, by_polars = {}, {}
paths = sorted(glob.glob(sealed + "/**/*.seg", recursive=True))
assert paths, "no sealed segment"
for path in paths:
    with pyarrow.memory_map(path) as mapped:
        table = pyarrow.ipc.open_file(mapped).read_all()
    table.validate(full=True)
    for row in table.select(["event_id", "action", "_shard", "_seq"]).to_pylist():
        key = (row["_shard"], row["_seq"])
        assert key not in by_arrow, key
        by_arrow[key] = (str(row["event_id"]), row["action"])
    frame = polars.scan_ipc(path).select(["action", "_shard", "_seq"]).collect()
    for action, shard, seq in frame.rows():
        by_polars[(shard, seq)] = str(action)
assert len(by_arrow) == len(records), (len(by_arrow), len(records))
assert by_polars == {key: action for key, (_, action) in by_arrow.items()}
assert {i.lower() for i, _ in by_arrow.values()} == {r["eventID"].lower() for r in records}
print(f"{len(records)} records, {len(paths)} segments: equal")
