//! The machine in one sentence, for reports.

use crate::files;

/// Processor, kernel, version.
pub fn describe() -> String {
    let info = files::kernel_setting("/proc/cpuinfo").unwrap_or_default();
    // aarch64 kernels have no model name.
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    format!("{model}, {cores} processors, Linux {kernel}, livebag {}.", env!("CARGO_PKG_VERSION"))
}
