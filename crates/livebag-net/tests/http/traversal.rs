//! Nothing outside the given containers can be read, whatever is asked.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use super::client::{Client, Response, get};
use super::fixture::{Site, record_all};

/// In every file that must stay unread.
const SECRET: &str = "tOpSeCrEt";

/// A server of `served/`; beside it are a recording and a file that must not be visible.
fn site() -> (Site, tempfile::TempDir) {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.txt"), SECRET).unwrap();
    std::fs::write(outside.path().join("secret.mcap"), SECRET).unwrap();
    record_all(&outside.path().join(SECRET), 10);
    let (site, _) = Site::new();
    (site, outside)
}

/// Ways out of a folder, as they have been tried since there are servers.
fn ways(outside: &Path) -> Vec<String> {
    let path = outside.join(SECRET).to_str().unwrap().to_owned();
    let file = outside.join("secret.txt").to_str().unwrap().to_owned();
    let escaped: String = path.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut ways: Vec<String> = [
        "..",
        "../",
        ".",
        "./run1",
        "%2e",
        "%2e%2e",
        "%2e%2e%2f",
        "..%2f",
        "%2e%2e/",
        "..%5c",
        "..\\",
        "%252e%252e%252f",
        "..%c0%af",
        "%c0%ae%c0%ae%c0%af",
        "..%ef%bc%8f",
        "....//",
        "..;/",
        "run1/..",
        "run1%2f..",
        "run1%2f..%2f..",
        "run1%00",
        "run1%00.mcap",
        "%00",
        "run1%0d%0a",
        "run1%20",
        "run1.",
        "run1%2f",
        "~",
        "~root",
        "$HOME",
        "file:%2f%2f%2f",
        "CON",
        "run1::$DATA",
        "run1%2fcontainer.yaml",
        "run1%2ftext.mcap",
        "*",
        "run%3f",
        "%2a",
    ]
    .map(str::to_owned)
    .into();
    for depth in 1..8 {
        for step in ["../", "..%2f", "%2e%2e%2f", "%2e%2e/", "..%252f", "..%5c"] {
            let up = step.repeat(depth);
            ways.push(format!("{up}etc/passwd"));
            ways.push(format!("{up}etc%2fpasswd"));
            ways.push(format!("{up}{}", path.trim_start_matches('/').replace('/', "%2f")));
            ways.push(format!("run1%2f{up}{}", file.trim_start_matches('/')));
        }
    }
    ways.extend([path.clone(), path.replace('/', "%2f"), escaped, file.replace('/', "%2f")]);
    ways.push(format!("%2f{path}"));
    ways
}

fn must_be_innocent(target: &str, response: &Response) {
    let allowed = [200, 206, 400, 404, 414, 416, 422];
    assert!(allowed.contains(&response.status), "{target}: {}", response.status);
    let is_there =
        |word: &str| response.body.windows(word.len()).any(|part| part == word.as_bytes());
    assert!(!is_there("root:x:"), "{target} reads /etc/passwd");
    // A refusal may repeat the request.
    assert!(response.status != 200 || !is_there(SECRET), "{target} reads what lies outside");
}

#[test]
fn no_parameter_leads_out() {
    let (site, outside) = site();
    let mut client = Client::connect(site.address());
    for way in ways(outside.path()) {
        let mut targets =
            vec![format!("/{way}"), format!("/v1/{way}"), format!("/v1/bags/run1/{way}")];
        for end in ["", "/latest", "/history", "/auto", "/message?topic=/text"] {
            targets.push(format!("/v1/bags/{way}{end}"));
        }
        targets.extend([
            format!("/bags/{way}"),
            format!("/bags/{way}.mcap"),
            format!("/bags/run1.mcap/{way}"),
        ]);
        let query = way.replace('#', "%23");
        for (of, names) in [
            ("/v1/bags/run1/latest", &["topic", "last", "format", "decode", "array_items"][..]),
            ("/v1/bags/run1/history", &["from", "to", "topic"]),
            ("/v1/bags/run1/auto", &["within", "last", "decimate", "topic"]),
            ("/v1/bags/run1/message", &["topic", "at", "format"]),
            ("/bags/run1.mcap", &["topic", "from", "to", "access_token", "path", "file"]),
        ] {
            targets.extend(names.iter().map(|name| format!("{of}?{name}={query}")));
        }
        for target in targets {
            let target = target.replace(' ', "%20");
            must_be_innocent(&target, &client.ask("GET", &target, &[]));
        }
    }
    get(site.address(), "/v1/bags/run1/latest").must(200);
}

#[test]
fn absolute_addresses_and_odd_ones_lead_nowhere() {
    let (site, outside) = site();
    let path = outside.path().join("secret.txt");
    for target in [
        format!("file://{}", path.display()),
        format!("http://localhost{}", path.display()),
        "http://localhost/../../etc/passwd".into(),
        "//etc/passwd".into(),
        "/v1//bags".into(),
        "/v1/./bags".into(),
        "/bags//etc/passwd.mcap".into(),
        "*".into(),
    ] {
        let mut client = Client::connect(site.address());
        client.send("GET", &target, &[]);
        if let Ok(response) = client.response(false) {
            assert!(matches!(response.status, 400 | 404 | 421), "{target}: {}", response.status);
            must_be_innocent(&target, &response);
        }
    }
}

fn listed(site: &Site) -> Vec<String> {
    let bags = get(site.address(), "/v1/bags").must(200).json();
    let name = |container: &Value| container["name"].as_str().unwrap().to_owned();
    bags.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn links_to_folders_outside_are_not_followed() {
    let (site, outside) = site();
    let root = site.folder.path();
    symlink(outside.path(), root.join("outside")).unwrap();
    symlink(outside.path().join(SECRET), root.join("run2")).unwrap();
    // A folder that only looks like a container: everything in it is foreign.
    std::fs::create_dir(root.join("run3")).unwrap();
    for entry in outside.path().join(SECRET).read_dir().unwrap() {
        let path = entry.unwrap().path();
        symlink(&path, root.join("run3").join(path.file_name().unwrap())).unwrap();
    }
    site.later();
    assert_eq!(listed(&site), ["run1"]);
    for name in ["outside", "run2", "run3"] {
        get(site.address(), &format!("/v1/bags/{name}/latest")).must(404);
    }
}

/// Every way to read messages of a recording.
const READS: [&str; 5] = [
    "/v1/bags/run2/history",
    "/v1/bags/run2/auto",
    "/v1/bags/run2/history?decode=true",
    "/v1/bags/run2/message?topic=/text",
    "/bags/run2.mcap",
];

/// Changes `container.yaml`, as by hand: without a checksum.
fn change_manifest(container: &Path, change: impl FnOnce(&mut Value)) {
    let file = container.join("container.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut manifest = serde_json::from_str(&text[..text.find("# crc32c").unwrap()]).unwrap();
    change(&mut manifest);
    std::fs::write(&file, manifest.to_string()).unwrap();
}

#[test]
fn links_inside_a_container_are_not_followed() {
    // The manifest, an index, a brick, or a split is a link to one outside.
    for linked in ["container.yaml", "text.mcap", "text.idx", "split"] {
        let (site, outside) = site();
        let (inside, foreign) = (site.folder.path().join("run2"), outside.path().join(SECRET));
        let recorded = tempfile::tempdir().unwrap();
        record_all(&recorded.path().join("run2"), 10);
        std::fs::rename(recorded.path().join("run2"), &inside).unwrap();
        if linked == "split" {
            symlink(&foreign, inside.join("split_2")).unwrap();
            change_manifest(&inside, |manifest| manifest["splits"] = json!(["split_2"]));
        } else {
            let files: Vec<_> =
                inside.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
            let suffix = linked.trim_start_matches("text");
            let file = files.iter().find(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name == linked || name.starts_with("text") && name.ends_with(suffix)
            });
            let file = file.unwrap_or_else(|| panic!("no {linked} in {files:?}"));
            std::fs::remove_file(file).unwrap();
            symlink(foreign.join(file.file_name().unwrap()), file).unwrap();
        }
        site.later();
        for target in READS {
            let refused = get(site.address(), target);
            assert!(matches!(refused.status, 404 | 500), "{linked} {target}: {}", refused.status);
        }
        get(site.address(), "/v1/bags/run1/latest").must(200);
    }
}

#[test]
fn a_container_that_becomes_a_link_is_not_followed() {
    let (site, outside) = site();
    get(site.address(), "/v1/bags/run1/latest").must(200);
    get(site.address(), "/bags/run1.mcap").must(200);
    let path = site.folder.path().join("run1");
    std::fs::remove_dir_all(&path).unwrap();
    symlink(outside.path().join(SECRET), &path).unwrap();
    for _ in 0..2 {
        for target in READS {
            let status = get(site.address(), &target.replace("run2", "run1")).status;
            assert!(matches!(status, 404 | 500), "{target}: {status}");
        }
        site.later();
        assert_eq!(listed(&site), [""; 0]);
    }
}

#[test]
fn manifests_that_name_files_elsewhere_are_refused() {
    for (key, value) in [
        ("index", "../secret.txt"),
        ("index", "/etc/passwd"),
        ("bricks", "../../secret.mcap"),
        ("bricks", ".."),
        ("bricks", "a/b"),
        ("splits", "../run1"),
        ("splits", "/etc"),
        ("splits", ".."),
    ] {
        let (site, _outside) = site();
        let folder = site.folder.path().join("run2");
        record_all(&folder, 10);
        change_manifest(&folder, |manifest| match key {
            "splits" => manifest["splits"] = json!([value]),
            "index" => manifest["topics"][0]["index"] = json!(value),
            _ => manifest["topics"][0]["bricks"][0] = json!(value),
        });
        site.later();
        for target in READS {
            let error = get(site.address(), target).must(500).error();
            assert!(error.contains("container.yaml"), "{key}: {value}: {error}");
        }
    }
}

#[test]
fn links_are_refused_where_openat2_is_missing_too() {
    const VARIABLE: &str = "LIVEBAG_OPENAT2";
    if std::env::var(VARIABLE).is_ok() {
        return;
    }
    // Those above once more, in a process where it is ruled out.
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = again.args(["not_followed", "--test-threads", "1"]).env(VARIABLE, "off").output();
    let ended = ended.unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success() && said.contains("3 passed"), "{said}");
}
