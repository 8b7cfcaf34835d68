//! Foreign text where people read it: in a terminal, a log, an error, a header.
//!
//! Names of topics, types, frames, files, robots and hosts come from other users' memory, from networks and from
//! strangers' files. A line feed in one forges a line of a log, an escape sequence moves the cursor, and a change of
//! direction displays another name.

use std::borrow::Cow;
use std::fmt;

/// Whether a character does something else than being seen.
pub fn is_invisible(sign: char) -> bool {
    matches!(
        sign,
        // C0, DEL and C1.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Direction (UAX 9), and separators of lines and paragraphs.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Nothing to be seen: zero-width space, word joiner, byte order mark, tags.
        | '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// The text with such characters as escapes: `\n`, `\u{1b}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    match text.contains(is_invisible) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(Visible(text).to_string()),
    }
}

/// Texts as a list, each as [`visible`] gives it.
pub fn visible_list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let shown = texts.into_iter().map(|text| visible(text.as_ref()).into_owned());
    shown.collect::<Vec<_>>().join(", ")
}

/// Shows a text as [`visible`] gives it.
#[derive(Clone, Copy, Debug)]
pub struct Visible<'a>(pub &'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for sign in self.0.chars() {
            match is_invisible(sign) {
                true => write!(f, "{}", sign.escape_default())?,
                false => f.write_char(sign)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay() {
        for name in
            ["/camera/front", "/Kamera/\u{e4}u\u{df}en", "/\u{6444}\u{50cf}\u{673a} \u{1f4f7}", ""]
        {
            assert_eq!(visible(name), name);
            assert!(matches!(visible(name), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn nothing_is_obeyed() {
        assert_eq!(visible("/a\nlivebag: all is well"), "/a\\nlivebag: all is well");
        assert_eq!(visible("/a\u{1b}[2J\r\u{9b}1m"), "/a\\u{1b}[2J\\r\\u{9b}1m");
        assert_eq!(visible("/\u{202e}gnp.exe"), "/\\u{202e}gnp.exe");
        assert_eq!(visible_list(["/a\n", "/b"]), "/a\\n, /b");
        for sign in (0..=0x10ffff).filter_map(char::from_u32).filter(|sign| is_invisible(*sign)) {
            assert!(!visible(&sign.to_string()).contains(is_invisible), "{:x}", u32::from(sign));
        }
        for sign in (0..=0x10ffff).filter_map(char::from_u32).filter(|sign| sign.is_control()) {
            assert!(is_invisible(sign), "{:x}", u32::from(sign));
        }
    }
}
