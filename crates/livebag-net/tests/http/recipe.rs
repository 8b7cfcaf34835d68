//! The certificate made as docs/security.md explains.

use std::process::Command;

use livebag_net::remote::{RemoteOptions, RemoteRecording};
use livebag_net::{Secrets, ServerOptions, TlsFiles};

use super::fixture::Site;

const PAGE: &str = include_str!("../../../../docs/security.md");

/// The commands of the page's recipe, for this machine instead of a robot.
fn recipe() -> String {
    let (_, recipe) = PAGE.split_once("## How to make a certificate and a token").unwrap();
    let (_, recipe) = recipe.split_once("```sh\n").unwrap();
    let (recipe, _) = recipe.split_once("livebag serve").unwrap();
    recipe.replace("robot1.local", "localhost").replace("192.168.1.20", "127.0.0.1")
}

#[test]
fn the_documented_certificate_is_taken_by_livebag_s_own_client() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("sh").arg("-ec").arg(recipe()).current_dir(folder.path()).output();
    let made = made.expect("openssl and sh are installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = |name: &str| folder.path().join(name);
    let token = std::fs::read_to_string(file("token")).unwrap();
    let (site, _) = Site::with(ServerOptions {
        tls: Some(TlsFiles { certificate: file("cert.pem"), key: file("key.pem") }),
        secrets: Secrets::default().with_token(&token).unwrap(),
        ..Default::default()
    });
    let port = site.address().port();
    for host in ["localhost", "127.0.0.1"] {
        let options = RemoteOptions {
            token: Some(token.trim().to_owned()),
            ca_certificates: Some(file("cert.pem")),
        };
        let container =
            RemoteRecording::open(&format!("https://{host}:{port}/run1"), options).unwrap();
        assert_eq!(container.info().unwrap().row.message_count, 100);
    }
    // Other certificates are not trusted.
    let options = RemoteOptions { token: Some(token.trim().to_owned()), ca_certificates: None };
    let container = RemoteRecording::open(&format!("https://localhost:{port}/run1"), options);
    assert!(container.and_then(|container| container.info()).is_err());
}
