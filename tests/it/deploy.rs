//! `deploy/` is true: units, compose and image name only what exists.

use std::path::{Path, PathBuf};

use sealcast_tests::{run, sealcast, skip};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy")
}

fn files(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

async fn help(args: &[&str]) -> String {
    let output = run(&sealcast("sealcast"), args).await;
    // Lines are broken where the terminal ends.
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_variable_that_is_set_is_one() {
    let mut known = String::new();
    for role in ["writer", "shipper", "replica", "signer", "witness"] {
        known += &help(&[role, "--help"]).await;
    }
    let mut all = Vec::new();
    files(&deploy(), &mut all);
    // What a client is told is no setting of a role.
    all.retain(|(path, _)| !path.starts_with(deploy().join("notebook")));
    let mut checked = 0;
    for (path, text) in all {
        let is_name = |c: char| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit();
        for word in text.split(|c| !is_name(c)).filter(|word| word.starts_with("SEALCAST_")) {
            checked += 1;
            // `[env: NAME]`, and `[env: NAME=VALUE]` where it has one.
            let named = [format!("[env: {word}="), format!("[env: {word}]")];
            let exists = named.iter().any(|name| known.contains(name));
            assert!(exists, "{}: no setting has the variable {word}", path.display());
        }
    }
    assert!(checked > 20, "{checked}");
}

fn units() -> Vec<(String, String)> {
    let roles = ["writer", "shipper", "replica", "signer", "witness"];
    let read = |role: &&str| {
        let path = deploy().join(format!("systemd/sealcast-{role}.service"));
        ((*role).to_owned(), std::fs::read_to_string(path).unwrap())
    };
    roles.iter().map(read).collect()
}

fn has(unit: &str, line: &str) -> bool {
    unit.lines().any(|found| found == line)
}

#[test]
fn keys_have_users_of_their_own() {
    for (role, unit) in units() {
        let user = match role.as_str() {
            "signer" | "witness" => format!("User=sealcast-{role}"),
            _ => "User=sealcast".to_owned(),
        };
        assert!(has(&unit, &user), "{role}: {user}");
        let folder = format!("StateDirectory=sealcast-{role}");
        assert_eq!(has(&unit, &folder), role == "signer" || role == "witness", "{role}: {folder}");
        for line in
            ["PrivateNetwork=yes", "RestrictAddressFamilies=AF_UNIX", "RuntimeDirectoryMode=0750"]
        {
            assert_eq!(has(&unit, line), role == "signer", "{role}: {line}");
        }
    }
}

#[test]
fn units_lock_the_roles_in_and_never_restart_a_fenced_one() {
    for (role, unit) in units() {
        for line in [
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
            "PrivateTmp=yes",
            "CapabilityBoundingSet=",
            "MemoryDenyWriteExecute=yes",
            "SystemCallFilter=@system-service",
            "Restart=on-failure",
            "StateDirectoryMode=0700",
            "UMask=0077",
        ] {
            assert!(has(&unit, line), "{role}: {line}");
        }
        // Only where there are streams is there a verdict that a restart would repeat.
        let streams = !matches!(role.as_str(), "signer" | "witness");
        assert_eq!(has(&unit, "RestartPreventExitStatus=75"), streams, "{role}");
        let start = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        assert!(start.contains(&format!("/usr/bin/sealcast {role}")), "{role}");
        let seconds = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec="));
        let seconds: u64 = seconds.unwrap().parse().unwrap();
        let drain = match role.as_str() {
            "writer" => sealcast_writer::Config::default().drain_ms,
            "replica" => {
                let config = sealcast_replica::Config::default();
                config.drain_delay_ms + config.drain_ms
            }
            _ => 10_000,
        };
        assert!(seconds * 1_000 > 2 * drain, "{role}: {seconds} s for {drain} ms of draining");
    }
}

#[tokio::test]
async fn systemd_accepts_the_units() {
    let dir = tempfile::tempdir().unwrap();
    let mut names = vec!["verify".to_owned(), "--man=no".to_owned()];
    // One with a mistake, to see that mistakes are seen.
    let wrong = ("wrong".to_owned(), "[Service]\nExecStart=/bin/true\nNoSuchKey=1\n".to_owned());
    for (role, unit) in units().into_iter().chain([wrong]) {
        let file = dir.path().join(format!("sealcast-{role}.service"));
        // The program and the user of an installed package are not on this machine.
        let unit = unit.replace("/usr/bin/sealcast", &sealcast("sealcast").display().to_string());
        let here = |line: &str| match line.split_once('=') {
            Some(("User", _)) => "User=root\n".to_owned(),
            Some(("Group", _)) => String::new(),
            _ => format!("{line}\n"),
        };
        let unit: String = unit.lines().map(here).collect();
        #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
        std::fs::write(&file, unit).unwrap();
        names.push(file.display().to_string());
    }
    let output = std::process::Command::new("systemd-analyze").args(&names).output();
    let Ok(output) = output else {
        return skip("systemd units", "systemd-analyze is not installed");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let is_wrong = |line: &&str| line.contains("sealcast-wrong.service");
    if !said.lines().any(|line| is_wrong(&line) && line.contains("NoSuchKey")) {
        return skip("systemd units", &format!("systemd-analyze verifies nothing here: {said}"));
    }
    let ours = said.lines().filter(|line| line.contains("sealcast-") && !is_wrong(line));
    let ours: Vec<_> = ours.collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

#[tokio::test]
async fn compose_is_yaml_and_names_only_what_is_there() {
    let test = "compose file";
    let Some(python) = sealcast_tests::python(test) else { return };
    let script = r#"
import sys
try:
    import yaml
except ImportError:
    sys.exit(77)
file = yaml.safe_load(open(sys.argv[1]))
services = file["services"]
assert {"writer", "shipper", "replica-1", "replica-2", "store"} <= set(services), services
for name, service in services.items():
    for secret in service.get("secrets", []):
        assert secret in file["secrets"], (name, secret)
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert source.startswith(".") or source in file["volumes"], (name, volume)
    for needed in service.get("depends_on", []):
        assert needed in services, (name, needed)
    if name not in ("balancer",):
        assert "healthcheck" in service, name
assert services["shipper"]["restart"] == "no"
"#;
    let file = deploy().join("compose/compose.yaml").display().to_string();
    let output = run(&python, &["-c", script, &file]).await;
    if output.status.code() == Some(77) {
        return skip(test, "PyYAML is not installed (run scripts/test)");
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
