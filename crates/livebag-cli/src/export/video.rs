//! Videos of images that have been written, by `ffmpeg`.

use std::io::Write;
use std::process::{Command, Stdio};

use super::create;
use super::images::Folder;
use crate::outcome::CliError;

/// How long the last image is shown.
const LAST_NANOS: u64 = 100_000_000;

/// H.264 with yuv420p, which every player takes, needs even sides.
pub const EVEN: &str = "pad=ceil(iw/2)*2:ceil(ih/2)*2";

/// # Errors
/// If there is no ffmpeg: `what` needs it, or the user does `instead`.
pub fn check(what: &str, instead: &str) -> Result<(), CliError> {
    let mut command = Command::new("ffmpeg");
    command.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(CliError::failed(format!(
            "{what} needs ffmpeg, which is not here: install it (apt install ffmpeg), or {instead}"
        ))),
    }
}

/// Makes a video of a folder of images, beside it; returns its name.
pub fn make(folder: &Folder) -> Result<String, CliError> {
    let list = folder.path().join("images.ffconcat");
    let failed = |source| CliError::file("writing", &list, source);
    let mut out = create(&list)?;
    let mut text = "ffconcat version 1.0\n".to_owned();
    let next = folder.files().iter().skip(1).map(|(_, time)| Some(*time)).chain([None]);
    for ((name, time), next) in folder.files().iter().zip(next) {
        let nanos = next.map_or(LAST_NANOS, |next| next.saturating_sub(*time));
        text.push_str(&format!("file {name}\nduration {:.9}\n", nanos as f64 / 1e9));
    }
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
    let mut video = folder.path().as_os_str().to_owned();
    video.push(".mp4");
    let video = std::path::PathBuf::from(video);
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-n"]);
    command.args(["-f", "concat", "-safe", "0", "-i"]).arg(&list);
    command.args(["-vf", EVEN, "-fps_mode", "vfr"]);
    command.args(["-pix_fmt", "yuv420p"]).arg(&video).stdin(Stdio::null());
    let run = command.output().map_err(|error| CliError::failed(format!("ffmpeg: {error}")))?;
    if !run.status.success() {
        return Err(CliError::failed(format!(
            "ffmpeg made no video of {}: {}",
            folder.path().display(),
            last_line(&run.stderr)
        )));
    }
    #[expect(clippy::disallowed_methods, reason = "a list that this command has made")]
    std::fs::remove_file(&list).map_err(|source| CliError::file("removing", &list, source))?;
    Ok(video.display().to_string())
}

/// The last of what ffmpeg has said.
pub fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    said.lines().last().unwrap_or("it said nothing").to_owned()
}
