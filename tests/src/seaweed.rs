//! SeaweedFS: a real S3 server on loopback, with one bucket.

use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use crate::{Process, free_port, until};

/// A running server; stopped when dropped.
pub struct Seaweed {
    port: u16,
    _process: Process,
    _dir: TempDir,
}

const KEY: &str = "sealcast-test";

impl Seaweed {
    /// Starts `weed` and waits until S3 takes a bucket.
    pub async fn start(weed: &Path) -> Self {
        let dir = tempfile::tempdir().expect("folder");
        let identities = dir.path().join("identities.json");
        let config = format!(
            r#"{{"identities":[{{"name":"t","credentials":[{{"accessKey":"{KEY}","secretKey":"{KEY}"}}],
               "actions":["Admin","Read","Write","List","Tagging"]}}]}}"#
        );
        #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
        std::fs::write(&identities, config).expect("identities");
        let port = free_port();
        let args = [
            "server".to_owned(),
            format!("-dir={}", dir.path().display()),
            "-ip=127.0.0.1".to_owned(),
            "-ip.bind=127.0.0.1".to_owned(),
            "-s3".to_owned(),
            format!("-s3.port={port}"),
            format!("-s3.port.grpc={}", free_port()),
            format!("-s3.config={}", identities.display()),
            format!("-master.port={}", free_port()),
            format!("-master.port.grpc={}", free_port()),
            format!("-volume.port={}", free_port()),
            format!("-volume.port.grpc={}", free_port()),
            format!("-filer.port={}", free_port()),
            format!("-filer.port.grpc={}", free_port()),
            "-volume.max=20".to_owned(),
            "-master.volumeSizeLimitMB=64".to_owned(),
        ];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let process = Process::start(weed, &args, &dir.path().join("weed.log"), &[]);
        let server = Seaweed { port, _process: process, _dir: dir };
        server.wait().await;
        server
    }

    async fn wait(&self) {
        let store = self.object_store();
        until("SeaweedFS takes objects", || async {
            let key = object_store::path::Path::from("ready");
            let put = object_store::ObjectStoreExt::put(&store, &key, "ready".into()).await;
            put.ok().map(|_| ())
        })
        .await;
    }

    /// The bucket's URL; SeaweedFS makes a bucket when it is first written to by an admin.
    pub fn url(&self) -> String {
        "s3://sealcast/cluster".to_owned()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// What a process needs in its environment.
    pub fn env(&self) -> Vec<(String, String)> {
        self.env_at(self.address())
    }

    /// The same for a process that reaches it through a proxy.
    pub fn env_at(&self, address: SocketAddr) -> Vec<(String, String)> {
        [
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", KEY.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT", format!("http://{address}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// The bucket, opened directly.
    pub fn object_store(&self) -> object_store::aws::AmazonS3 {
        object_store::aws::AmazonS3Builder::new()
            .with_bucket_name("sealcast")
            .with_access_key_id(KEY)
            .with_secret_access_key(KEY)
            .with_region("us-east-1")
            .with_endpoint(format!("http://127.0.0.1:{}", self.port))
            .with_allow_http(true)
            .build()
            .expect("s3 client")
    }
}
