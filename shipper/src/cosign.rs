//! Cosignatures: asks the witnesses of a policy for theirs, by C2SP `tlog-witness`.
//!
//! A witness's word is believed as far as its key goes: a cosignature is kept when it verifies; the
//! size that it says it cosigned last only tells from where to prove.

use std::fmt::Display;
use std::time::Duration;

use futures::future::join_all;
use metrics::{counter, gauge};
use sealcast_common::integrity::{
    AddCheckpoint, Checkpoint, CosignerKey, Hash, Note, NoteError, NoteSignature, Policy,
    parse_signatures, parse_size,
};

/// One witness, its proof included.
const TIME_MAX: Duration = Duration::from_secs(10);
/// A few signature lines are far smaller; of a refusal the beginning is enough.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Tries of one round: from the size remembered, from the size told, and once more when somebody
/// else asked in between.
const TRIES_MAX: usize = 3;
/// Of a refusal's text in our own.
const REASON_CHARS_MAX: usize = 300;

/// Why a witness did not cosign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CosignError {
    /// What is to be cosigned is no checkpoint.
    #[error("note is no checkpoint: {0}")]
    Checkpoint(NoteError),
    /// No answer.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The proof that it needs cannot be made.
    #[error("no proof from size {old}: {reason}")]
    Proof {
        /// What it cosigned last, as it says.
        old: u64,
        /// Why.
        reason: String,
    },
    /// It has cosigned a later state of this log than we have.
    #[error(
        "it has cosigned size {theirs} of this log and ours is {ours}: if that is true, this log \
         was rolled back (a restored backup, a cloned disk); compare with its checkpoint before \
         anything is signed again"
    )]
    Ahead {
        /// Its size.
        theirs: u64,
        /// Ours.
        ours: u64,
    },
    /// Others move it faster than we can prove.
    #[error("its size changed at every try; it is asked again in the next round")]
    Moving,
    /// It says no.
    #[error("refused with status {status}: {reason}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its text, shortened.
        reason: String,
    },
    /// Its answer is not of the protocol.
    #[error("answer is not of the protocol: {0}")]
    Answer(String),
    /// No cosignature of its key, or one that does not verify.
    #[error("cosignature is not believed: {0}")]
    Signature(NoteError),
}

impl CosignError {
    /// A word from a closed list, as metric label.
    pub fn word(&self) -> &'static str {
        match self {
            CosignError::Checkpoint(_) => "checkpoint",
            CosignError::Unreachable(_) => "unreachable",
            CosignError::Timeout(_) => "timeout",
            CosignError::Proof { .. } => "proof",
            CosignError::Ahead { .. } => "ahead",
            CosignError::Moving => "moving",
            CosignError::Refused { .. } => "refused",
            CosignError::Answer(_) => "answer",
            CosignError::Signature(_) => "signature",
        }
    }
}

/// What became of one witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessOutcome {
    /// Its name in the policy.
    pub name: String,
    /// Time of its cosignature, seconds since 1970.
    pub result: Result<u64, CosignError>,
}

/// The witnesses of a policy that have a URL.
#[derive(Debug)]
pub struct Witnesses {
    http: reqwest::Client,
    members: Vec<Member>,
    time_max: Duration,
}

#[derive(Debug)]
struct Member {
    name: String,
    key: CosignerKey,
    /// Its submission prefix, without a slash at the end.
    url: String,
    /// What it cosigned last of our log, as far as we know.
    last: u64,
}

impl Witnesses {
    /// The witnesses of `policy`. `http` must carry no credentials: they are somebody else's.
    pub fn new(policy: &Policy, http: reqwest::Client) -> Self {
        let member = |witness: &sealcast_common::integrity::Witness| {
            let url = witness.url.as_ref()?.trim_end_matches('/').to_owned();
            Some(Member { name: witness.name.clone(), key: witness.key.clone(), url, last: 0 })
        };
        let members = policy.witnesses.iter().filter_map(member).collect();
        Witnesses { http, members, time_max: TIME_MAX }
    }

    /// Another time limit.
    #[cfg(test)]
    pub(crate) fn within(self, time_max: Duration) -> Self {
        Witnesses { time_max, ..self }
    }

    /// Whether there is nobody to ask.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Asks all of them at one time and adds to `note` the cosignatures that verify, each in the
    /// place of an earlier one by the same key. `prove` makes the consistency proof from a smaller
    /// size, never 0, to the note's checkpoint. Whether the quorum is reached says
    /// [`Policy::cosigned`]. One log per value: sizes are remembered.
    pub async fn cosign<F, E>(
        &mut self,
        note: &mut Note,
        prove: impl Fn(u64) -> F,
    ) -> Vec<WitnessOutcome>
    where
        F: Future<Output = Result<Vec<Hash>, E>>,
        E: Display,
    {
        let checkpoint = Checkpoint::parse(&note.text).map_err(CosignError::Checkpoint);
        let question = Question { text: &note.text, wire: note.to_text(), checkpoint };
        let (http, time_max, prove, question) = (&self.http, self.time_max, &prove, &question);
        let asked = self.members.iter_mut().map(|member| async move {
            let answer = member.ask(http, question, prove);
            let answer = tokio::time::timeout(time_max, answer).await;
            let answer = answer.unwrap_or(Err(CosignError::Timeout(time_max)));
            member.measure(&answer);
            (member.name.clone(), answer)
        });
        let answers = join_all(asked).await;
        let mut outcomes = Vec::with_capacity(answers.len());
        for (name, answer) in answers {
            let result = answer.map(|(signature, time)| {
                note.signatures.retain(|(name, id, _)| (name, id) != (&signature.0, &signature.1));
                note.signatures.push(signature);
                time
            });
            outcomes.push(WitnessOutcome { name, result });
        }
        outcomes
    }
}

/// What all of them are asked.
struct Question<'n> {
    text: &'n str,
    wire: String,
    checkpoint: Result<Checkpoint, CosignError>,
}

impl Member {
    async fn ask<F, E>(
        &mut self,
        http: &reqwest::Client,
        question: &Question<'_>,
        prove: &impl Fn(u64) -> F,
    ) -> Result<(NoteSignature, u64), CosignError>
    where
        F: Future<Output = Result<Vec<Hash>, E>>,
        E: Display,
    {
        let size = question.checkpoint.as_ref().map_err(Clone::clone)?.size;
        // What it remembers counts, not what we do: asked from a size that is not its own, it says so.
        let mut old = self.last.min(size);
        for _ in 0..TRIES_MAX {
            let proof = match old {
                0 => Vec::new(),
                old if old == size => Vec::new(),
                old => prove(old).await.map_err(|error| {
                    let reason = error.to_string();
                    CosignError::Proof { old, reason }
                })?,
            };
            let request = AddCheckpoint { old, proof, checkpoint: question.wire.clone() };
            let (status, body) = self.post(http, request.to_text()).await?;
            match status {
                200 => {
                    let cosigned = self.verified(question.text, &body)?;
                    self.last = size;
                    return Ok(cosigned);
                }
                409 => {
                    let told = parse_size(&body).ok_or_else(|| {
                        CosignError::Answer(format!("{:?}, expected a size", shortened(&body)))
                    })?;
                    if told > size {
                        return Err(CosignError::Ahead { theirs: told, ours: size });
                    }
                    if told == old {
                        let found =
                            format!("a conflict with size {old}, which is what it was told");
                        return Err(CosignError::Answer(found));
                    }
                    (old, self.last) = (told, told);
                }
                status => {
                    return Err(CosignError::Refused { status, reason: shortened(&body) });
                }
            }
        }
        Err(CosignError::Moving)
    }

    async fn post(
        &self,
        http: &reqwest::Client,
        body: String,
    ) -> Result<(u16, String), CosignError> {
        let url = format!("{}/add-checkpoint", self.url);
        let failed = |error: reqwest::Error| CosignError::Unreachable(told(&error));
        let mut answer = http.post(url).body(body).send().await.map_err(failed)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            bytes.extend(chunk);
            if bytes.len() > ANSWER_BYTES_MAX {
                let found = format!("more than {ANSWER_BYTES_MAX} bytes");
                return Err(CosignError::Answer(found));
            }
        }
        Ok((answer.status().as_u16(), String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The cosignature of its key among `lines`; those of keys that nobody named are ignored.
    fn verified(&self, text: &str, lines: &str) -> Result<(NoteSignature, u64), CosignError> {
        let signatures =
            parse_signatures(lines).map_err(|error| CosignError::Answer(error.to_string()))?;
        let id = self.key.key_id();
        let its = signatures.into_iter().filter(|(name, i, _)| *name == self.key.name && *i == id);
        let mut verdict = NoteError::Unsigned(self.key.name.clone());
        for signature in its {
            let alone = Note { text: text.to_owned(), signatures: vec![signature.clone()] };
            match alone.verify_cosignature(&self.key) {
                Ok(time) => return Ok((signature, time)),
                Err(error) => verdict = error,
            }
        }
        Err(CosignError::Signature(verdict))
    }

    fn measure(&self, answer: &Result<(NoteSignature, u64), CosignError>) {
        let word = answer.as_ref().err().map_or("cosigned", CosignError::word);
        let name = self.name.clone();
        counter!("sealcast_shipper_witness_answers_total", "witness" => name.clone(), "result" => word)
            .increment(1);
        if answer.is_ok() {
            gauge!("sealcast_shipper_witness_size", "witness" => name).set(self.last as f64);
        }
    }
}

/// One line of somebody else's text.
fn shortened(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().take(REASON_CHARS_MAX).map(visible).collect()
}

fn told(error: &reqwest::Error) -> String {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        reason = format!("{reason}: {inner}");
        source = inner.source();
    }
    reason
}
