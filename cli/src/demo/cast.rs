//! Who acts: tenants, their people, service accounts and keys.

use std::ops::Range;

use rand::Rng;
use rand::rngs::StdRng;

/// Name, share of the events in 1/10,000 (Zipf, exponent 1.25: the first is hot), actors.
const TENANTS: [(&str, u32, usize); 12] = [
    ("acme", 4000, 80),
    ("borealis", 1710, 45),
    ("cinder-labs", 1030, 30),
    ("dovetail", 715, 24),
    ("eastgate-bank", 540, 20),
    ("fjordline", 430, 18),
    ("greenhouse", 355, 16),
    ("harbour-health", 300, 14),
    ("ironwood", 260, 14),
    ("juniper-air", 230, 13),
    ("kestrel", 215, 13),
    ("lumen-games", 215, 13),
];
const FIRST_NAMES: [&str; 32] = [
    "amara", "bjorn", "chidi", "dalia", "elif", "farah", "goran", "hana", "ines", "jun", "kofi",
    "lena", "mateo", "nadia", "oskar", "priya", "quentin", "rosa", "samir", "tomas", "uma", "vera",
    "wei", "ximena", "yara", "zeno", "aiko", "bruno", "carla", "dmitri", "emeka", "freya",
];
const LAST_NAMES: [&str; 24] = [
    "osei",
    "lindqvist",
    "okafor",
    "haddad",
    "yilmaz",
    "khan",
    "petrov",
    "sato",
    "moreau",
    "park",
    "mensah",
    "fischer",
    "rojas",
    "benali",
    "nielsen",
    "raman",
    "dubois",
    "silva",
    "farouk",
    "novak",
    "iyer",
    "sorokina",
    "zhang",
    "marin",
];
const SERVICES: [&str; 10] = [
    "billing-sync",
    "backup",
    "ci-deploy",
    "search-indexer",
    "mailer",
    "crm-bridge",
    "report-builder",
    "image-resizer",
    "ledger-export",
    "health-check",
];
const BROWSERS: [&str; 6] = [
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
    "acme-desktop/4.12.0 (Windows 11)",
];
const CLIENTS: [&str; 4] =
    ["python-requests/2.32.3", "Go-http-client/2.0", "okhttp/4.12.0", "curl/8.8.0"];
/// Address ranges that exist only in documents. Hosts above 199 are left to the stories.
const DOCUMENTATION: [&str; 3] = ["192.0.2", "198.51.100", "203.0.113"];

/// What kind of actor it is, which decides what it may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    User,
    ServiceAccount,
    ApiKey,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::User => "user",
            Kind::ServiceAccount => "service_account",
            Kind::ApiKey => "api_key",
        }
    }
}

pub(super) struct Actor {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) source_ip: String,
    pub(super) user_agent: &'static str,
    /// Only people have sessions; a sign-in begins a new one.
    pub(super) session: Option<String>,
}

pub(super) struct Cast {
    actors: Vec<Actor>,
    /// Each tenant's part of `actors`.
    ranges: Vec<Range<usize>>,
}

impl Cast {
    pub(super) fn new(rng: &mut StdRng) -> Cast {
        let (mut actors, mut ranges) = (Vec::new(), Vec::new());
        for (tenant, _, count) in TENANTS {
            let start = actors.len();
            actors.extend((0..count).map(|index| actor(tenant, index, rng)));
            ranges.push(start..actors.len());
        }
        Cast { actors, ranges }
    }

    /// A tenant and one of its actors; the first of a tenant's actors do most of the work.
    pub(super) fn pick(&mut self, rng: &mut StdRng) -> (&'static str, &mut Actor) {
        let tenant = weighted(TENANTS.iter().map(|(_, share, _)| *share), rng);
        let range = self.ranges[tenant].clone();
        let index = skewed(range.len() as u32, rng) as usize;
        (TENANTS[tenant].0, &mut self.actors[range.start + index])
    }
}

fn actor(tenant: &str, index: usize, rng: &mut StdRng) -> Actor {
    // Of fifteen actors twelve are people, two are services and one is a key, spread over the ranks.
    let kind = match index % 15 {
        4 | 9 => Kind::ServiceAccount,
        13 => Kind::ApiKey,
        _ => Kind::User,
    };
    let client = CLIENTS[rng.random_range(0..CLIENTS.len())];
    match kind {
        Kind::User => {
            let (first, last) = (one_of(&FIRST_NAMES, rng), one_of(&LAST_NAMES, rng));
            // The index keeps two people of one name apart.
            let id = format!("{first}.{last}{index}@{tenant}.example");
            let name = format!("{} {}", capitalised(first), capitalised(last));
            let user_agent = one_of(&BROWSERS, rng);
            let session = Some(hex(16, rng));
            Actor { kind, id, name, source_ip: public_ip(rng), user_agent, session }
        }
        Kind::ServiceAccount => {
            let service = SERVICES[index % SERVICES.len()];
            let id = format!("svc-{service}-{index}@{tenant}");
            let source_ip = private_ip(rng);
            Actor {
                kind,
                id,
                name: service.to_owned(),
                source_ip,
                user_agent: client,
                session: None,
            }
        }
        Kind::ApiKey => {
            let id = format!("key_{}", hex(20, rng));
            let name = format!("integration {index}");
            Actor { kind, id, name, source_ip: public_ip(rng), user_agent: client, session: None }
        }
    }
}

fn public_ip(rng: &mut StdRng) -> String {
    format!("{}.{}", one_of(&DOCUMENTATION, rng), rng.random_range(1..200_u32))
}

fn private_ip(rng: &mut StdRng) -> String {
    format!("10.20.{}.{}", rng.random_range(0..8_u32), rng.random_range(2..250_u32))
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

pub(super) fn one_of(words: &[&'static str], rng: &mut StdRng) -> &'static str {
    words[rng.random_range(0..words.len() as u32) as usize]
}

/// An index below `count`, the low ones far more often.
pub(super) fn skewed(count: u32, rng: &mut StdRng) -> u32 {
    let (a, b) = (rng.random_range(0..count), rng.random_range(0..count));
    (u64::from(a) * u64::from(b) / u64::from(count)) as u32
}

/// An index, by weight.
pub(super) fn weighted(weights: impl Iterator<Item = u32> + Clone, rng: &mut StdRng) -> usize {
    let total: u32 = weights.clone().sum();
    let mut draw = rng.random_range(0..total);
    for (index, weight) in weights.enumerate() {
        if draw < weight {
            return index;
        }
        draw -= weight;
    }
    0
}

pub(super) fn hex(digits: usize, rng: &mut StdRng) -> String {
    let mut text = String::with_capacity(digits + 16);
    while text.len() < digits {
        let mut word: u64 = rng.random();
        for _ in 0..16 {
            text.push(char::from(b"0123456789abcdef"[(word & 15) as usize]));
            word >>= 4;
        }
    }
    text.truncate(digits);
    text
}
