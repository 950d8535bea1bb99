//! `sealcast prove`: one row's leaf and its proof, from a replica, a store or a writer's folder.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sealcast_common::integrity::{TlogProof, VerifyKey};
use serde_json::{Value, json};

use super::sql::query;
use crate::client::{Answer, Client};
use crate::export::{ProveArgs, ShardLog, cannot, check_proof, prove, shard_logs, write_new};
use crate::output::{Failure, failed, line};

/// What is asked for.
enum Row {
    Place(u16, u64),
    Event(uuid::Uuid),
}

/// A proof that holds under `key`, which is the source's own word.
struct Proved {
    shard: u16,
    leaf: Vec<u8>,
    proof: TlogProof,
    key: String,
}

pub(crate) async fn run(args: ProveArgs) -> Result<u8, Failure> {
    let row = parse(&args.row)?;
    let proved = if args.source.store.is_none() && args.source.dir.is_none() {
        from_replica(&args, row).await?
    } else {
        offline(&args, row).await?
    };
    let checkpoint = check_proof(&proved.proof, &proved.leaf, &proved.key)?;
    let (shard, seq) = (proved.shard, proved.proof.index);
    let out = args.out.unwrap_or_else(|| PathBuf::from(format!("{shard}-{seq}")));
    let (proof, leaf) = (with(&out, "tlog-proof"), with(&out, "leaf.cbor"));
    for path in [&proof, &leaf] {
        ready(path, args.force)?;
    }
    write_new(&leaf, &proved.leaf)?;
    write_new(&proof, proved.proof.to_text().as_bytes())?;
    let (origin, size) = (checkpoint.origin, checkpoint.size);
    line(format!("row {seq} of {origin} is in its log of {size} rows"));
    line(format!("{}  {}", proof.display(), leaf.display()));
    line(format!("vkey {}", proved.key));
    line("  the source's own word: compare it with the key that you know from elsewhere, then");
    line(format!(
        "  sealcast verify {} --leaf {} --vkey '<that key>'",
        proof.display(),
        leaf.display()
    ));
    Ok(0)
}

fn parse(text: &str) -> Result<Row, Failure> {
    if let Some((shard, seq)) = text.split_once('/')
        && let (Ok(shard), Ok(seq)) = (shard.parse(), seq.parse())
    {
        return Ok(Row::Place(shard, seq));
    }
    text.parse().map(Row::Event).map_err(|_| {
        let expected = "expected SHARD/SEQ, decimal as in _shard and _seq, or an event id (UUID)";
        cannot(format!("{text:?} names no row: {expected}"))
    })
}

/// `login` and `tlog-proof` as `login.tlog-proof`, whatever dots the name has.
fn with(out: &Path, extension: &str) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

/// Nothing is in the way.
fn ready(path: &Path, force: bool) -> Result<(), Failure> {
    let place = path.display();
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(_) if force => {
            std::fs::remove_file(path).map_err(|error| cannot(format!("{place}: {error}")))
        }
        Ok(_) => Err(cannot(format!("{place} exists already"))
            .hint("give another name with --out, or replace it with --force")),
    }
}

/// One row, or none that can be named.
fn only(event: &uuid::Uuid, found: Vec<(u16, u64)>) -> Result<(u16, u64), Failure> {
    match found.as_slice() {
        [place] => Ok(*place),
        [] => Err(cannot(format!("no row has event id {event}"))
            .hint("rows that are not sealed and shipped yet cannot be proved")),
        many => {
            let places: Vec<String> = many.iter().map(|(s, seq)| format!("{s}/{seq}")).collect();
            let rows = places.join(", ");
            Err(cannot(format!("event id {event} stands in more than one row: {rows}"))
                .hint("name one of them"))
        }
    }
}

async fn offline(args: &ProveArgs, row: Row) -> Result<Proved, Failure> {
    let (logs, shard, seq) = match row {
        Row::Place(shard, seq) => (shard_logs(&args.source, Some(shard), None).await?, shard, seq),
        Row::Event(event) => {
            let logs = shard_logs(&args.source, None, None).await?;
            let (shard, seq) = only(&event, places(&logs, event.as_bytes()).await?)?;
            (logs, shard, seq)
        }
    };
    let log = logs.iter().find(|log| log.shard == shard).ok_or_else(|| cannot("no such shard"))?;
    let (leaf, proof) = Box::pin(prove(log, seq)).await?;
    Ok(Proved { shard, leaf, proof, key: log.newest.vkey() })
}

async fn places(logs: &[ShardLog], event_id: &[u8; 16]) -> Result<Vec<(u16, u64)>, Failure> {
    let mut found = Vec::new();
    for log in logs {
        found.extend(log.find(event_id).await?.into_iter().map(|seq| (log.shard, seq)));
    }
    Ok(found)
}

async fn from_replica(args: &ProveArgs, row: Row) -> Result<Proved, Failure> {
    let client = Client::open(&args.replica, &args.connect)?;
    let (shard, seq) = match row {
        Row::Place(shard, seq) => (shard, seq),
        Row::Event(event) => {
            let sql = "select _shard, _seq from events where event_id = $1 order by 1, 2 limit 9";
            let body = json!({ "sql": sql, "params": [event.to_string()] });
            let rows = query(&client, body).await?.rows;
            let place =
                |row: &Vec<String>| Some((row.first()?.parse().ok()?, row.get(1)?.parse().ok()?));
            only(&event, rows.iter().filter_map(place).collect())?
        }
    };
    let response = match client.get(&format!("/v1/proofs/{shard}/{seq}")).await? {
        Answer::Ok(response) => response,
        Answer::Refused(refusal) => return Err(refusal.into_failure("no proof was given")),
    };
    let document: Value = serde_json::from_slice(&client.body(response).await?).map_err(failed)?;
    let text = |name: &str| {
        let found = document.get(name).and_then(Value::as_str);
        found.ok_or_else(|| Failure::new(format!("the replica's answer has no {name}")))
    };
    let leaf = BASE64.decode(text("leaf")?).map_err(failed)?;
    let proof = TlogProof::parse(text("proof")?).map_err(failed)?;
    let key = VerifyKey::parse(text("key")?).map_err(failed)?.to_text();
    if proof.index != seq {
        let found = format!("the replica proves row {}, asked for row {seq}", proof.index);
        return Err(Failure::new(found));
    }
    Ok(Proved { shard, leaf, proof, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_named_by_its_place_or_its_event_id() {
        assert!(matches!(parse("3/41"), Ok(Row::Place(3, 41))));
        assert!(matches!(parse("0195fa2c-7d1e-7000-8000-5d0e3b1f9a77"), Ok(Row::Event(_))));
        for wrong in ["", "3", "3/", "/3", "70000/1", "-1/2", "0195fa2c"] {
            assert!(parse(wrong).is_err_and(|failure| failure.code == 2), "{wrong:?}");
        }
    }

    #[test]
    fn dots_in_a_name_stay() {
        assert_eq!(with(Path::new("a/b.c"), "leaf.cbor"), Path::new("a/b.c.leaf.cbor"));
    }
}
