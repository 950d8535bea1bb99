//! Remote stores by URL: providers' clients that never retry by themselves and hear `Retry-After`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStore, ObjectStoreScheme, Result, RetryConfig};
use url::Url;

use super::retry::Retry;

/// The client's own bound; `patient` sets the real one, by size.
const CLIENT_TIMEOUT: &str = "3600 seconds";

/// The environment's settings (`AWS_ENDPOINT`, …) over ours; unknown names are passed over.
macro_rules! configured {
    ($builder:expr, $environment:expr, $client_key:path, $retry:expr) => {{
        let builder = $builder.with_config($client_key(ClientConfigKey::Timeout), CLIENT_TIMEOUT);
        let builder =
            $environment.into_iter().fold(builder, |builder, (name, value)| match name.parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            });
        let builder = builder.with_retry(no_retries()).with_http_connector(Hearing($retry));
        Arc::new(builder.build()?) as Arc<dyn ObjectStore>
    }};
}

/// The store that `url` names and the prefix in it. `environment` has lower-case names.
pub(super) fn open(
    url: &Url,
    environment: Vec<(String, String)>,
    retry: Arc<Retry>,
) -> Result<(Arc<dyn ObjectStore>, Key)> {
    use object_store::aws::AmazonS3ConfigKey;
    use object_store::azure::AzureConfigKey;
    use object_store::gcp::GoogleConfigKey;
    let (scheme, prefix) = ObjectStoreScheme::parse(url)?;
    let store = match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let builder = AmazonS3Builder::new().with_url(url.as_str());
            configured!(builder, environment, AmazonS3ConfigKey::Client, retry)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = GoogleCloudStorageBuilder::new().with_url(url.as_str());
            configured!(builder, environment, GoogleConfigKey::Client, retry)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let builder = MicrosoftAzureBuilder::new().with_url(url.as_str());
            configured!(builder, environment, AzureConfigKey::Client, retry)
        }
        _ => {
            // Plain text where the URL says so: there is no other setting.
            let options = ClientOptions::new().with_allow_http(url.scheme() == "http");
            let options = options.with_config(ClientConfigKey::Timeout, CLIENT_TIMEOUT);
            let builder = HttpBuilder::new().with_url(&url[..url::Position::BeforePath]);
            let builder = builder.with_client_options(options).with_retry(no_retries());
            Arc::new(builder.with_http_connector(Hearing(retry)).build()?)
        }
    };
    Ok((store, prefix))
}

fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// The usual HTTP client, and an ear for how long a refusing server wants to be left alone.
#[derive(Debug)]
struct Hearing(Arc<Retry>);

#[derive(Debug)]
struct HearingClient {
    inner: HttpClient,
    retry: Arc<Retry>,
}

impl HttpConnector for Hearing {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(HearingClient { inner, retry: Arc::clone(&self.0) }))
    }
}

#[async_trait]
impl HttpService for HearingClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.inner.execute(request).await?;
        if matches!(response.status().as_u16(), 429 | 503) {
            let wish = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            // The other form, a date, would need the store's clock.
            if let Some(seconds) = wish.and_then(|text| text.trim().parse().ok()) {
                self.retry.wish(Duration::from_secs(seconds));
            }
        }
        Ok(response)
    }
}
