//! `sealcast health URL`: is a role ready? For health checks of containers and load balancers.

use sealcast_common::bucket::without_secret;

use crate::args::HealthArgs;
use crate::client::{Answer, Client};
use crate::output::{Failure, line};

pub(crate) async fn run(args: HealthArgs) -> Result<u8, Failure> {
    let path = if args.live { "/livez" } else { "/readyz" };
    let wait = std::time::Duration::from_millis(args.timeout_ms);
    let asked = async { Client::open(&args.url, &args.connect)?.get(path).await };
    let answer = tokio::time::timeout(wait, asked).await.map_err(|_| {
        let url = without_secret(&args.url);
        Failure::new(format!("{url} did not answer within {} ms", args.timeout_ms))
    })??;
    match answer {
        Answer::Ok(_) => {
            line(if args.live { "live" } else { "ready" });
            Ok(0)
        }
        Answer::Refused(refusal) => {
            let Some(reasons) = refusal.not_ready() else {
                let what =
                    format!("{} does not say whether it is ready", without_secret(&args.url));
                return Err(refusal.into_failure(&what));
            };
            line("not ready");
            for (name, why) in reasons {
                line(format!("  {name}: {why}"));
            }
            Ok(crate::FAILED)
        }
    }
}
