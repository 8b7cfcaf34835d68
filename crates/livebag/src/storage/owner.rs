//! The process that holds a container's lock.

/// The process that made a lock's file, as written in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// The kernel's run in which the process lived; empty if the kernel does not tell.
    pub boot_id: String,
}

impl Owner {
    pub(super) fn this_process(boot_id: Option<String>) -> Self {
        Self { pid: std::process::id(), boot_id: boot_id.unwrap_or_default() }
    }

    /// Text of the lock's file.
    pub fn to_text(&self) -> String {
        format!("pid {}\nboot {}\n", self.pid, self.boot_id)
    }

    /// Reads the text; `None` if it is anything else, as a power cut may leave it.
    pub fn parse(text: &str) -> Option<Self> {
        let (pid, boot) = text.strip_suffix('\n')?.split_once('\n')?;
        let pid = pid.strip_prefix("pid ")?.parse().ok()?;
        let boot_id = boot.strip_prefix("boot ")?;
        let is_clean = boot_id.bytes().all(|byte| byte.is_ascii_graphic());
        is_clean.then(|| Self { pid, boot_id: boot_id.to_owned() })
    }
}
