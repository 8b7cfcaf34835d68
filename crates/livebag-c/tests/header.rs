//! The C header is the one that cbindgen makes of the crate.

use std::path::Path;

#[test]
#[expect(clippy::disallowed_methods, reason = "a source file is compared, no recording")]
fn the_header_is_that_of_the_crate() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let config = cbindgen::Config::from_file(Path::new(&directory).join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new()
        .with_crate(&directory)
        .with_config(config)
        .generate()
        .expect("cbindgen reads the crate");
    let mut text = Vec::new();
    made.write(&mut text);
    let path = Path::new(&directory).join("../../cpp/include/livebag/livebag.h");
    if std::env::var_os("LIVEBAG_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{} is not that of the crate: LIVEBAG_BLESS=1 cargo test -p livebag-c writes it anew",
        path.display()
    );
}
