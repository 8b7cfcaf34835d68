use super::*;

#[test]
fn durations() {
    assert_eq!(duration("1s"), Ok(Duration::from_secs(1)));
    assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
    assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(duration("2m30s"), Ok(Duration::from_secs(150)));
    assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
    assert_eq!(duration("13"), Ok(Duration::from_secs(13)));
    assert_eq!(duration("0.25"), Ok(Duration::from_millis(250)));
    for wrong in ["", "s", "-1s", "-1", "1 potato", "inf", "nan", "1e400"] {
        assert!(duration(wrong).is_err(), "{wrong}");
    }
    assert!(duration_above_zero("0").is_err());
}

#[test]
fn sizes() {
    assert_eq!(size_bytes("4096"), Ok(4096));
    assert_eq!(size_bytes("100MiB"), Ok(100 << 20));
    assert_eq!(size_bytes("100 mib"), Ok(100 << 20));
    assert_eq!(size_bytes("1.5GB"), Ok(1_500_000_000));
    assert_eq!(size_bytes("2k"), Ok(2000));
    for wrong in ["", "MiB", "-1", "1.2.3", "10 potatoes", "99999999999T"] {
        assert!(size_bytes(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn moments() {
    let at = |nanos| Ok(Moment::At(nanos));
    let after = |millis| Ok(Moment::After(Duration::from_millis(millis)));
    assert_eq!(moment("1700000000123456789"), at(1_700_000_000_123_456_789));
    assert_eq!(moment("1700000000.123456789"), at(1_700_000_000_123_456_789));
    assert_eq!(moment("1700000000.5"), at(1_700_000_000_500_000_000));
    assert_eq!(moment("2023-11-14T22:13:20Z"), at(1_700_000_000_000_000_000));
    assert_eq!(moment("2023-11-14T23:13:20.5+01:00"), at(1_700_000_000_500_000_000));
    assert_eq!(moment("+1.5s"), after(1500));
    assert_eq!(moment("+2"), after(2000));
    assert_eq!(moment("5s"), after(5000));
    for wrong in ["", "yesterday", "-5s", "2023-11-14", "1969-12-31T23:59:59Z", "+-1s"] {
        assert!(moment(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_moment_after_the_start() {
    assert_eq!(Moment::After(Duration::from_nanos(5)).nanos(100), 105);
    assert_eq!(Moment::After(Duration::MAX).nanos(100), u64::MAX);
    assert_eq!(Moment::At(7).nanos(100), 7);
}
