//! What the signer remembers against what the folder holds: whether this is the copy that was
//! signed. A restored backup and a cloned disk look perfect from within.

use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{CompactRange, Hash, SignedState, SignerError};

use crate::context::ShardContext;
use crate::recovery::RecoveryError;
use crate::sealed::SealedChain;

/// In which way folder and signer differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discord {
    /// The folder ends before what was signed.
    Behind,
    /// The folder holds segments that this signer does not know of.
    Ahead,
    /// The folder holds segments, the signer remembers nothing.
    Missing,
    /// Both know the size, but not the same rows.
    OtherRoot,
}

impl Discord {
    /// What to do.
    pub fn hint(self) -> &'static str {
        match self {
            Discord::Behind => {
                "nothing was changed: this folder is older than what was signed; bring the newest \
                 copy back, a signed size is never cut"
            }
            Discord::Ahead => {
                "nothing was changed: the signer's memory is an old copy, or the folder another \
                 one's; bring the matching one back (docs/operating.md, Backup and restore)"
            }
            Discord::Missing => {
                "nothing was changed: if this folder is the newest copy there is, run \
                 `sealcast keys adopt DIR`"
            }
            Discord::OtherRoot => {
                "nothing was changed: keep both, they are evidence of two histories; find out \
                 which copy is the true one"
            }
        }
    }
}

/// What was signed last, and where that is written.
#[derive(Debug)]
pub(crate) struct Signed {
    state: Option<SignedState>,
    signer: String,
}

impl Signed {
    pub(crate) fn read(ctx: &ShardContext) -> Result<Self, RecoveryError> {
        let signer = format!("what the signer of {} remembers", ctx.origin);
        let state = ctx.signer.state().map_err(|error| match error {
            SignerError::Memory(found) => RecoveryError::Corrupt(*found),
            other => RecoveryError::Signer(other),
        })?;
        Ok(Signed { state, signer })
    }

    /// Every sealed segment and every note was signed by this memory: it is written first.
    pub(crate) fn covers(&self, chain: &SealedChain) -> Result<(), RecoveryError> {
        let notes = chain.unpublished.iter().map(|(_, checkpoint)| checkpoint.size);
        let known = notes.fold(chain.end(), u64::max);
        let expected = format!("size {known}, as the folder's newest note");
        let corrupt = |found| Corruption::new("signed_state", None, expected, found);
        match &self.state {
            None if known > 0 => Err(self.differs(Discord::Missing, corrupt("nothing".to_owned()))),
            Some(state) if state.size() < known => {
                Err(self.differs(Discord::Ahead, corrupt(format!("size {}", state.size()))))
            }
            Some(state) if state.size() == chain.end() => self.same(state, &chain.tree),
            _ => Ok(()),
        }
    }

    /// `leaves` follow `before`: if what was signed ends among them, they give its root.
    pub(crate) fn is_continued(
        &self,
        before: &CompactRange,
        leaves: &[Hash],
    ) -> Result<(), RecoveryError> {
        let Some(state) = &self.state else { return Ok(()) };
        let Some(rows) = state.size().checked_sub(before.end()) else { return Ok(()) };
        let Some(signed) = usize::try_from(rows).ok().and_then(|rows| leaves.get(..rows)) else {
            return Ok(());
        };
        let mut tree = before.clone();
        signed.iter().for_each(|leaf| tree.append(*leaf));
        self.same(state, &tree)
    }

    /// The folder has as many leaves as were signed.
    pub(crate) fn is_reached(&self, size: u64) -> Result<(), RecoveryError> {
        let signed = self.state.as_ref().map_or(0, SignedState::size);
        if size >= signed {
            return Ok(());
        }
        let expected = format!("at least {signed} leaves, as signed");
        let found = Corruption::new("signed_size", None, expected, format!("{size} leaves"));
        Err(self.differs(Discord::Behind, found))
    }

    fn same(&self, state: &SignedState, tree: &CompactRange) -> Result<(), RecoveryError> {
        let root = tree.root()?;
        if root == *state.root() {
            return Ok(());
        }
        let expected = format!("root {} at size {}", hex(&root), tree.end());
        let found = Corruption::new("signed_state", None, expected, hex(state.root()));
        Err(self.differs(Discord::OtherRoot, found))
    }

    fn differs(&self, discord: Discord, finding: Corruption) -> RecoveryError {
        RecoveryError::Signed { finding: finding.in_object(&self.signer), discord }
    }
}
