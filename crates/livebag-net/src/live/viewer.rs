//! The files of a viewer that the user brings, for example a build of Lichtblick.

use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use livebag::{KernelDisk, ReadDisk};

use crate::limits::VIEWER_FILE_BYTES_MAX;

/// A folder with a viewer's files.
#[derive(Clone, Debug)]
pub struct Viewer {
    folder: PathBuf,
}

/// A file of a viewer.
pub struct ViewerFile {
    /// Its media type.
    pub media_type: &'static str,
    /// All of it.
    pub bytes: Bytes,
}

impl Viewer {
    /// The viewer in `folder`.
    ///
    /// # Errors
    /// If it has no `index.html`; with an error text.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let folder =
            folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        if !folder.join("index.html").is_file() {
            return Err(format!(
                "{} has no index.html: --viewer takes the folder of a viewer's static build",
                folder.display()
            ));
        }
        Ok(Self { folder })
    }

    /// The file at `path` in the viewer's address; `None` if there is none. Neither `..` nor a link leads out of
    /// the folder.
    pub fn file(&self, path: &str) -> Option<ViewerFile> {
        let path = if path.is_empty() { "index.html" } else { path };
        let parts = Path::new(path).components();
        let is_inside = parts.clone().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || path.contains('\0') {
            return None;
        }
        // Opened as recordings are: no symbolic link is followed on the way.
        let disk = KernelDisk::for_serving();
        let file = disk.open(&self.folder.join(path)).ok()?;
        let length = file.length().ok().filter(|length| *length <= VIEWER_FILE_BYTES_MAX)?;
        let mut bytes = vec![0; length as usize];
        let count = file.read_at(&mut bytes, 0).ok()?;
        bytes.truncate(count);
        Some(ViewerFile { media_type: media_type(path), bytes: bytes.into() })
    }
}

/// The media type of a file name. Browsers must not guess the type.
fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" | "webmanifest" => "application/json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "glb" => "model/gltf-binary",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make files as users do")]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_folder_are_given_and_no_others() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        let folder = outer.path().join("viewer");
        std::fs::create_dir_all(folder.join("a")).unwrap();
        assert!(Viewer::open(&folder).unwrap_err().contains("index.html"));
        std::fs::write(folder.join("index.html"), "<p>").unwrap();
        std::fs::write(folder.join("a/b.js"), "1").unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        std::os::unix::fs::symlink("..", folder.join("up")).unwrap();
        let viewer = Viewer::open(&folder).unwrap();
        assert_eq!(viewer.file("").unwrap().media_type, "text/html; charset=utf-8");
        let script = viewer.file("a/b.js").unwrap();
        assert_eq!(
            (script.media_type, &*script.bytes),
            ("text/javascript; charset=utf-8", &b"1"[..])
        );
        let outside =
            ["../secret", "/etc/passwd", "link", "up/secret", "a", "a/../index.html", "x", "a\0b"];
        for path in outside {
            assert!(viewer.file(path).is_none(), "{path}");
        }
    }
}
