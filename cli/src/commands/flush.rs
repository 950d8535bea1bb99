//! `sealcast flush`: seal every tail, print the token.

use crate::args::FlushArgs;
use crate::client::Client;
use crate::output::{Failure, line};

pub(crate) async fn run(args: FlushArgs) -> Result<u8, Failure> {
    let flushed = Client::open(&args.writer, &args.connect)?.flush(args.wait).await?;
    if args.token {
        line(&flushed.token);
        return Ok(0);
    }
    let shipped = if flushed.shipped { "committed in the object store" } else { "sealed" };
    line(format!("{} segments sealed; everything up to here is {shipped}", flushed.segments));
    for (shard, size) in &flushed.vector {
        line(format!("  shard {shard:04x}: {size} events"));
    }
    line(format!("token {}", flushed.token));
    Ok(0)
}
