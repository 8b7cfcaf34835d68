//! One suite for every implementation of the contract.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::limits::BLOCK_BYTES;

fn wait_for(queue: &mut dyn WriteQueue) -> Vec<Completion> {
    let mut done = Vec::new();
    while queue.in_flight() > 0 {
        queue.reap(Duration::from_millis(20), &mut done).unwrap();
    }
    done
}

fn block(value: u8, blocks: usize) -> Block {
    let mut block = Block::zeroed(blocks * BLOCK_BYTES);
    block.fill(value);
    block
}

/// What every disk promises.
fn keeps_its_promises(disk: &dyn Disk, directory: &Path, access: Access) {
    let directory = directory.join(format!("{access:?}"));
    disk.create_dir(&directory).unwrap();
    assert!(disk.create_dir(&directory).is_err(), "a directory is not taken twice");
    let path = directory.join("file");
    let file = disk.create(&path, access).unwrap();
    assert!(disk.create(&path, access).is_err(), "a file is not taken twice");

    let mut queue = disk.queue();
    for k in 0..600u64 {
        let parts = vec![Part::Block(block(k as u8, 1)), Part::Block(block(!(k as u8), 2))];
        let offset = k * 3 * BLOCK_BYTES as u64;
        queue.submit(Write { token: k, file: file.clone(), offset, parts });
    }
    assert_eq!(queue.in_flight(), 600);
    let mut done = wait_for(&mut *queue);
    done.sort_by_key(|completion| completion.token);
    assert_eq!(done.len(), 600);
    for (k, completion) in done.iter().enumerate() {
        assert_eq!(completion.token, k as u64);
        completion.result.as_ref().unwrap();
        assert_eq!(completion.parts.len(), 2, "the memory comes back");
    }
    file.sync().unwrap();
    disk.sync_files(&[&file]).unwrap();
    disk.sync_dir(&directory).unwrap();

    let read = disk.read(&path).unwrap();
    assert_eq!(read.len(), 600 * 3 * BLOCK_BYTES);
    for (k, extent) in read.chunks(3 * BLOCK_BYTES).enumerate() {
        let (first, rest) = extent.split_at(BLOCK_BYTES);
        assert!(first.iter().all(|byte| *byte == k as u8));
        assert!(rest.iter().all(|byte| *byte == !(k as u8)));
    }

    let repair = disk.open_for_repair(&path).unwrap();
    repair.set_len(100).unwrap();
    repair.write_at(b"tail", 100).unwrap();
    repair.reserve(104, 10_000).unwrap();
    assert_eq!(repair.length().unwrap(), 104, "reserved space does not count");
    let mut bytes = [0; 8];
    assert_eq!(repair.read_at(&mut bytes, 100).unwrap(), 4, "short at the end");
    assert_eq!(&bytes[..4], b"tail");

    disk.replace(&directory.join("small"), b"one", false).unwrap();
    disk.replace(&directory.join("small"), b"two", true).unwrap();
    assert_eq!(disk.read(&directory.join("small")).unwrap(), b"two");
    locks_exclude(disk, &directory.join("lock"));
    disk.remove(&path).unwrap();
    assert!(disk.open(&path).is_err());
}

fn locks_exclude(disk: &dyn Disk, path: &Path) {
    assert!(!disk.is_locked(path).unwrap(), "there is no such file");
    let exclusive = disk.lock(path).unwrap().expect("nobody has it");
    assert!(disk.lock(path).unwrap().is_none());
    assert!(disk.is_locked(path).unwrap());
    drop(exclusive);
    assert!(!disk.is_locked(path).unwrap());
    assert!(disk.lock(path).unwrap().is_some());
}

#[test]
fn the_simulated_disk_keeps_its_promises() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        keeps_its_promises(&disk, Path::new("/disk"), Access::Direct);
        keeps_its_promises(&disk, Path::new("/disk"), Access::Buffered);
    }
}

#[test]
fn the_kernel_keeps_its_promises_by_every_method() {
    let folder = tempfile::tempdir().unwrap();
    for forced in ["", "io_uring,buffered", "pwrite", "pwrite,buffered"] {
        let disk = KernelDisk::probe_as(folder.path(), forced).unwrap();
        let choice = disk.choice();
        assert_eq!(choice.reasons.is_empty(), choice.method == Method::IoUringDirect);
        assert!(!forced.contains("pwrite") || choice.method >= Method::PwriteDirect);
        let directory = folder.path().join(forced.replace(',', "-"));
        std::fs::create_dir_all(&directory).unwrap();
        keeps_its_promises(&disk, &directory, Access::Direct);
        keeps_its_promises(&disk, &directory, Access::Buffered);
    }
}

/// A full disk is an error of the write that met it, and the others continue.
#[test]
fn a_failing_write_says_so_and_no_other() {
    let disk = SimulatedDisk::new(7);
    disk.create_dir(Path::new("/d")).unwrap();
    let file = disk.create(Path::new("/d/f"), Access::Direct).unwrap();
    disk.inject(Fault::IoErrorAt(2));
    let mut queue = disk.queue();
    for k in 0..10 {
        let parts = vec![Part::Block(block(k as u8, 1))];
        queue.submit(Write { token: k, file: file.clone(), offset: k * 4096, parts });
    }
    let failed = wait_for(&mut *queue).iter().filter(|done| done.result.is_err()).count();
    assert_eq!(failed, 1);
}

#[test]
fn what_links_lead_to_is_not_served_with_or_without_openat2() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (served, secret) = (root.join("served"), root.join("secret"));
    let reading = KernelDisk::for_reading();
    for folder in [&served, &secret] {
        reading.create_dir(folder).unwrap();
        reading.create(&folder.join("file"), Access::Buffered).unwrap();
    }
    symlink(secret.join("file"), served.join("link")).unwrap();
    symlink("file", served.join("beside")).unwrap();
    symlink(&secret, served.join("folder")).unwrap();
    for forced in ["", "off"] {
        let disk = KernelDisk::for_serving_as(forced);
        let open = |name: &str| disk.open(&served.join(name));
        assert!(open("file").is_ok(), "`{forced}`: an ordinary file");
        assert!(!disk.is_locked(&served.join("file")).unwrap(), "`{forced}`");
        for name in ["link", "beside", "folder/file"] {
            let refused = open(name).map(drop).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
            assert!(disk.read(&served.join(name)).is_err(), "`{forced}`: {name}");
            assert!(reading.open(&served.join(name)).is_ok(), "`{forced}`: {name} leads somewhere");
        }
        let missing = open("none").map(drop).unwrap_err();
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    }
}

/// A process that has a removed file open keeps it, as does another name of it; otherwise it is gone.
#[test]
fn what_goes_in_steps_is_kept_for_those_who_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let disk = KernelDisk::for_reading();
    let bytes = 3 * crate::limits::REMOVE_STEP_BYTES + 1;
    let make = |name: &str| {
        let path = folder.path().join(name);
        let file = disk.create(&path, Access::Buffered).unwrap();
        file.set_len(bytes - 5).unwrap();
        file.write_at(b"whole", bytes - 5).unwrap();
        path
    };
    let is_whole = |file: &dyn ReadFile| {
        let mut end = [0; 5];
        file.read_at(&mut end, bytes - 5).unwrap() == 5 && &end == b"whole"
    };
    let path = make("read");
    let reader = disk.open(&path).unwrap();
    disk.remove_in_steps(&path, &|| true).unwrap();
    assert!(disk.open(&path).is_err());
    assert!(is_whole(&*reader));

    let path = make("mapped");
    let mapped = disk.open(&path).unwrap().map(bytes).unwrap().expect("files are memory here");
    disk.remove_in_steps(&path, &|| true).unwrap();
    let end = std::sync::Arc::new(mapped).part(bytes - 5, 5).unwrap();
    let end = end.expect("it is within");
    #[expect(unsafe_code, reason = "a file that has no name any more")]
    // SAFETY: nothing writes it.
    let end = unsafe { end.look() };
    assert_eq!(end, b"whole");

    let path = make("linked");
    let link = folder.path().join("link");
    std::fs::hard_link(&path, &link).unwrap();
    disk.remove_in_steps(&path, &|| true).unwrap();
    assert!(is_whole(&*disk.open(&link).unwrap()));

    let path = make("alone");
    let steps = std::cell::Cell::new(0);
    disk.remove_in_steps(&path, &|| {
        steps.set(steps.get() + 1);
        true
    })
    .unwrap();
    assert!(disk.open(&path).is_err());
    // Where the filesystem has no leases it goes at once.
    assert!([0, 4].contains(&steps.get()), "{}", steps.get());
    disk.remove_in_steps(&path, &|| true).unwrap_err();
}

/// A pipe instead of a file does not block, and no device or socket is read.
#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let disks = [KernelDisk::for_reading(), KernelDisk::for_serving()];
    for path in [&pipe, &socket, &PathBuf::from("/dev/zero"), &folder.path().to_owned()] {
        for disk in &disks {
            assert!(disk.open(path).is_err(), "{}", path.display());
            assert!(disk.read(path).is_err());
            assert!(disk.is_locked(path).is_err());
        }
        assert!(disks[0].open_for_repair(path).is_err());
        assert!(disks[0].lock(path).is_err());
    }
}
