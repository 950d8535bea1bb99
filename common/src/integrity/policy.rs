//! Whom a verifier trusts: known logs, known witnesses, and how many of them must have cosigned.
//!
//! Source: C2SP `tlog-policy`. Lines `log <vkey> [<url>]`, `witness <name> <vkey> [<url>]`,
//! `group <name> all|any|<k> <name>…`, `quorum <name>|none`; `#` begins a comment line.

use std::collections::{BTreeMap, BTreeSet};

use super::key_history::{KeyHistory, shown_key};
use super::note::{Checkpoint, CosignerKey, Note, NoteError, VerifyKey};
use crate::fault::Corruption;

/// Lines of each sort; the specification asks for 32.
const ENTRIES_MAX: usize = 256;

/// Why a policy file is refused, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy, line {line}: {reason}")]
pub struct PolicyError {
    /// From 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub reason: String,
}

/// Why a checkpoint does not satisfy a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// No log of the policy has this origin.
    #[error("policy names no log {0}")]
    UnknownLog(String),
    /// A signature of a known key is missing or wrong.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// Too few witnesses.
    #[error("quorum {quorum} is not reached: cosigned by {}", none_or(cosigned))]
    Quorum {
        /// The group or witness that is wanted.
        quorum: String,
        /// Who did.
        cosigned: Vec<String>,
    },
}

fn none_or(names: &[String]) -> String {
    if names.is_empty() { "nobody".to_owned() } else { names.join(", ") }
}

/// A log that is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLog {
    /// Its key; the name is the origin.
    pub key: VerifyKey,
    /// Where it can be asked.
    pub url: Option<String>,
}

/// A witness that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Its name in the policy.
    pub name: String,
    /// Its key.
    pub key: CosignerKey,
    /// Its submission prefix.
    pub url: Option<String>,
}

/// A policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `log` lines.
    pub logs: Vec<KnownLog>,
    /// `witness` lines.
    pub witnesses: Vec<Witness>,
    groups: BTreeMap<String, (usize, Vec<String>)>,
    /// Witness or group; `None` for `quorum none`.
    quorum: Option<String>,
}

impl Policy {
    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut policy = Policy {
            logs: Vec::new(),
            witnesses: Vec::new(),
            groups: BTreeMap::new(),
            quorum: None,
        };
        let mut parsed = Parsed::default();
        for (number, line) in text.split('\n').enumerate() {
            let failed = |reason| PolicyError { line: number + 1, reason };
            if line.chars().any(|c| c.is_ascii_control() && c != '\t') {
                return Err(failed("control characters other than tab and newline".into()));
            }
            let words: Vec<&str> =
                line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
            if words.first().is_some_and(|word| !word.starts_with('#')) {
                policy.line(&words, &mut parsed).map_err(failed)?;
            }
        }
        if parsed.quorum {
            return Ok(policy);
        }
        let reason = "no quorum line; `quorum none` asks for no witness".to_owned();
        Err(PolicyError { line: 0, reason })
    }

    fn line(&mut self, words: &[&str], parsed: &mut Parsed) -> Result<(), String> {
        match words {
            ["log", key, url @ ..] if url.len() <= 1 => {
                let key = VerifyKey::parse(key).map_err(|error| error.to_string())?;
                parsed.key(key.public_key)?;
                let url = url.first().map(|url| (*url).to_owned());
                self.logs.push(KnownLog { key, url });
                bounded(self.logs.len())
            }
            ["witness", name, key, url @ ..] if url.len() <= 1 => {
                let key = CosignerKey::parse(key).map_err(|error| error.to_string())?;
                parsed.key(key.public_key)?;
                parsed.define(name)?;
                let (name, url) = ((*name).to_owned(), url.first().map(|url| (*url).to_owned()));
                self.witnesses.push(Witness { name, key, url });
                bounded(self.witnesses.len())
            }
            ["group", name, wanted, members @ ..] if !members.is_empty() => {
                members.iter().try_for_each(|member| parsed.join(member))?;
                let wanted = match *wanted {
                    "all" => members.len(),
                    "any" => 1,
                    number => decimal(number).unwrap_or(0),
                };
                if !(1..=members.len()).contains(&wanted) {
                    let most = members.len();
                    return Err(format!("group {name}: expected all, any or 1 to {most}"));
                }
                parsed.define(name)?;
                let members = members.iter().map(|member| (*member).to_owned()).collect();
                self.groups.insert((*name).to_owned(), (wanted, members));
                bounded(self.groups.len())
            }
            ["quorum", _] if parsed.quorum => {
                Err("found a second quorum line, expected one".to_owned())
            }
            ["quorum", name] => {
                parsed.quorum = true;
                if *name != "none" {
                    parsed.known(name)?;
                    self.quorum = Some((*name).to_owned());
                }
                Ok(())
            }
            _ => Err(format!(
                "found {:?}, expected `log KEY [URL]`, `witness NAME KEY [URL]`, \
                 `group NAME all|any|N NAME…` or `quorum NAME|none`",
                words.join(" ")
            )),
        }
    }

    /// The keys that are trusted for this origin.
    pub fn keys_of(&self, origin: &str) -> impl Iterator<Item = &VerifyKey> {
        let logs = self.logs.iter().filter(move |log| log.key.name == origin);
        logs.map(|log| &log.key)
    }

    /// If the policy names keys for `origin`, one of them is among `keys` (a history's text).
    pub fn check_keys(
        &self,
        name: &'static str,
        origin: &str,
        keys: &str,
    ) -> Result<(), Corruption> {
        let history = KeyHistory::parse(keys);
        let among = |key: &VerifyKey| history.as_ref().is_ok_and(|keys| keys.has_one_of([key]));
        let mut named = self.keys_of(origin).peekable();
        if named.peek().is_none() || named.any(among) {
            return Ok(());
        }
        let expected =
            format!("a key of {origin} that the policy names, or one that it handed over to");
        Err(Corruption::new(name, None, expected, shown_key(keys)))
    }

    /// Whether witnesses are wanted at all.
    pub fn wants_witnesses(&self) -> bool {
        self.quorum.is_some()
    }

    /// The checkpoint in `note` is by a known log and cosigned as the quorum says. Answers the
    /// witnesses that did, with their times in seconds since 1970.
    pub fn judge(&self, note: &Note) -> Result<Vec<(String, u64)>, Distrust> {
        let checkpoint = Checkpoint::parse(&note.text)?;
        let keys = self.logs.iter().filter(|log| log.key.name == checkpoint.origin);
        let mut verdict = Err(Distrust::UnknownLog(checkpoint.origin.clone()));
        for log in keys {
            match note.verify(&log.key) {
                Ok(()) => verdict = Ok(()),
                // A wrong signature of a known key spoils the note, whoever else signed.
                Err(error @ NoteError::BadSignature(_)) => return Err(error.into()),
                Err(error) if verdict.is_err() => verdict = Err(error.into()),
                Err(_) => {}
            }
        }
        verdict?;
        self.cosigned(note)
    }

    /// As [`Policy::judge`], by somebody who knows the log's history: a key that the policy names may
    /// have been handed over.
    pub fn judge_log(
        &self,
        note: &Note,
        keys: &KeyHistory,
    ) -> Result<Vec<(String, u64)>, Distrust> {
        if !keys.has_one_of(self.keys_of(keys.origin())) {
            return self.judge(note);
        }
        keys.verify(note)?;
        self.cosigned(note)
    }

    /// The second half of [`Policy::judge`]: the quorum alone.
    pub fn cosigned(&self, note: &Note) -> Result<Vec<(String, u64)>, Distrust> {
        let mut cosigned = Vec::new();
        for witness in &self.witnesses {
            match note.verify_cosignature(&witness.key) {
                Ok(time) => cosigned.push((witness.name.clone(), time)),
                Err(NoteError::Unsigned(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let names: BTreeSet<&str> = cosigned.iter().map(|(name, _)| name.as_str()).collect();
        match &self.quorum {
            Some(quorum) if !self.reached(quorum, &names) => {
                let cosigned = cosigned.into_iter().map(|(name, _)| name).collect();
                Err(Distrust::Quorum { quorum: quorum.clone(), cosigned })
            }
            _ => Ok(cosigned),
        }
    }

    /// Members were defined before their groups: this ends.
    fn reached(&self, name: &str, cosigned: &BTreeSet<&str>) -> bool {
        let Some((wanted, members)) = self.groups.get(name) else { return cosigned.contains(name) };
        members.iter().filter(|member| self.reached(member, cosigned)).count() >= *wanted
    }
}

/// What the lines so far have used.
#[derive(Default)]
struct Parsed {
    keys: BTreeSet<[u8; 32]>,
    names: BTreeSet<String>,
    members: BTreeSet<String>,
    quorum: bool,
}

impl Parsed {
    fn key(&mut self, key: [u8; 32]) -> Result<(), String> {
        if self.keys.insert(key) {
            Ok(())
        } else {
            Err("found a key of a line before, expected another".to_owned())
        }
    }

    fn define(&mut self, name: &str) -> Result<(), String> {
        if name == "none" || !self.names.insert(name.to_owned()) {
            return Err(format!("name {name:?} is taken"));
        }
        Ok(())
    }

    fn known(&self, name: &str) -> Result<(), String> {
        let known = self.names.contains(name);
        if known { Ok(()) } else { Err(format!("{name:?} is not defined on a line before")) }
    }

    fn join(&mut self, member: &str) -> Result<(), String> {
        self.known(member)?;
        let first = self.members.insert(member.to_owned());
        if first { Ok(()) } else { Err(format!("{member:?} is a member already")) }
    }
}

fn bounded(count: usize) -> Result<(), String> {
    if count <= ENTRIES_MAX { Ok(()) } else { Err(format!("more than {ENTRIES_MAX} of a sort")) }
}

fn decimal(text: &str) -> Option<usize> {
    let canonical = !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| canonical)
}
