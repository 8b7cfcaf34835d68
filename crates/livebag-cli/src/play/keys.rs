//! A player's keys.

use livebag::{PlayControl, PlaySeek};

use crate::control::Keyboard;

/// How much faster or slower a key makes it.
const RATE_STEP: f64 = 1.1;
/// How far a key goes.
const SEEK_STEP: std::time::Duration = std::time::Duration::from_secs(5);
/// No key sends more bytes; longer input from a terminal is ignored.
const KEY_BYTES_MAX: usize = 16;

/// The keys, in words.
pub const HELP: &str = "keys: space pauses and resumes, → plays the next message while paused, ↑ and ↓ \
    play 10 % faster and slower, ← or , goes 5 s back and . 5 s ahead, q ends";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Up,
    Down,
    Left,
    Right,
    Byte(u8),
}

/// Listens to the keyboard for a player.
pub struct Keys {
    keyboard: Keyboard,
    decoder: Decoder,
    rate: f64,
}

impl Keys {
    /// Listens, if there is a terminal to listen to.
    pub fn listen(rate: f64) -> Option<Self> {
        let keyboard = Keyboard::listen()?;
        Some(Self { keyboard, decoder: Decoder::default(), rate })
    }

    /// Does what keys have asked for since the last look; whether any has.
    pub fn look(&mut self, control: &PlayControl) -> bool {
        let mut any = false;
        while let Some(byte) = self.keyboard.byte() {
            if let Some(key) = self.decoder.feed(byte) {
                any |= self.press(key, control);
            }
        }
        any
    }

    fn press(&mut self, key: Key, control: &PlayControl) -> bool {
        match key {
            Key::Byte(b' ') => control.toggle(),
            Key::Right => control.step(),
            Key::Up => return self.set_rate(self.rate * RATE_STEP, control),
            Key::Down => return self.set_rate(self.rate / RATE_STEP, control),
            Key::Left | Key::Byte(b',') => control.seek(PlaySeek::Back(SEEK_STEP)),
            Key::Byte(b'.') => control.seek(PlaySeek::Ahead(SEEK_STEP)),
            Key::Byte(b'q') => control.stop(),
            Key::Byte(_) => return false,
        }
        true
    }

    fn set_rate(&mut self, rate: f64, control: &PlayControl) -> bool {
        // A rate that has left the numbers is not followed.
        let is_set = control.set_rate(rate).is_ok();
        if is_set {
            self.rate = rate;
        }
        is_set
    }
}

/// Makes keys of a terminal's bytes: arrows come as an escape sequence (ECMA-48; `ESC [ A`, or `ESC O A`
/// from a keypad in application mode).
#[derive(Default)]
struct Decoder {
    /// Bytes of a sequence that has begun.
    begun: Vec<u8>,
}

impl Decoder {
    fn feed(&mut self, byte: u8) -> Option<Key> {
        const ESCAPE: u8 = 0x1b;
        if byte == ESCAPE || self.begun.len() >= KEY_BYTES_MAX {
            self.begun.clear();
        }
        match (self.begun.len(), byte) {
            (0, ESCAPE) | (1, b'[' | b'O') => self.begun.push(byte),
            (0, _) => return Some(Key::Byte(byte)),
            // The escape key itself, and another one after it.
            (1, _) => {
                self.begun.clear();
                return Some(Key::Byte(byte));
            }
            // Parameters: shift and the like.
            (_, 0x20..0x40) => self.begun.push(byte),
            _ => {
                self.begun.clear();
                return match byte {
                    b'A' => Some(Key::Up),
                    b'B' => Some(Key::Down),
                    b'C' => Some(Key::Right),
                    b'D' => Some(Key::Left),
                    _ => None,
                };
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = Decoder::default();
        bytes.iter().filter_map(|&byte| decoder.feed(byte)).collect()
    }

    #[test]
    fn arrows_are_sequences_and_others_bytes() {
        assert_eq!(
            keys(b" \x1b[A\x1b[B\x1b[C\x1b[D"),
            [Key::Byte(b' '), Key::Up, Key::Down, Key::Right, Key::Left]
        );
        assert_eq!(
            keys(b"\x1bOA,\x1b[1;2D."),
            [Key::Up, Key::Byte(b','), Key::Left, Key::Byte(b'.')]
        );
    }

    #[test]
    fn what_is_no_key_means_nothing() {
        assert_eq!(keys(b"\x1b[5~\x1b[15;5~q"), [Key::Byte(b'q')], "page up, control F5");
        assert_eq!(keys(b"\x1b\x1b[A"), [Key::Up], "escape, then an arrow");
        assert_eq!(keys(b"\x1bq"), [Key::Byte(b'q')]);
        let mut endless = b"\x1b[".to_vec();
        endless.extend([b'1'; 100]);
        keys(&endless);
    }
}
