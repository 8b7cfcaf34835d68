//! The benchmarks' frames, in which a reader can detect damage.
//!
//! Every 64-bit word of frame *k* is *k*, but for the second, which is the moment just before
//! publishing. A frame that mixes two frames holds two different words.

/// Frames are counted in words.
pub const WORD_BYTES: usize = 8;

/// The smallest frame: the two words at its head and the one at its end.
pub const FRAME_BYTES_MIN: usize = 64;

/// Words between two that a reader checks: one per page, and the last.
const CHECK_STRIDE_WORDS: usize = 4096 / WORD_BYTES;

/// A reader's result for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Which frame it is.
    pub sequence: u64,
    /// When it was published, in nanoseconds of `CLOCK_MONOTONIC`.
    pub sent_nanos: u64,
    /// Whether words of another frame are in it.
    pub torn: bool,
}

/// Fills a frame. The stamp comes later, by [`stamp`].
pub fn fill(frame: &mut [u8], sequence: u64) {
    let word = sequence.to_le_bytes();
    for chunk in frame.chunks_exact_mut(WORD_BYTES) {
        chunk.copy_from_slice(&word);
    }
}

/// Marks a frame as the one called `sequence` at one word per page, without the cost of filling.
pub fn mark(frame: &mut [u8], sequence: u64) {
    let word = sequence.to_le_bytes();
    let last = frame.len() / WORD_BYTES - 1;
    for index in (0..last).step_by(CHECK_STRIDE_WORDS).chain([last]) {
        frame[index * WORD_BYTES..][..WORD_BYTES].copy_from_slice(&word);
    }
}

/// Puts the moment of publishing into the frame.
#[inline]
pub fn stamp(frame: &mut [u8], nanos: u64) {
    frame[WORD_BYTES..2 * WORD_BYTES].copy_from_slice(&nanos.to_le_bytes());
}

/// Reads a frame's head, and checks one word per page and the last.
pub fn inspect(frame: &[u8]) -> Content {
    inspect_by(frame.len(), |index| word(frame, index))
}

/// As [`inspect`], of a frame whose words are read by `word`.
pub fn inspect_by(frame_bytes: usize, word: impl Fn(usize) -> u64) -> Content {
    let sequence = word(0);
    let last = frame_bytes / WORD_BYTES - 1;
    let torn =
        (0..last).step_by(CHECK_STRIDE_WORDS).chain([last]).any(|index| word(index) != sequence);
    Content { sequence, sent_nanos: word(1), torn }
}

fn word(frame: &[u8], index: usize) -> u64 {
    let mut bytes = [0; WORD_BYTES];
    bytes.copy_from_slice(&frame[index * WORD_BYTES..][..WORD_BYTES]);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_frame_is_known_by_its_words() {
        let mut frame = vec![0; 25_920];
        fill(&mut frame, 9);
        stamp(&mut frame, 1234);
        assert_eq!(inspect(&frame), Content { sequence: 9, sent_nanos: 1234, torn: false });
        mark(&mut frame, 10);
        assert_eq!(inspect(&frame), Content { sequence: 10, sent_nanos: 1234, torn: false });
    }

    #[test]
    fn a_word_of_another_frame_shows() {
        let mut frame = vec![0; 25_920];
        fill(&mut frame, 9);
        let end = frame.len();
        fill(&mut frame[end - 100..], 8);
        assert!(inspect(&frame).torn);
    }
}
