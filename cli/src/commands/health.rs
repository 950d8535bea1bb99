//! `sealcast health URL`: is a role ready? For health checks of containers and load balancers.

use serde_json::Value;

use crate::args::HealthArgs;
use crate::client::{Answer, Client};
use crate::output::{Failure, line};

pub(crate) async fn run(args: HealthArgs) -> Result<u8, Failure> {
    let path = if args.live { "/livez" } else { "/readyz" };
    let wait = std::time::Duration::from_millis(args.timeout_ms);
    let asked = async { Client::open(&args.url, &args.connect)?.get(path).await };
    let answer = tokio::time::timeout(wait, asked).await.map_err(|_| {
        Failure::new(format!("{} did not answer within {} ms", args.url, args.timeout_ms))
    })??;
    match answer {
        Answer::Ok(_) => {
            line(if args.live { "live" } else { "ready" });
            Ok(0)
        }
        Answer::Refused(refusal) => {
            line("not ready");
            for (name, reason) in
                refusal.problem.get("reasons").and_then(Value::as_object).into_iter().flatten()
            {
                line(format!("  {name}: {}", reason.as_str().unwrap_or_default()));
            }
            Ok(crate::FAILED)
        }
    }
}
