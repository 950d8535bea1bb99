//! Each attack is found by a check that is meant to, and stays found: nothing that the honest roles
//! sign afterwards makes it authentic.

use serde_json::json;
use tokio::task::JoinSet;

use super::scene::Roles;
use super::{Attack, Scene, attacks};

/// Attacks that are at the same time: most of each is waiting.
const PARALLEL: usize = 8;

/// What honest roles put right by going on, as it was: the cluster log's end, as after a crash, and
/// what is derived from rows. Their verdict `ok` is one under the auditor's trust state.
const REPAIRED: [&str; 4] = ["frozen-log", "epoch-deleted", "epoch-edited", "checkpoint-edited"];

/// Performs the attack; then everything starts again on what is left, takes more events and seals.
async fn attacked(scene: &Scene, attack: &Attack) -> Result<(), String> {
    let what = format!("{} with {:?}", attack.name, attack.stolen);
    let dir = tempfile::tempdir().unwrap();
    let copy = scene.copy_to(dir.path()).unwrap();
    attack.perform(&copy).await.map_err(|error| format!("{what}: {error:?}"))?;
    let report = copy.judge(attack.target).await.unwrap();
    if attack.found_by(&report).is_none() {
        return Err(format!("{what}: {:?}, {report:?}", report.verdict()));
    }
    let events: Vec<_> =
        (0..20).map(|i| json!({"tenant": format!("t{i}"), "action": "went.on"})).collect();
    if let Ok(roles) = Roles::start(&copy.path("writer"), &copy.path("store")).await {
        // Whether they take anything is not the question; whether it is still found is.
        let _sent = roles.send(&events, 500).await;
        let _stopped = roles.stop().await;
    }
    let report = copy.judge(attack.target).await.unwrap();
    match report.verdict() {
        "tampered" => Ok(()),
        "ok" if REPAIRED.contains(&attack.name) => Ok(()),
        verdict => Err(format!("{what}: {verdict} after going on: {report:?}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attack_is_found_by_its_check_and_after_going_on() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::make(&dir.path().join("cluster")).await.unwrap();
    let mut missed = Vec::new();
    let mut running: JoinSet<Result<(), String>> = JoinSet::new();
    for attack in attacks() {
        if running.len() == PARALLEL {
            missed.extend(running.join_next().await.unwrap().unwrap().err());
        }
        let scene = scene.clone();
        running.spawn(async move { attacked(&scene, &attack).await });
    }
    while let Some(ended) = running.join_next().await {
        missed.extend(ended.unwrap().err());
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}
