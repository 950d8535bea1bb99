//! A shard's segments in order: a list whose copies share all but the last few hundred entries.
//!
//! Folding a commit keeps the catalog before it, so every commit copies the list. Chunks that are
//! full never change and are shared, as is the list of them: replaying a log is linear.

use std::sync::Arc;

use super::descriptor::Descriptor;

const CHUNK: usize = 256;

type Chunk = Arc<[Arc<Descriptor>]>;

/// Ascending by start, without gaps.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    full: Arc<Vec<Chunk>>,
    /// Fewer than a chunk.
    rest: Vec<Arc<Descriptor>>,
}

impl Segments {
    /// How many.
    pub fn len(&self) -> usize {
        self.full.len() * CHUNK + self.rest.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The one at `index`.
    pub fn get(&self, index: usize) -> Option<&Arc<Descriptor>> {
        match self.full.get(index / CHUNK) {
            Some(chunk) => chunk.get(index % CHUNK),
            None => self.rest.get(index - self.full.len() * CHUNK),
        }
    }

    /// The last one.
    pub fn last(&self) -> Option<&Arc<Descriptor>> {
        self.get(self.len().checked_sub(1)?)
    }

    /// All of them; passing over many costs nothing.
    pub fn iter(&self) -> Iter<'_> {
        Iter { segments: self, next: 0 }
    }

    /// The one that holds the row `seq`.
    pub fn covering(&self, seq: u64) -> Option<&Arc<Descriptor>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let found = self.get(middle)?;
            if found.end() <= seq {
                low = middle + 1;
            } else if found.id.start > seq {
                high = middle;
            } else {
                return Some(found);
            }
        }
        None
    }

    /// The one that begins at `start`.
    pub fn at(&self, start: u64) -> Option<&Arc<Descriptor>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let found = self.get(middle)?;
            match found.id.start.cmp(&start) {
                std::cmp::Ordering::Equal => return Some(found),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Whether the first ones are those of `other`.
    pub fn starts_with(&self, other: &Segments) -> bool {
        self.len() >= other.len() && self.iter().zip(other).all(|(mine, theirs)| mine == theirs)
    }

    #[cfg(test)]
    pub(super) fn shares_chunks_with(&self, other: &Segments) -> bool {
        Arc::ptr_eq(&self.full, &other.full)
    }

    pub(super) fn push(&mut self, descriptor: Arc<Descriptor>) {
        self.rest.push(descriptor);
        if self.rest.len() == CHUNK {
            let chunk = std::mem::take(&mut self.rest).into();
            Arc::make_mut(&mut self.full).push(chunk);
        }
    }
}

impl<'a> IntoIterator for &'a Segments {
    type Item = &'a Arc<Descriptor>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// See [`Segments::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    segments: &'a Segments,
    next: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<Descriptor>;

    fn next(&mut self) -> Option<Self::Item> {
        self.nth(0)
    }

    fn nth(&mut self, skipped: usize) -> Option<Self::Item> {
        self.next = self.next.saturating_add(skipped);
        let found = self.segments.get(self.next)?;
        self.next += 1;
        Some(found)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.segments.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
