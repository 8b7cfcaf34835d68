//! `Range` of a request (RFC 9110, section 14).

/// Which bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of them: no range was requested, or one that may be ignored.
    All,
    /// From the first to the last, both included.
    Part(u64, u64),
    /// None that there are.
    Nothing,
}

/// What `range` asks for of a file of `bytes`. Several ranges, and units other than bytes, are ignored, as the RFC
/// allows.
pub fn wanted(range: Option<&str>, bytes: u64) -> Wanted {
    let Some(range) = range.and_then(|range| range.trim().strip_prefix("bytes=")) else {
        return Wanted::All;
    };
    let Some((first, last)) = range.split_once('-') else { return Wanted::All };
    let number = |text: &str| -> Option<u64> {
        let text = text.trim();
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    match (first.trim(), last.trim()) {
        ("", "") => Wanted::All,
        ("", suffix) => match number(suffix) {
            Some(0) => Wanted::Nothing,
            Some(count) => Wanted::Part(bytes.saturating_sub(count), bytes - 1),
            None => Wanted::All,
        },
        (first, last) => {
            let Some(first) = number(first) else { return Wanted::All };
            let last = if last.is_empty() { Some(u64::MAX) } else { number(last) };
            match last {
                Some(last) if last < first => Wanted::All,
                Some(_) if first >= bytes => Wanted::Nothing,
                Some(last) => Wanted::Part(first, last.min(bytes - 1)),
                None => Wanted::All,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let of = |range| wanted(Some(range), 100);
        assert_eq!(wanted(None, 100), Wanted::All);
        assert_eq!(of("bytes=0-0"), Wanted::Part(0, 0));
        assert_eq!(of("bytes=10-"), Wanted::Part(10, 99));
        assert_eq!(of("bytes=10-1000"), Wanted::Part(10, 99));
        assert_eq!(of("bytes=-30"), Wanted::Part(70, 99));
        assert_eq!(of("bytes=-300"), Wanted::Part(0, 99));
        assert_eq!(of("bytes=100-"), Wanted::Nothing);
        assert_eq!(of("bytes=-0"), Wanted::Nothing);
        for passed_over in
            ["bytes=5-2", "bytes=a-b", "bytes=1-2,5-6", "lines=1-2", "bytes=", "-", "bytes=-"]
        {
            assert_eq!(of(passed_over), Wanted::All, "{passed_over}");
        }
        assert_eq!(of("bytes=99999999999999999999-"), Wanted::All);
    }
}
