//! What tests do where something that they need is missing. Crates take this file as a module.

/// Says why a test does nothing here, and fails it under `LIVEBAG_REQUIRE=all`, where everything must be there (CI).
pub fn skipped(why: &str) {
    println!("SKIPPED: {why}");
    let required = std::env::var("LIVEBAG_REQUIRE");
    assert_ne!(required.as_deref(), Ok("all"), "LIVEBAG_REQUIRE=all, but: {why}");
}
