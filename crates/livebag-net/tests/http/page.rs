//! The page that browsers are shown.

use livebag_net::{Secrets, ServerOptions};

use super::client::{ask, get};
use super::fixture::Site;

const BROWSER: (&str, &str) =
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
const TOKEN: &str = "correct-horse-battery-staple";

#[test]
fn browsers_get_the_page_and_programs_the_index() {
    let (site, _) = Site::new();
    let page = ask(site.address(), "GET", "/?open=run1", &[BROWSER]).must(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text().starts_with("<!doctype html>"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert!(page.header("vary").unwrap().contains("Accept"));
    for accepted in ["*/*", "application/json", ""] {
        let index = ask(site.address(), "GET", "/", &[("Accept", accepted)]).must(200);
        assert_eq!(index.json()["bags"], "/v1/bags");
    }
    // A page that names this machine evil.example by DNS does not get even this.
    ask(site.address(), "GET", "/", &[BROWSER, ("Host", "evil.example")]).must(421);
    ask(site.address(), "GET", "/page/main.js", &[("Host", "evil.example")]).must(421);
}

#[test]
fn what_the_page_names_is_there_and_is_known_again() {
    let (site, _) = Site::new();
    let page = ask(site.address(), "GET", "/", &[BROWSER]).must(200).text();
    let named: Vec<&str> = page.split('"').filter(|text| text.starts_with("/page/")).collect();
    assert!(!named.is_empty());
    for name in named {
        let file = get(site.address(), name).must(200);
        let kind = file.header("content-type").unwrap();
        let expected = match name.rsplit('.').next().unwrap() {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{name}: of what type is {other}?"),
        };
        assert_eq!(kind, expected, "{name}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        let tag = file.header("etag").unwrap();
        let again = ask(site.address(), "GET", name, &[("If-None-Match", tag)]).must(304);
        assert_eq!(again.header("etag"), Some(tag));
    }
    for wrong in [
        "/page/",
        "/page/none.js",
        "/page/../page.rs",
        "/page/..%2fpage.rs",
        "/page/%2e%2e%2flib.rs",
        "/page/%00",
        "/page//etc/passwd",
        "/page",
    ] {
        get(site.address(), wrong).must(404);
    }
    get(site.address(), "/page/%ff").must(400);
}

#[test]
fn the_page_needs_no_token_and_gives_no_data() {
    let secrets = Secrets::default().with_token(TOKEN).unwrap();
    let (site, _) = Site::with(ServerOptions { secrets, ..Default::default() });
    ask(site.address(), "GET", "/", &[BROWSER]).must(200);
    ask(site.address(), "HEAD", "/", &[BROWSER]).must(200);
    get(site.address(), "/page/main.js").must(200);
    get(site.address(), "/page/none.js").must(404);
    // Everything else, whatever a browser says that it takes.
    for target in
        ["/v1/bags", "/v1/bags/run1", "/openapi.json", "/page/../v1/bags", "/page/..%2fv1", "/x"]
    {
        let status = ask(site.address(), "GET", target, &[BROWSER]).status;
        let expected = if target.starts_with("/page/") { 404 } else { 401 };
        assert_eq!(status, expected, "{target}");
    }
    get(site.address(), "/").must(401);
    ask(site.address(), "POST", "/", &[BROWSER]).must(401);
    ask(site.address(), "DELETE", "/page/main.js", &[BROWSER]).must(401);
}
