//! Pieces of work on a few threads, their results in order.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most threads that one segment is worth.
const THREADS_MAX: usize = 4;

/// How many threads there are for one segment.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

/// Does pieces 0 to `count` of `work`; whoever is done takes the next.
pub(super) fn spread<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let threads = threads.min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::with_capacity(count);
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= count {
                return done;
            }
            done.push((piece, work(piece)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut all = take();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(piece, _)| *piece);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        for threads in 0..4 {
            assert_eq!(
                spread(threads, 100, |i| i * i),
                (0..100).map(|i| i * i).collect::<Vec<_>>()
            );
        }
        assert!(spread(3, 0, |i| i).is_empty());
    }
}
