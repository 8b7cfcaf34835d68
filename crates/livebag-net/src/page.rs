//! The page that browsers are shown: files of this crate's folder `src/page`, embedded as they are.
//!
//! They hold no data, so a browser gets them without the token: the page asks for it, and sends it with every question.

use std::hash::Hasher;

/// A file of the page.
pub struct PageFile {
    /// Its name in `/page/NAME`.
    pub name: &'static str,
    /// MIME type.
    pub content_type: &'static str,
    /// Its contents.
    pub bytes: &'static [u8],
}

/// The page's permissions in a browser: load everything from this server and nothing from elsewhere, run no inline
/// scripts, and appear in no frame of another site.
pub const POLICY: &str = "default-src 'self'; object-src 'none'; base-uri 'none'; \
                          form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const DRAWING: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal: $content_type:expr),* $(,)?) => {
        &[$(PageFile {
            name: $name,
            content_type: $content_type,
            bytes: include_bytes!(concat!("page/", $name)),
        }),*]
    };
}

/// All of them. The first is the page itself, at `/`.
pub const FILES: &[PageFile] = files![
    "index.html": HTML,
    "address.js": SCRIPT,
    "api.js": SCRIPT,
    "axis.js": SCRIPT,
    "buttons.js": SCRIPT,
    "choice.js": SCRIPT,
    "colours.js": SCRIPT,
    "density.js": SCRIPT,
    "dom.js": SCRIPT,
    "elsewhere.js": SCRIPT,
    "format.js": SCRIPT,
    "gestures.js": SCRIPT,
    "health.js": SCRIPT,
    "hover.js": SCRIPT,
    "icon.svg": DRAWING,
    "keys.js": SCRIPT,
    "kinds.js": SCRIPT,
    "lanes.js": SCRIPT,
    "list.js": SCRIPT,
    "loader.js": SCRIPT,
    "login.js": SCRIPT,
    "main.js": SCRIPT,
    "marks.js": SCRIPT,
    "menu.js": SCRIPT,
    "panel_image.js": SCRIPT,
    "panel_log.js": SCRIPT,
    "panel_message.js": SCRIPT,
    "panel_plot.js": SCRIPT,
    "panel_points.js": SCRIPT,
    "panel_time.js": SCRIPT,
    "panels.js": SCRIPT,
    "player.js": SCRIPT,
    "points_gl.js": SCRIPT,
    "range.js": SCRIPT,
    "recording.js": SCRIPT,
    "ruler.js": SCRIPT,
    "session.js": SCRIPT,
    "style.css": STYLE,
    "types.js": SCRIPT,
];

/// The file of that name.
pub fn file(name: &str) -> Option<&'static PageFile> {
    FILES.iter().find(|file| file.name == name)
}

impl PageFile {
    /// Distinguishes it from its other versions (`ETag`).
    pub fn tag(&self) -> String {
        // Its keys are always the same.
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(self.bytes);
        format!("\"{:016x}\"", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all files together, uncompressed.
    const BYTES_MAX: usize = 300_000;

    #[test]
    fn every_file_of_the_folder_is_served_and_all_are_small() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page");
        let mut there: Vec<String> = folder
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "jsconfig.json" && !name.ends_with(".d.ts"))
            .collect();
        there.sort();
        let mut served: Vec<&str> = FILES.iter().map(|file| file.name).collect();
        served.sort_unstable();
        assert_eq!(served, there);
        assert!(FILES.iter().map(|file| file.bytes.len()).sum::<usize>() < BYTES_MAX);
        assert_eq!(FILES[0].name, "index.html");
    }
}
