//! Settings from the command line and from profiles.

use livebag::Priority;

use super::*;

fn over(settings: Settings, profile: &str) -> Result<Settings, CliError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, profile.as_bytes()).unwrap();
    settings.over_profile(file.path())
}

#[test]
fn the_command_line_overrides_the_profile() {
    let given = Settings { max_bag_size: Some("1MB".into()), ..Settings::default() };
    let profile = "all: true\nmax-bag-size: 5000000\nmax-bag-files: 3\nthrottle: [/imu=10]\n";
    let merged = over(given, profile).unwrap();
    assert!(merged.all);
    let options = merged.options().unwrap();
    assert_eq!(options.split.bytes_max, Some(1_000_000));
    assert_eq!(options.retention.splits_max, Some(3));
    assert_eq!(options.topics.rule("/imu").rate_max_hz, Some(10.0));
    assert_eq!(options.topics.rule("/imu/raw").rate_max_hz, None);
}

#[test]
fn a_printed_profile_says_the_same() {
    let settings = Settings {
        names: vec!["camera".into()],
        rule: vec!["/lidar.*:priority=critical,queue=64MiB,latched".into()],
        min_free_space: Some("2GB".into()),
        low_free_space_action: Some("delete-oldest".into()),
        snapshot_mode: true,
        ..Settings::default()
    };
    let again = over(Settings::default(), &settings.to_profile().unwrap()).unwrap();
    assert_eq!(format!("{settings:?}"), format!("{again:?}"));
    let rule = again.options().unwrap().topics.rule("/lidar/points");
    assert_eq!((rule.priority, rule.latched), (Some(Priority::Critical), true));
    assert_eq!(rule.bytes_max, Some(64 << 20));
}

#[test]
fn what_makes_no_sense_is_named() {
    let unknown = over(Settings::default(), "max-bag-sise: 1").unwrap_err().to_string();
    assert!(unknown.contains("max-bag-sise"), "{unknown}");
    let bad = |settings: Settings| settings.options().unwrap_err().to_string();
    let of = |key: &str| Some(key.to_owned());
    assert!(bad(Settings { max_bag_size: of("x"), ..Settings::default() }).contains("max-bag"));
    assert!(bad(Settings { overflow: of("x"), ..Settings::default() }).contains("drop-oldest"));
    assert!(bad(Settings { rule: vec!["a:b=1".into()], ..Settings::default() }).contains("b=1"));
    assert!(bad(Settings { throttle: vec!["/a=0".into()], ..Settings::default() }).contains("Hz"));
    assert!(Settings::default().selectors().is_err());
    let level = Settings { compression_level: of("3"), ..Settings::default() };
    assert!(bad(level).contains("--compression zstd"));
    assert!(bad(Settings { preset: of("x"), ..Settings::default() }).contains("zstd_fast"));
    assert!(bad(Settings { schedule: of("x"), ..Settings::default() }).contains("cycle-aware"));
}

#[test]
fn databases_have_presets_of_their_own() {
    let of = |key: &str| Some(key.to_owned());
    let database = Settings { storage: of("sqlite3"), ..Settings::default() };
    let plain = database.database().unwrap().unwrap();
    assert_eq!((plain.preset, plain.metadata_version.number()), (Sqlite3Preset::None, 7));
    let resilient =
        Settings { preset: of("resilient"), metadata_version: of("9"), ..database.clone() };
    assert_eq!(resilient.metadata_version().unwrap(), None);
    let resilient = resilient.database().unwrap().unwrap();
    assert_eq!(resilient.preset, Sqlite3Preset::Resilient);
    assert_eq!(resilient.metadata_version.number(), 9);
    let bad = |settings: Settings| settings.options().unwrap_err().to_string();
    assert!(bad(Settings { preset: of("zstd_fast"), ..database.clone() }).contains("resilient"));
    let schedule = Settings { schedule: of("cycle-aware"), ..database.clone() };
    assert!(bad(schedule).contains("sqlite3"));
    assert!(bad(Settings { checksum: true, ..database }).contains("checksum"));
    assert!(Settings::default().database().unwrap().is_none());
}

#[test]
fn what_is_given_beside_a_preset_wins() {
    let of = |key: &str| Some(key.to_owned());
    let preset = Settings { preset: of("zstd_small"), ..Settings::default() };
    let options = preset.options().unwrap();
    assert_eq!((options.compression.level, options.checksum), (19, true));
    let lower = Settings { compression_level: of("-3"), ..preset };
    assert_eq!(lower.options().unwrap().compression.level, -3);
    let resilient = Settings { preset: of("resilient"), ..Settings::default() };
    assert_eq!(resilient.options().unwrap().sync_interval, Some(Duration::from_secs(1)));
}
