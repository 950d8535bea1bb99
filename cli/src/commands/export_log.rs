//! `sealcast export-log`: a shard's log as static files for the tools of others.

use sealcast_common::fault::hex;

use crate::export::{ExportLogArgs, cannot, export, shard_logs};
use crate::output::{Failure, Progress, line};

pub(crate) async fn run(args: ExportLogArgs) -> Result<u8, Failure> {
    let logs = shard_logs(&args.source, Some(args.shard), args.old_size).await?;
    let log = logs.first().ok_or_else(|| cannot("no such shard"))?;
    let progress = Progress::new("export", log.newest.size, false);
    let shown = |rows| progress.set(rows, "rows");
    let wanted = (args.sample, args.old_size);
    let exported = Box::pin(export(log, &args.out, wanted, &shown)).await;
    progress.finish();
    let exported = exported?;
    let root = hex(&log.newest.root);
    if args.json {
        let mut document = serde_json::to_value(&exported).unwrap_or_default();
        document["root"] = root.into();
        document["out"] = args.out.display().to_string().into();
        line(document.to_string());
        return Ok(0);
    }
    let (out, size, sample) = (args.out.display(), exported.size, exported.sample);
    line(format!("{}: {size} rows with root {root}, all derived again", exported.origin));
    line(format!("{out}: {} tiles, {} bundles of leaves", exported.tiles, exported.bundles));
    match exported.old_size {
        Some(old) => line(format!("checkpoint {size}, checkpoint.old {old}, row {sample} proved")),
        None => line(format!(
            "checkpoint {size}, row {sample} proved; no checkpoint.old: nothing earlier was signed"
        )),
    }
    line(format!("vkey {}", exported.vkey));
    line("  the source's own word: compare it with the key that you know from elsewhere, then");
    line(format!(
        "  sealcast verify {out}/row.tlog-proof --leaf {out}/row.leaf.cbor --vkey '<that key>'"
    ));
    Ok(0)
}
