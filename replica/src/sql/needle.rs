//! Which values of a text column have a part that is looked for: one pass over all bytes of the
//! column, several at a time.

use arrow::array::{Array as _, BooleanBufferBuilder, StringArray};
use arrow::buffer::BooleanBuffer;

/// Positions that are looked at together; the loop over them becomes vector instructions.
const STRIDE: usize = 64;
/// Bytes from which the frequency of letters is guessed.
const SAMPLE: usize = 4_096;

/// A bit for every row, set where the value has `needle` (at least one byte) in it. Bits of null
/// rows mean nothing.
pub(super) fn rows_with(text: &StringArray, needle: &[u8]) -> BooleanBuffer {
    let mut found = BooleanBufferBuilder::new(text.len());
    found.append_n(text.len(), false);
    let offsets = text.value_offsets();
    let (Some(start), Some(end)) = (offsets.first(), offsets.last()) else {
        return found.finish();
    };
    let (start, end) = (*start as usize, *end as usize);
    let bytes = text.value_data().get(start..end).unwrap_or_default();
    let (mut row, mut row_end) = (0, 0);
    places(bytes, needle, |place| {
        let place = place + start;
        if place >= row_end {
            row += offsets[row + 1..].partition_point(|end| *end as usize <= place);
            row_end = offsets[row + 1] as usize;
        }
        // What begins in one value and ends in the next is no find.
        if place + needle.len() <= row_end {
            found.set_bit(row, true);
        }
    });
    found.finish()
}

/// Calls `found` with every place of `needle` in `bytes`, in order.
fn places(bytes: &[u8], needle: &[u8], mut found: impl FnMut(usize)) {
    let Some(last) = bytes.len().checked_sub(needle.len()).filter(|_| !needle.is_empty()) else {
        return;
    };
    let (one, other) = rarest(bytes, needle);
    let (a, b) = (needle[one], needle[other]);
    let (at_one, at_other) = (&bytes[one..=one + last], &bytes[other..=other + last]);
    let mut test = |place: usize| {
        if at_one[place] == a && at_other[place] == b && bytes[place..].starts_with(needle) {
            found(place);
        }
    };
    let (ones, rest) = at_one.as_chunks::<STRIDE>();
    let (others, _) = at_other.as_chunks::<STRIDE>();
    for (i, (ones, others)) in ones.iter().zip(others).enumerate() {
        let hits = ones
            .iter()
            .zip(others)
            .fold(0, |hits, (one, other)| hits | (u8::from(*one == a) & u8::from(*other == b)));
        if hits != 0 {
            (i * STRIDE..(i + 1) * STRIDE).for_each(&mut test);
        }
    }
    (at_one.len() - rest.len()..at_one.len()).for_each(test);
}

/// The places in `needle` of the two bytes that are the rarest in `bytes`.
fn rarest(bytes: &[u8], needle: &[u8]) -> (usize, usize) {
    let mut counts = [0_u32; 256];
    for byte in bytes.iter().take(SAMPLE) {
        counts[usize::from(*byte)] += 1;
    }
    let mut order: Vec<usize> = (0..needle.len()).collect();
    order.sort_by_key(|place| counts[usize::from(needle[*place])]);
    let first = order.first().copied().unwrap_or(0);
    let other = order.iter().copied().find(|place| needle[*place] != needle[first]);
    (first, other.unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[Option<&str>], needle: &str) {
        let text = StringArray::from(values.to_vec());
        for cut in 0..values.len() {
            let text = text.slice(cut, values.len() - cut);
            let rows = rows_with(&text, needle.as_bytes());
            for (row, value) in text.iter().enumerate() {
                let Some(value) = value else { continue };
                assert_eq!(rows.value(row), value.contains(needle), "{needle:?} in {value:?}");
            }
        }
    }

    #[test]
    fn every_value_with_the_needle_is_found_and_no_other() {
        let long = "ab".repeat(200);
        let tail = format!("{}needle", "x".repeat(129));
        let values = [
            Some("needle"),
            None,
            Some(""),
            Some("nee"),
            Some("dle"),
            Some("a needle, a needle"),
            Some(long.as_str()),
            Some("needlneedle"),
            Some(tail.as_str()),
            Some("nadel é ü"),
            Some("e"),
        ];
        for needle in ["needle", "n", "e", "ba", "abababab", "é", "dlea", "zz", tail.as_str()] {
            check(&values, needle);
        }
        check(&[Some("")], "x");
        assert!(rows_with(&StringArray::from(Vec::<Option<&str>>::new()), b"x").is_empty());
    }
}
