//! The keys of one log, in their order, and the hand-over from each to the next.
//!
//! A key is valid by size, not by time: for checkpoints from the hand-over to it up to the one after
//! it. Both keys sign a hand-over, and it names the root at its size: whoever steals an old key later
//! signs nothing that a reader believes who knows the hand-over, and no other history below its size
//! can carry it along. At that size itself either key may have signed: a seal that a crash cut short
//! is repeated under the new one.
//!
//! Text: the first key (C2SP vkey), and for each hand-over a signed note with two signatures, whose
//! first line is no origin, so that no checkpoint can be taken for one:
//! ```text
//! prod/0000+1a2b3c4d+AX…
//! sealcast hand-over v1
//! prod/0000
//! 24933
//! <root of the tree of that size, base64>
//! prod/0000+1a2b3c4d+AX…
//! prod/0000+5e6f7a8b+AY…
//!
//! — prod/0000 <by the old key>
//! — prod/0000 <by the new key>
//! ```
//! So the history of a log whose key never changed is its vkey.

use super::merkle::Hash;
use super::note::{Checkpoint, Note, NoteError, VerifyKey};
use super::signer::{Signer, SignerError};
use crate::fault::{Corruption, hex};
use crate::limits::HAND_OVERS_MAX;

const FIRST_LINE: &str = "sealcast hand-over v1";
/// Of a hand-over: six of text, a blank one, two signatures.
const LINES: usize = 9;

/// One change of key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// Origin, size and root at which the key changes.
    pub at: Checkpoint,
    /// Valid from there on.
    pub key: VerifyKey,
    note: String,
}

/// All keys that one log has had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHistory {
    first: VerifyKey,
    hand_overs: Vec<HandOver>,
}

impl From<VerifyKey> for KeyHistory {
    fn from(first: VerifyKey) -> Self {
        KeyHistory { first, hand_overs: Vec::new() }
    }
}

impl KeyHistory {
    /// Parses the text; every hand-over must be signed by both keys and begin where, or after, the
    /// one before did.
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let text = text.trim_end();
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let mut history = KeyHistory::from(VerifyKey::parse(first)?);
        let lines: Vec<&str> = rest.lines().collect();
        for note in lines.chunks(LINES) {
            history.append(&format!("{}\n", note.join("\n")))?;
        }
        match history.to_text() == text {
            true => Ok(history),
            false => Err(NoteError::Malformed("a key's history has other text in it")),
        }
    }

    /// The text form; no line break at its end.
    pub fn to_text(&self) -> String {
        let notes = self.hand_overs.iter().map(|next| format!("\n{}", next.note.trim_end()));
        notes.fold(self.first.to_text(), |text, note| text + &note)
    }

    /// The log.
    pub fn origin(&self) -> &str {
        &self.first.name
    }

    /// The key that signs now.
    pub fn newest(&self) -> &VerifyKey {
        self.hand_overs.last().map_or(&self.first, |next| &next.key)
    }

    /// Oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &VerifyKey> {
        std::iter::once(&self.first).chain(self.hand_overs.iter().map(|next| &next.key))
    }

    /// Oldest first.
    pub fn hand_overs(&self) -> &[HandOver] {
        &self.hand_overs
    }

    /// The checkpoint in `note`, of this log and signed by a key that was valid at its size.
    pub fn verify(&self, note: &Note) -> Result<Checkpoint, NoteError> {
        self.signed_by(note).map(|(_, checkpoint)| checkpoint)
    }

    /// The same, with the key that signed.
    pub fn signed_by(&self, note: &Note) -> Result<(&VerifyKey, Checkpoint), NoteError> {
        let checkpoint = Checkpoint::parse(&note.text)?;
        if checkpoint.origin != self.origin() {
            return Err(NoteError::Malformed("a checkpoint of another log"));
        }
        let size = checkpoint.size;
        let other = |next: &&HandOver| next.at.size == size && next.at.root != checkpoint.root;
        if self.hand_overs.iter().any(|next| other(&next)) {
            return Err(NoteError::Malformed("another root than at the hand-over of its key"));
        }
        let mut verdict = Err(NoteError::Unsigned(self.origin().to_owned()));
        for (number, key) in self.keys().enumerate() {
            let from = number.checked_sub(1).map_or(0, |before| self.hand_overs[before].at.size);
            let to = self.hand_overs.get(number).map_or(u64::MAX, |next| next.at.size);
            if !(from..=to).contains(&size) {
                continue;
            }
            match note.verify(key) {
                Ok(()) => return Ok((key, checkpoint)),
                Err(error @ NoteError::BadSignature(_)) => return Err(error),
                Err(error) => verdict = Err(error),
            }
        }
        verdict
    }

    /// What was known when `note` was signed: the shortest beginning under which it verifies.
    pub fn as_of(&self, note: &Note) -> Result<KeyHistory, NoteError> {
        let (key, _) = self.signed_by(note)?;
        let until = self.keys().position(|one| one == key).unwrap_or(self.hand_overs.len());
        let hand_overs = self.hand_overs[..until].to_vec();
        Ok(KeyHistory { first: self.first.clone(), hand_overs })
    }

    /// Whether `earlier` is a beginning of this, or all of it.
    pub fn continues(&self, earlier: &KeyHistory) -> bool {
        self.first == earlier.first && self.hand_overs.starts_with(&earlier.hand_overs)
    }

    /// Whether one of `keys` is among these: whoever believes it, believes those that it handed
    /// over to, and the roots of those that were before it.
    pub fn has_one_of<'a>(&self, keys: impl IntoIterator<Item = &'a VerifyKey>) -> bool {
        keys.into_iter().any(|named| self.keys().any(|key| key == named))
    }

    /// Hands over from `old`, the newest key, to `new` at `at`, the checkpoint signed last.
    pub fn hand_over(
        &mut self,
        at: &Checkpoint,
        old: &dyn Signer,
        new: &dyn Signer,
    ) -> Result<(), SignerError> {
        let refused = |error: NoteError| SignerError::Refused(error.to_string());
        let key = VerifyKey { name: new.name().to_owned(), public_key: new.public_key() };
        let text = text(at, self.newest(), &key);
        let (mut note, by_new) = (Note::sign(text.clone(), old)?, Note::sign(text, new)?);
        note.signatures.extend(by_new.signatures);
        self.append(&note.to_text()).map_err(refused)
    }

    fn append(&mut self, note: &str) -> Result<(), NoteError> {
        if self.hand_overs.len() == HAND_OVERS_MAX {
            return Err(NoteError::Malformed("more than 16 changes of one log's key"));
        }
        let malformed = NoteError::Malformed("a hand-over of a log's key has another form");
        let read = Note::parse(note)?;
        let lines: Vec<&str> = read.text.lines().collect();
        let [FIRST_LINE, origin, size, root, _, key] = lines[..] else { return Err(malformed) };
        let at = Checkpoint::parse(&format!("{origin}\n{size}\n{root}\n"))?;
        let key = VerifyKey::parse(key)?;
        let follows = self.hand_overs.last().is_none_or(|last| last.at.size <= at.size);
        let fresh = !self.has_one_of([&key]);
        let named = at.origin == self.origin() && key.name == self.origin();
        let signed = read.signatures.len() == 2 && note == read.to_text();
        if !(follows && fresh && named && signed) || read.text != text(&at, self.newest(), &key) {
            return Err(malformed);
        }
        read.verify(self.newest())?;
        read.verify(&key)?;
        self.hand_overs.push(HandOver { at, key, note: note.to_owned() });
        Ok(())
    }
}

fn text(at: &Checkpoint, old: &VerifyKey, new: &VerifyKey) -> String {
    format!("{FIRST_LINE}\n{}{}\n{}\n", at.to_text(), old.to_text(), new.to_text())
}

/// `found` continues `known`, both as texts: no key changed but by hand-over. Answers the new ones.
pub fn check_keys(
    name: &'static str,
    known: &str,
    found: &str,
) -> Result<Vec<HandOver>, Corruption> {
    if known == found {
        return Ok(Vec::new());
    }
    let refused = |found: String| {
        let expected = format!("{}, or a hand-over from it", shown_key(known));
        Corruption::new(name, None, expected, found)
    };
    let (Ok(earlier), Ok(history)) = (KeyHistory::parse(known), KeyHistory::parse(found)) else {
        return Err(refused(shown_key(found)));
    };
    if !history.continues(&earlier) {
        return Err(refused(shown_key(found)));
    }
    Ok(history.hand_overs[earlier.hand_overs.len()..].to_vec())
}

/// The hand-over names the root that the log has at its size; `None`: no such size was signed.
pub fn check_hand_over(
    name: &'static str,
    next: &HandOver,
    root: Option<Hash>,
) -> Result<(), Corruption> {
    if root == Some(next.at.root) {
        return Ok(());
    }
    let Checkpoint { origin, size, root: named } = &next.at;
    let expected = format!("{origin} handed over at {size} with root {}", hex(named));
    let found = root.map_or("no signed root at that size".to_owned(), |root| hex(&root));
    Err(Corruption::new(name, None, expected, found))
}

/// A history's text, fit for one line: its newest key, as far as it can be read.
pub fn shown_key(text: &str) -> String {
    match KeyHistory::parse(text) {
        Ok(history) if history.hand_overs.is_empty() => history.first.to_text(),
        Ok(history) => {
            let (key, count) = (history.newest().to_text(), history.hand_overs.len());
            format!("{key} (hand-over {count})")
        }
        Err(_) => text.lines().next().unwrap_or_default().to_owned(),
    }
}
