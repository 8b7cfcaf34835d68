//! Videos of image topics: pictures go through a pipe to ffmpeg, one process for each camera.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;

use super::colours::Colours;
use super::picture::{Form, Picture};
use super::tables::{FILES_PER_CHUNK, make_folders};
use crate::export::video::{EVEN, last_line};
use crate::outcome::CliError;

/// A file to which no further episode is added. LeRobot keeps times in files as float32 and finds frames to 0.1 ms:
/// after 1,000 s that is not exact enough.
const FILE_BYTES: u64 = 200 << 20;
pub const FILE_SECONDS: u64 = 1000;
/// Colours are counted in pictures of about so many rows or columns, as LeRobot does.
const SAMPLE_SIDE: u32 = 150;
/// Characters of ffmpeg's complaints that are read.
const COMPLAINT_BYTES: u64 = 1 << 16;

/// Where an episode is in a camera's videos.
pub struct Span {
    /// Counted through all chunks.
    pub file: u64,
    pub from_frame: u64,
    pub length: u64,
}

/// The videos of one image topic.
pub struct Camera {
    pub key: String,
    directory: PathBuf,
    fps: u64,
    /// Of the first picture.
    form: Option<Form>,
    /// An episode's first picture, until there is a second.
    first: Option<Rc<Picture>>,
    open: Option<Encoder>,
    file: u64,
    /// Frames in the open file.
    frames: u64,
    /// Of each episode.
    pub spans: Vec<Span>,
    /// Of each episode in a finished file.
    pub colours: Vec<Colours>,
}

impl Camera {
    pub fn new(dataset: &Path, key: &str, fps: u64) -> Self {
        Self {
            key: key.to_owned(),
            directory: dataset.join("videos").join(key),
            fps,
            form: None,
            first: None,
            open: None,
            file: 0,
            frames: 0,
            spans: Vec::new(),
            colours: Vec::new(),
        }
    }

    /// Refuses a picture that cannot follow those before.
    pub fn check(&mut self, picture: &Picture) -> Result<(), String> {
        let form = picture.form;
        let known = *self.form.get_or_insert(form);
        let say = |form: Form| {
            let format = match form.format {
                "mjpeg" => "JPEG",
                "png" => "PNG",
                pixels => pixels,
            };
            format!("{} x {} ({format})", form.columns, form.rows)
        };
        match known == form {
            true => Ok(()),
            false => Err(format!("it is {}, the first image {}", say(form), say(known))),
        }
    }

    /// Columns and rows of the video: even, as H.264 needs them.
    pub fn size(&self) -> (u32, u32) {
        let even = |form: Form| (form.columns.next_multiple_of(2), form.rows.next_multiple_of(2));
        self.form.map_or((0, 0), even)
    }

    /// Adds an episode's next frame.
    pub fn add(&mut self, frame: u64, picture: &Rc<Picture>) -> Result<(), CliError> {
        if frame == 0 {
            self.first = Some(picture.clone());
            return Ok(());
        }
        if let Some(first) = self.first.take() {
            self.write(&first)?;
        }
        self.write(picture)
    }

    fn write(&mut self, picture: &Picture) -> Result<(), CliError> {
        let encoder = match &mut self.open {
            Some(encoder) => encoder,
            None => {
                let path = self.path(self.file);
                let folder = path.parent().unwrap_or(&self.directory);
                make_folders(folder)?;
                self.open.insert(Encoder::start(path, picture.form, self.fps)?)
            }
        };
        self.frames += 1;
        encoder.write(&picture.bytes)
    }

    /// Forgets an episode of one frame.
    pub fn forget(&mut self) {
        self.first = None;
    }

    /// Ends an episode.
    pub fn end_episode(&mut self, length: u64) -> Result<(), CliError> {
        let from_frame = self.frames - length;
        self.spans.push(Span { file: self.file, from_frame, length });
        let path = self.path(self.file);
        let metadata = std::fs::metadata(&path);
        let bytes = match metadata {
            Ok(metadata) => metadata.len(),
            // Not begun yet: ffmpeg has a frame or two.
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(CliError::file("reading", &path, error)),
        };
        match bytes >= FILE_BYTES || self.frames >= FILE_SECONDS * self.fps {
            true => self.finish(),
            false => Ok(()),
        }
    }

    /// Completes the open file, and counts its colours.
    pub fn finish(&mut self) -> Result<(), CliError> {
        let Some(encoder) = self.open.take() else { return Ok(()) };
        encoder.finish()?;
        let path = self.path(self.file);
        let lengths = self.spans[self.colours.len()..].iter().map(|span| span.length);
        let colours = count_colours(&path, self.size(), &lengths.collect::<Vec<_>>())?;
        self.colours.extend(colours);
        self.file += 1;
        self.frames = 0;
        Ok(())
    }

    fn path(&self, file: u64) -> PathBuf {
        let (chunk, file) = (file / FILES_PER_CHUNK, file % FILES_PER_CHUNK);
        self.directory.join(format!("chunk-{chunk:03}/file-{file:03}.mp4"))
    }
}

/// An ffmpeg that makes one file.
struct Encoder {
    child: Child,
    /// Closed to end the file.
    input: Option<ChildStdin>,
    path: PathBuf,
    log: PathBuf,
}

impl Encoder {
    fn start(path: PathBuf, form: Form, fps: u64) -> Result<Self, CliError> {
        let log = path.with_extension("log");
        let complaints = crate::export::create(&log)?.into_inner();
        let complaints = complaints.map_err(|error| CliError::failed(error.to_string()))?;
        let mut command = Command::new("ffmpeg");
        command.args(["-hide_banner", "-loglevel", "error", "-n"]);
        let (format, fps) = (form.format, fps.to_string());
        let size = format!("{}x{}", form.columns, form.rows);
        match form.is_raw() {
            true => command.args(["-f", "rawvideo", "-pix_fmt", format, "-video_size", &size]),
            false => command.args(["-f", "image2pipe", "-c:v", format]),
        };
        command.args(["-framerate", &fps]);
        // A key frame every other one, as in LeRobot's own videos: training reads frames in any order.
        command.args(["-i", "pipe:0", "-vf", EVEN, "-c:v", "libx264", "-g", "2", "-bf", "0"]);
        command.args(["-fps_mode", "passthrough", "-pix_fmt", "yuv420p"]).arg(&path);
        // Its own group: Ctrl-C is for the command, which ends it.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(complaints);
        let mut child = command.spawn().map_err(|error| no_ffmpeg(&error))?;
        let input = child.stdin.take();
        Ok(Self { child, input, path, log })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        let Some(input) = &mut self.input else { return Ok(()) };
        match input.write_all(bytes) {
            // It has ended by itself.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(self.failed()),
            written => written.map_err(|source| CliError::file("writing", &self.path, source)),
        }
    }

    fn finish(mut self) -> Result<(), CliError> {
        self.input = None;
        let status = self.child.wait().map_err(|error| no_ffmpeg(&error))?;
        if !status.success() {
            return Err(self.failed());
        }
        #[expect(clippy::disallowed_methods, reason = "a log that this command has made")]
        let removed = std::fs::remove_file(&self.log);
        removed.map_err(|source| CliError::file("removing", &self.log, source))
    }

    fn failed(&self) -> CliError {
        let mut said = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "a log that this command has made")]
        let log = std::fs::File::open(&self.log);
        let read = log.and_then(|log| log.take(COMPLAINT_BYTES).read_to_end(&mut said));
        let said = match read {
            Ok(_) => last_line(&said),
            Err(error) => error.to_string(),
        };
        CliError::failed(format!("ffmpeg made no video {}: {said}", self.path.display()))
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // After its end both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn no_ffmpeg(error: &std::io::Error) -> CliError {
    CliError::failed(format!("ffmpeg: {error}"))
}

/// Decodes a video: of some frames of each episode the colours. Fails if it has other frames than it was given.
fn count_colours(
    path: &Path,
    (columns, rows): (u32, u32),
    lengths: &[u64],
) -> Result<Vec<Colours>, CliError> {
    let longer = columns.max(rows);
    let part = if longer < 2 * SAMPLE_SIDE { 1 } else { longer / SAMPLE_SIDE };
    let (columns, rows) = ((columns / part).max(1), (rows / part).max(1));
    let scale = format!("scale={columns}:{rows}:flags=neighbor");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-i"]).arg(path);
    command.args(["-vf", &scale, "-fps_mode", "passthrough", "-f", "rawvideo"]);
    command.args(["-pix_fmt", "rgb24", "pipe:1"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| no_ffmpeg(&error))?;
    let mut found = 0;
    let mut all = Vec::new();
    let wanted: u64 = lengths.iter().sum();
    if let Some(mut out) = child.stdout.take() {
        let mut frame = vec![0; 3 * columns as usize * rows as usize];
        let mut next = || match out.read_exact(&mut frame) {
            Ok(()) => Ok(Some(frame.clone())),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(CliError::file("decoding", path, error)),
        };
        for length in lengths {
            let mut colours = Colours::default();
            let every = Colours::every(*length);
            for at in 0..*length {
                let Some(frame) = next()? else { break };
                found += 1;
                if at % every == 0 {
                    colours.add(&frame);
                }
            }
            all.push(colours);
        }
        found += u64::from(next()?.is_some());
    }
    let status = child.wait().map_err(|error| no_ffmpeg(&error))?;
    if found != wanted || !status.success() {
        return Err(CliError::failed(format!(
            "{}: ffmpeg was given {wanted} images and has made {found} frames: an image may be damaged; find it with \
             `livebag export --images`, and leave its time out with --from and --to",
            path.display()
        )));
    }
    Ok(all)
}
