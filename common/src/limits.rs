//! Every maximum of the system, in one place, with the relations between them asserted.
//!
//! Names end in the unit and the bound (`event_bytes_max` → [`EVENT_BYTES_MAX`]). A limit that an
//! operator may change is the default here and a setting in the role's `config`.

/// One event as JSON text, bytes.
pub const EVENT_BYTES_MAX: usize = 256 * 1024;
/// One request body after decompression, bytes.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// One request body as received, bytes.
pub const REQUEST_WIRE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Events in one request.
pub const REQUEST_EVENTS_MAX: usize = 20_000;
/// Problems listed in one answer; the rest is counted.
pub const PROBLEMS_LISTED_MAX: usize = 20;
/// `Idempotency-Key`, bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;
/// How long a request key or an event id is remembered, microseconds.
pub const IDEMPOTENCY_WINDOW_MICROS: i64 = 24 * 3600 * 1_000_000;
/// Remembered keys and ids per shard.
pub const IDEMPOTENCY_KEYS_MAX: usize = 1_000_000;
/// Events of the requests whose keys are remembered, per shard.
pub const IDEMPOTENCY_EVENTS_MAX: usize = 4_000_000;
/// Request bodies that a writer holds and reads at one time, bytes.
pub const INGEST_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How long a request waits for its part of that, milliseconds.
pub const INGEST_WAIT_MS_MAX: u64 = 5_000;
/// How long a request's body may take to arrive, milliseconds.
pub const BODY_MS_MAX: u64 = 30_000;
/// A body that sends nothing for so long is given up, milliseconds: it holds memory from others.
pub const BODY_STALL_MS_MAX: u64 = 4_000;

/// `tenant`, bytes of UTF-8.
pub const TENANT_BYTES_MAX: usize = 256;
/// `action`, `category`, the types, `outcome`, `service` and the ids of requests, bytes each.
pub const LABEL_BYTES_MAX: usize = 256;
/// `actor_id`, `actor_name`, `target_id`, a target's name, bytes each.
pub const NAME_BYTES_MAX: usize = 2 * 1024;
/// `user_agent` and `outcome_reason`, bytes each.
pub const AGENT_BYTES_MAX: usize = 4 * 1024;
/// `message`, bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// `targets`, entries.
pub const TARGETS_MAX: usize = 64;
/// `attributes` as canonical JSON text, bytes.
pub const ATTRIBUTES_BYTES_MAX: usize = 128 * 1024;
/// Nesting of `attributes`, levels (the object itself is level 1).
pub const ATTRIBUTES_DEPTH_MAX: usize = 32;
/// A number in `attributes`, characters of its literal.
pub const NUMBER_CHARS_MAX: usize = 512;
/// How far an event's `time` may lie in the future, microseconds.
pub const FUTURE_MICROS_MAX: i64 = 5 * 60 * 1_000_000;

/// A leaf's bytes: the bound of C2SP entry bundles.
pub const LEAF_BYTES_MAX: usize = 65_535;
/// A field whose encoding is longer is hashed out of line, bytes.
pub const LEAF_INLINE_BYTES_MAX: usize = 8 * 1024;
/// The attributes that stay inside a leaf, bytes; above it the whole map goes out of line.
pub const LEAF_ATTRIBUTES_INLINE_BYTES_MAX: usize = 24 * 1024;

/// One frame of the write-ahead log, bytes of payload: a group of requests.
pub const WAL_FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Tail size that triggers a seal, bytes of write-ahead log.
pub const TAIL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Tail age that triggers a seal, milliseconds.
pub const TAIL_AGE_MS_MAX: u64 = 10_000;
/// Requests waiting in a shard's queue.
pub const SHARD_QUEUE_MAX: usize = 1_024;
/// Bytes waiting in a shard's queue.
pub const SHARD_QUEUE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// The first wait before a shard whose disk failed is opened again, milliseconds.
pub const REOPEN_MS_LEAST: u64 = 100;
/// The longest of these waits, milliseconds.
pub const REOPEN_MS_MAX: u64 = 5_000;
/// Space that a full disk must have before a log is opened again, bytes.
pub const REOPEN_BYTES_LEAST: usize = 1024 * 1024;
/// Shards of one writer.
pub const SHARDS_MAX: u16 = 1_024;

/// Rows of one segment.
pub const SEGMENT_ROWS_MAX: usize = 4_000_000;
/// Bytes of one segment file; the length field of an untrusted descriptor is bounded by it.
pub const SEGMENT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Rows of one record batch.
pub const BATCH_ROWS_MAX: usize = 16_384;
/// Distinct values of a dictionary column before it falls back to plain text in that segment.
pub const DICTIONARY_VALUES_MAX: usize = 65_536;
/// Entries of each fact list and of the tenant directory in a seal.
pub const FACTS_MAX: usize = 4_096;
/// Bytes of a seal (CBOR) that a reader accepts.
pub const SEAL_BYTES_MAX: usize = 256 * 1024 * 1024;

/// One commit record, bytes.
pub const COMMIT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How far one claim may raise a stream's epoch. A claim at the end of the numbers would be the
/// last one for ever; with this bound even 2^44 such claims are not.
pub const EPOCH_STEP_MAX: u64 = 1 << 20;
/// Segments added by one commit.
pub const COMMIT_ADDS_MAX: usize = 1_024;
/// Changes of one log's key: its history stands beside every checkpoint.
pub const HAND_OVERS_MAX: usize = 16;
/// Descriptors in one snapshot leaf.
pub const SNAPSHOT_LEAF_MAX: usize = 4_096;
/// Commits between two snapshots.
pub const SNAPSHOT_EVERY: u64 = 64;
/// A segment up to this size is uploaded by one put, bytes.
pub const SINGLE_PUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// SQL text, bytes.
pub const SQL_BYTES_MAX: usize = 256 * 1024;
/// Parameters of one statement.
pub const SQL_PARAMS_MAX: usize = 1_000;
/// Longest wait for `min=<token>`, milliseconds.
pub const WAIT_MS_MAX: u64 = 60_000;

/// A tokens file, bytes.
pub const TOKENS_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Tokens of one file.
pub const TOKENS_MAX: usize = 10_000;
/// Tenants of one token: as many as a lookup by tenant may name.
pub const TOKEN_TENANTS_MAX: usize = 4_096;
/// How long a TLS handshake may take, milliseconds.
pub const HANDSHAKE_MS_MAX: u64 = 10_000;

const _: () = {
    assert!(EVENT_BYTES_MAX <= REQUEST_BYTES_MAX);
    assert!(ATTRIBUTES_BYTES_MAX + MESSAGE_BYTES_MAX <= EVENT_BYTES_MAX);
    // A group always fits one frame of the log: at most `group_bytes` of events and one request, and
    // events' encodings are smaller than their JSON plus a constant per event.
    assert!(
        2 * TAIL_BYTES_MAX as usize + REQUEST_BYTES_MAX + REQUEST_EVENTS_MAX * 256
            <= WAL_FRAME_BYTES_MAX
    );
    // Whatever a client sends, its leaf fits: out-of-line rules bound the three large fields, the
    // rest is bounded one by one (3 names, 2 agents, 10 labels, with their headers).
    assert!(
        LEAF_INLINE_BYTES_MAX * 2
            + LEAF_ATTRIBUTES_INLINE_BYTES_MAX
            + (ATTRIBUTES_BYTES_MAX / LEAF_INLINE_BYTES_MAX) * (LABEL_BYTES_MAX + 64)
            + 3 * NAME_BYTES_MAX
            + 2 * AGENT_BYTES_MAX
            + 12 * LABEL_BYTES_MAX
            + 512
            <= LEAF_BYTES_MAX
    );
    assert!(
        2 * REQUEST_BYTES_MAX <= INGEST_BYTES_MAX && REQUEST_WIRE_BYTES_MAX <= INGEST_BYTES_MAX
    );
    assert!(REQUEST_BYTES_MAX <= SHARD_QUEUE_BYTES_MAX);
    assert!(SNAPSHOT_LEAF_MAX >= COMMIT_ADDS_MAX);
    assert!(BATCH_ROWS_MAX <= SEGMENT_ROWS_MAX);
    // Whoever waits for memory gets it when those who stall are given up.
    assert!(BODY_STALL_MS_MAX < INGEST_WAIT_MS_MAX && INGEST_WAIT_MS_MAX < BODY_MS_MAX);
};
