//! Texts of errors.

/// For error texts: foreign input is not repeated at length.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(60).filter(|c| !c.is_control()).collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}
