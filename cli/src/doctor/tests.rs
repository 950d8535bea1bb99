//! The doctor: what it reads of the system, and what it says of folders.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sealcast_common::clock::{Micros, WallClock};
use sealcast_common::serve::CertificateText;

use super::certificate;
use super::files::{holders, mounted};
use super::machine::limit;
use super::{Finding, Folder, Health, Subjects, Use, examine};
use crate::settings::{Section, SettingsFile};

#[test]
fn the_innermost_mount_decides() {
    let mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                  40 21 0:40 / /data rw shared:1 - nfs4 server:/x rw\n\
                  41 21 0:41 / /data/my\\040disk rw - xfs /dev/sdb rw\n";
    assert_eq!(mounted(mounts, Path::new("/data/a")), Some("nfs4"));
    assert_eq!(mounted(mounts, Path::new("/data/my disk/a")), Some("xfs"));
    assert_eq!(mounted(mounts, Path::new("/database")), Some("ext4"));
}

#[test]
fn locks_and_limits_are_read_as_the_kernel_writes_them() {
    let locks = "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF\n";
    assert_eq!(holders(locks, 1234).collect::<Vec<_>>(), ["4711"]);
    assert_eq!(holders(locks, 234).count(), 0);
    let limits = "Max open files            1024                 4096                 files\n\
                  Max address space         unlimited            unlimited            bytes\n";
    assert_eq!(limit(limits, "Max open files"), Some(1024));
    assert_eq!(limit(limits, "Max address space"), Some(u64::MAX));
}

fn of<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("{check} in {findings:?}"))
}

#[tokio::test]
async fn a_folder_that_others_may_read_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(dir.path(), 0o755);
    let keys = dir.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    let key = keys.join("0000.key");
    std::fs::copy("/proc/self/comm", &key).unwrap();
    set(&key, 0o644);
    let subjects = Subjects::one(&dir.path().display().to_string());
    let findings = examine(&subjects, &WallClock::default()).await;
    assert_eq!(of(&findings, "permissions").health, Health::Warn);
    let failed: Vec<_> = findings.iter().filter(|f| f.subject.ends_with("0000.key")).collect();
    assert_eq!((failed.len(), failed[0].health), (1, Health::Fail), "{findings:?}");
    assert!(of(&findings, "sync").found.contains("rename"), "{findings:?}");
    set(dir.path(), 0o700);
    set(&key, 0o600);
    let findings = examine(&subjects, &WallClock::default()).await;
    assert_eq!(of(&findings, "permissions").health, Health::Ok);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "no scratch file is left: {left:?}");
}

#[test]
fn a_witness_is_looked_at_where_somebody_speaks_of_one() {
    let examined = |sections: &[Section], text: &str| {
        let file = SettingsFile::parse(Path::new("s.toml"), text);
        let subjects = Subjects::configured(sections, Some(&file)).unwrap();
        let is_witness = |folder: &Folder| folder.path == Path::new("./sealcast-data/witness");
        let server = subjects.servers.iter().any(|server| server.role == "witness");
        (subjects.folders.iter().any(is_witness), server)
    };
    assert_eq!(examined(&Section::ALL, ""), (false, false));
    assert_eq!(examined(&Section::ALL, "[witness]\nname = \"w\"\n"), (true, true));
    assert_eq!(examined(&[Section::Witness], ""), (true, true));
}

#[tokio::test]
async fn every_port_of_a_replica_is_looked_at() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut stream, _) = other.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400").unwrap();
    });
    let text = format!(
        "[replica]\nhttp = \"127.0.0.1:0\"\nflight = \"127.0.0.1:0\"\npostgres = \"{address}\"\n"
    );
    let file = SettingsFile::parse(Path::new("s.toml"), &text);
    let subjects = Subjects::configured(&[Section::Replica], Some(&file)).unwrap();
    let findings = super::network::examine(&subjects).await;
    let told = |health| findings.iter().filter(|finding| finding.health == health).count();
    assert_eq!((told(Health::Ok), told(Health::Fail)), (2, 1), "{findings:?}");
}

#[tokio::test]
async fn missing_folders_and_broken_stores_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none").join("deeper");
    let subjects = Subjects {
        folders: vec![Folder { path, use_: Use::Cache }],
        stores: vec!["ftp://nowhere".into()],
        ..Subjects::default()
    };
    let findings = examine(&subjects, &WallClock::default()).await;
    assert_eq!(of(&findings, "folder").health, Health::Warn);
    let store = of(&findings, "store");
    assert_eq!(store.health, Health::Fail);
    assert!(store.found.contains("ftp") && store.advice.is_some(), "{store:?}");
}

#[test]
fn a_certificate_tells_its_dates_and_names() {
    let names = vec!["replica.example".to_owned(), "127.0.0.1".to_owned()];
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2060, 1, 1);
    let pem = params.self_signed(&key).unwrap().pem();
    let text = CertificateText::parse(&pem).unwrap();
    assert_eq!(text.names, ["replica.example", "127.0.0.1"]);
    let at = |text: &str| Micros::parse_rfc3339(text).unwrap();
    assert_eq!((text.from, text.until), (at("2026-01-01T00:00:00Z"), at("2060-01-01T00:00:00Z")));
    let health = |now: &str| certificate::findings(&text, "c", at(now))[0].health;
    assert_eq!(health("2025-12-31T00:00:00Z"), Health::Fail);
    assert_eq!(health("2026-12-31T00:00:00Z"), Health::Ok);
    assert_eq!(health("2059-12-20T00:00:00Z"), Health::Warn);
    assert_eq!(health("2060-01-01T00:00:00Z"), Health::Fail);
    for cut in 0..pem.len() {
        // Whatever is left of it is read without a panic.
        let _read = CertificateText::parse(&format!("{}-----END CERTIFICATE-----", &pem[..cut]));
    }
}
