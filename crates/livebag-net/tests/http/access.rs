//! Access control: hosts, origins, tokens, TLS.

use std::net::TcpStream;
use std::sync::Arc;

use livebag::Clock;
use livebag_net::{Catalog, Secrets, ServeError, Server, ServerOptions, TlsFiles};
use rustls::pki_types::{CertificateDer, ServerName};

use super::client::{Client, ask, get};
use super::fixture::{Site, messages};

const TOKEN: &str = "correct-horse-battery-staple";

fn secrets() -> Secrets {
    Secrets::default().with_token(TOKEN).unwrap()
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// One target of every kind.
const TARGETS: [&str; 17] = [
    "/",
    "/openapi.json",
    "/v1/status",
    "/v1/session",
    "/v1/robots",
    "/v1/bags",
    "/v1/bags/run1",
    "/v1/bags/run1/latest",
    "/v1/bags/run1/history",
    "/v1/bags/run1/auto",
    "/v1/bags/run1/message?topic=/text",
    "/v1/bags/run1/timeline",
    "/v1/bags/run1/series?topic=/camera&field=height",
    "/v1/bags/run1/fields?topic=/camera",
    "/v1/bags/run1/events",
    "/bags/run1.mcap",
    "/nowhere",
];

#[test]
fn without_a_token_only_this_machine_is_answered() {
    let (site, _) = Site::new();
    let address = site.address().to_string();
    for target in TARGETS {
        for host in ["localhost", "localhost:8767", "LocalHost", "127.0.0.1", "[::1]:80", &address]
        {
            let status = ask(site.address(), "GET", target, &[("Host", host)]).status;
            assert!(matches!(status, 200 | 404), "{target} {host}: {status}");
        }
        // A page that names this machine evil.example by DNS sends its own name.
        for host in ["[::1].evil:1", "localhost:8767@evil.example", "localhost@evil.example"] {
            ask(site.address(), "GET", target, &[("Host", host)]).must(421);
        }
        ask(site.address(), "POST", target, &[("Host", "evil.example")]).must(421);
        for host in ["evil.example", "evil.example:8767", "localhost.evil.example", "10.1.2.3", ""]
        {
            let refused = ask(site.address(), "GET", target, &[("Host", host)]).must(421);
            refused.error();
        }
        ask(site.address(), "GET", target, &[("Host", "localhost"), ("Host", "evil.example")])
            .must(421);
    }
    let mut client = Client::connect(site.address());
    std::io::Write::write_all(&mut client.stream, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    client.response(false).unwrap().must(421);
}

#[test]
fn no_token_and_wrong_tokens_see_nothing() {
    let (site, _) = Site::with(ServerOptions { secrets: secrets(), ..Default::default() });
    let long = "x".repeat(20_000);
    let cut = &TOKEN[..TOKEN.len() - 1];
    for target in TARGETS {
        for method in ["GET", "HEAD"] {
            let mut refused = ask(site.address(), method, target, &[]);
            for given in [
                bearer(""),
                bearer("wrong"),
                bearer(cut),
                bearer(&format!("{TOKEN}x")),
                bearer(&TOKEN.to_uppercase()),
                bearer(&format!("{TOKEN} {TOKEN}")),
                bearer(&long),
                format!("Basic {TOKEN}"),
                TOKEN.to_owned(),
                format!("Bearer{TOKEN}"),
                "B".to_owned(),
                String::new(),
            ] {
                assert_eq!(refused.status, 401, "{target}");
                assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"livebag\""));
                if method == "GET" {
                    // Nothing tells whether there is something.
                    assert_eq!(refused.error(), "a token is needed: Authorization: Bearer TOKEN");
                }
                refused = ask(site.address(), method, target, &[("Authorization", &given)]);
            }
            assert_eq!(refused.status, 401);
        }
        let right = [("Authorization", &*bearer(TOKEN))];
        let answered = ask(site.address(), "GET", target, &right);
        assert_eq!(answered.status, if target == "/nowhere" { 404 } else { 200 }, "{target}");
        // The right token serves under any name: DNS rebinding does not know it.
        let named = [("Authorization", &*bearer(TOKEN)), ("Host", "robot.example")];
        assert_eq!(ask(site.address(), "GET", target, &named).status, answered.status);
    }
    let scheme = format!("bEaReR   {TOKEN}  ");
    ask(site.address(), "GET", "/v1/bags", &[("Authorization", &scheme)]).must(200);
}

/// What a page's login gives a browser opens files to pages of this server, and nothing else to anybody.
#[test]
fn a_cookie_opens_files_to_own_pages_only() {
    let (site, known) = Site::with(ServerOptions { secrets: secrets(), ..Default::default() });
    let right = [("Authorization", &*bearer(TOKEN)), ("Host", "localhost:1234")];
    let given = ask(site.address(), "GET", "/v1/session", &right).must(200);
    assert_eq!(given.json(), serde_json::json!({ "cookie": true }));
    let cookie = given.header("set-cookie").unwrap();
    let (pair, rest) = cookie.split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Strict");
    assert!(pair.starts_with("livebag-1234=") && !pair.contains(TOKEN));
    let asks = |target: &str, host: &str, cookie: &str, site_of: Option<&str>| {
        let mut headers = vec![("Host", host), ("Cookie", cookie)];
        headers.extend(site_of.map(|site| ("Sec-Fetch-Site", site)));
        ask(site.address(), "GET", target, &headers)
    };
    let own = Some("same-origin");
    let file = asks("/bags/run1.mcap", "localhost:1234", pair, own).must(200);
    assert_eq!(messages(&file.body).len(), known.len());
    asks("/bags/run1.mcap", "localhost:1234", &format!("a=b; {pair}"), Some("none")).must(200);
    for (host, cookie, site_of) in [
        ("localhost:1234", pair, None),
        ("localhost:1234", pair, Some("same-site")),
        ("localhost:1234", pair, Some("cross-site")),
        ("localhost:1235", pair, own),
        ("localhost:1234", &pair[..pair.len() - 1], own),
        ("localhost:1234", &*format!("livebag-1234={TOKEN}"), own),
        ("localhost:1234", "livebag-1234=", own),
        ("localhost:1234", "", own),
    ] {
        asks("/bags/run1.mcap", host, cookie, site_of).must(401);
    }
    for target in TARGETS.iter().filter(|target| **target != "/bags/run1.mcap") {
        asks(target, "localhost:1234", pair, own).must(401);
    }
    // A wrong token is not mended by it.
    let both = format!("/bags/run1.mcap?access_token={TOKEN}x");
    asks(&both, "localhost:1234", pair, own).must(401);
    // Another server, another cookie; and without a token none.
    let (other, _) = Site::with(ServerOptions { secrets: secrets(), ..Default::default() });
    let headers = [("Host", "localhost:1234"), ("Cookie", pair), ("Sec-Fetch-Site", "same-origin")];
    ask(other.address(), "GET", "/bags/run1.mcap", &headers).must(401);
    let (open, _) = Site::new();
    let none = get(open.address(), "/v1/session").must(200);
    assert_eq!((none.header("set-cookie"), none.json()["cookie"].as_bool()), (None, Some(false)));
}

#[test]
fn the_address_carries_a_token_for_files_only() {
    let (site, known) = Site::with(ServerOptions { secrets: secrets(), ..Default::default() });
    let file = get(site.address(), &format!("/bags/run1.mcap?access_token={TOKEN}")).must(200);
    assert_eq!(messages(&file.body).len(), known.len());
    let target = format!("/bags/run1.mcap?topic=/text&access_token={TOKEN}");
    ask(site.address(), "HEAD", &target, &[]).must(200);
    for target in TARGETS.iter().filter(|target| **target != "/bags/run1.mcap") {
        let joint = if target.contains('?') { '&' } else { '?' };
        get(site.address(), &format!("{target}{joint}access_token={TOKEN}")).must(401);
    }
    for wrong in ["", "wrong", "%00", &TOKEN[1..]] {
        get(site.address(), &format!("/bags/run1.mcap?access_token={wrong}")).must(401);
    }
    let twice = format!("/bags/run1.mcap?access_token={TOKEN}&access_token={TOKEN}");
    get(site.address(), &twice).must(401);
    // A wrong header is not made good by the address.
    let target = format!("/bags/run1.mcap?access_token={TOKEN}");
    ask(site.address(), "GET", &target, &[("Authorization", "Bearer wrong")]).must(401);
    // What only looks like a file's address.
    for target in ["/v1/bags/run1/latest/x.mcap", "/bags/../v1/bags?x=.mcap", "/v1/bags.mcap"] {
        let joint = if target.contains('?') { '&' } else { '?' };
        get(site.address(), &format!("{target}{joint}access_token={TOKEN}")).must(401);
    }
}

#[test]
fn web_pages_of_allowed_origins_may_ask() {
    let secrets = Secrets::default().with_origins(&["https://viewer.example".into()]);
    let (site, _) = Site::with(ServerOptions { secrets, ..Default::default() });
    for origin in ["https://app.foxglove.dev", "https://viewer.example", "http://localhost:8080"] {
        let answer = ask(site.address(), "GET", "/v1/bags", &[("Origin", origin)]).must(200);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert!(answer.header("vary").unwrap().contains("Origin"));
        let exposed = answer.header("access-control-expose-headers").unwrap();
        assert!(["Content-Range", "ETag", "Accept-Ranges"].iter().all(|h| exposed.contains(h)));
        // Refusals are readable too, or the page could not show the error.
        let refused = ask(site.address(), "GET", "/nowhere", &[("Origin", origin)]).must(404);
        assert_eq!(refused.header("access-control-allow-origin"), Some(origin));

        let asked = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "GET"),
            ("Access-Control-Request-Headers", "authorization, range"),
        ];
        let preflight = ask(site.address(), "OPTIONS", "/bags/run1.mcap", &asked).must(204);
        assert_eq!(preflight.header("access-control-allow-origin"), Some(origin));
        assert_eq!(preflight.header("access-control-allow-methods"), Some("GET, HEAD"));
        let allowed = preflight.header("access-control-allow-headers").unwrap();
        assert!(["Authorization", "Range"].iter().all(|header| allowed.contains(header)));
    }
    for origin in ["https://evil.example", "null", "https://viewer.example.evil.example", "x"] {
        for method in ["GET", "OPTIONS"] {
            let answer = ask(site.address(), method, "/v1/bags", &[("Origin", origin)]);
            assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control")));
        }
    }
    // No page may load an answer as a picture or a script without permission, which would reveal sizes.
    let answer = get(site.address(), "/v1/bags/run1/message?topic=/camera&format=png").must(200);
    assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-site"));
}

#[test]
fn a_preflight_needs_no_token_and_gives_nothing() {
    let (site, _) = Site::with(ServerOptions { secrets: secrets(), ..Default::default() });
    let origin = ("Origin", "https://app.foxglove.dev");
    let asks = ("Access-Control-Request-Method", "GET");
    for target in TARGETS {
        let preflight = ask(site.address(), "OPTIONS", target, &[origin, asks]).must(204);
        assert!(preflight.body.is_empty());
        // What no browser sends for a page that may ask is no preflight.
        for headers in [&[][..], &[origin], &[asks], &[("Origin", "https://evil.example"), asks]] {
            ask(site.address(), "OPTIONS", target, headers).must(401);
        }
        for method in ["POST", "PUT", "DELETE", "TRACE", "NONSENSE"] {
            ask(site.address(), method, target, &[]).must(401);
            let with_token = [("Authorization", &*bearer(TOKEN))];
            ask(site.address(), method, target, &with_token).must(405);
        }
    }
    let refused = ask(site.address(), "GET", "/v1/bags", &[origin]).must(401);
    assert_eq!(refused.header("access-control-allow-origin"), Some(origin.1));
}

fn start(options: ServerOptions) -> Result<Server, ServeError> {
    let folder = tempfile::tempdir().unwrap();
    let roots = [folder.path().to_owned()];
    Server::start(Arc::new(Catalog::new(&roots, Clock::system(), None).unwrap()), options)
}

#[test]
fn other_machines_are_served_only_with_tls_and_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let tls = Some(certificate(folder.path()).0);
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.7:0", "[::ffff:127.0.0.1]:0", "169.254.1.1:0"] {
        let listen = vec!["127.0.0.1:0".parse().unwrap(), listen.parse().unwrap()];
        let none = || ServerOptions { listen: listen.clone(), ..Default::default() };
        let with_tls = ServerOptions { tls: tls.clone(), ..none() };
        let with_token = ServerOptions { secrets: secrets(), ..none() };
        for (options, expected) in [
            (none(), vec!["--tls-cert", "--tls-key", "--token-file"]),
            (with_tls, vec!["--token-file"]),
            (with_token, vec!["--tls-cert", "--tls-key"]),
        ] {
            let Err(ServeError::Open { missing, .. }) = start(options) else {
                panic!("{listen:?} is served");
            };
            assert_eq!(missing, expected);
        }
    }
    // With both the address is listened at. No one else is asked to connect to it.
    let listen = vec!["0.0.0.0:0".parse().unwrap()];
    let options = ServerOptions { listen, tls, secrets: secrets(), ..Default::default() };
    assert!(start(options).unwrap().urls()[0].starts_with("https://0.0.0.0:"));
}

/// A certificate for `localhost`, in files and as a client trusts it.
fn certificate(folder: &std::path::Path) -> (TlsFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.der().clone())
}

#[test]
fn everything_goes_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (files, trusted) = certificate(folder.path());
    let options = ServerOptions { tls: Some(files), secrets: secrets(), ..Default::default() };
    let (site, known) = Site::with(options);
    assert!(site.server.urls()[0].starts_with("https://127.0.0.1:"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let connect = || {
        let name = ServerName::try_from("localhost").unwrap();
        let session = rustls::ClientConnection::new(config.clone(), name).unwrap();
        let socket = TcpStream::connect(site.address()).unwrap();
        Client::over(rustls::StreamOwned::new(session, socket))
    };
    let right = [("Authorization", &*bearer(TOKEN))];
    let mut client = connect();
    for _ in 0..3 {
        let answer = client.ask("GET", "/v1/bags/run1/history", &right).must(200);
        assert_eq!(messages(&answer.body), known);
        client.ask("GET", "/v1/bags", &[]).must(401);
        let part = [right[0], ("Range", "bytes=0-7")];
        assert_eq!(client.ask("GET", "/bags/run1.mcap", &part).must(206).body.len(), 8);
    }
    // A client that speaks HTTP there, or nonsense, gets no answer; the others still do.
    let mut plain = Client::connect(site.address());
    plain.send("GET", "/v1/bags", &right);
    assert!(plain.response(false).is_err());
    connect().ask("GET", "/v1/bags", &right).must(200);
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = certificate(folder.path());
    let (other, _) = {
        let inner = folder.path().join("other");
        std::fs::create_dir(&inner).unwrap();
        certificate(&inner)
    };
    let garbage = folder.path().join("garbage.pem");
    std::fs::write(&garbage, "no certificate").unwrap();
    let of = |certificate: &std::path::Path, key: &std::path::Path| {
        let tls = Some(TlsFiles { certificate: certificate.into(), key: key.into() });
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        start(ServerOptions { listen, tls, ..Default::default() })
    };
    for (certificate, key) in [
        (&garbage, &files.key),
        (&files.certificate, &garbage),
        (&files.certificate, &files.certificate),
        (&files.certificate, &folder.path().join("none.pem")),
        (&files.certificate, &other.key),
    ] {
        let Err(error @ ServeError::Tls { .. }) = of(certificate, key) else {
            panic!("{certificate:?} and {key:?} are taken");
        };
        assert!(error.to_string().contains(".pem"), "{error}");
    }
    of(&files.certificate, &files.key).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = vec![taken.local_addr().unwrap()];
    let Err(error) = start(ServerOptions { listen, ..Default::default() }) else { panic!() };
    assert!(error.to_string().contains("--listen"), "{error}");
}
