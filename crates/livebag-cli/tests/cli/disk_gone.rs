//! The disk is removed while a recorder writes to it: it is reported, exit code 1, and synced messages are there when
//! the disk is back.

use std::path::Path;
use std::process::Command;

use livebag_shm::{FrameMeta, StreamOptions};
use serde_json::Value;

use crate::common::{Recording, stream, text, wait_until, without_settings};

const BYTES: usize = 200_000;

/// Gives a loop device the length of one block: from then on every access fails with EIO, as if the
/// device was gone. Its contents are not touched. (`losetup -d` waits for the filesystem, and
/// device-mapper is not in every kernel.)
const PULL: &str = r#"
import fcntl, struct, sys
device = open(sys.argv[1], "rb+", buffering=0)
info = bytearray(232)                        # struct loop_info64, linux/loop.h
fcntl.ioctl(device, 0x4C05, info)            # LOOP_GET_STATUS64
info[32:40] = struct.pack("Q", 4096)         # lo_sizelimit
fcntl.ioctl(device, 0x4C04, bytes(info))     # LOOP_SET_STATUS64
"#;

/// `$1` a folder on a real disk, `$2` livebag, `$3` the stream, `$4` the program that pulls. Everything is in a
/// separate mount namespace.
const SCRIPT: &str = r#"
image="$1/image"; mount="$1/mount"; mkdir "$mount"
truncate -s 200M "$image" && mkfs.ext4 -q -F "$image" || exit 77
loop=$(losetup -f --show "$image") || exit 77
trap 'umount -l "$mount" 2>/dev/null; losetup -d "$loop" 2>/dev/null' EXIT
mount "$loop" "$mount" || exit 77
"$2" record "$3" -o "$mount/bag" --sync-interval 0.1 & recorder=$!
until [ -e "$1/pull" ]; do sleep 0.05; done
"$2" info "$mount/bag" --json > "$1/before.json"
sleep 1
python3 -c "$4" "$loop" || exit 77
wait $recorder; code=$?
umount -l "$mount"; losetup -d "$loop"
loop=$(losetup -f --show "$image") && mount "$loop" "$mount" || exit 90
"$2" recover "$mount/bag" --json > "$1/recovered.json" || exit 91
"$2" verify "$mount/bag" --json > "$1/verified.json" || exit 92
exit $code
"#;

fn is_possible(folder: &Path) -> bool {
    let probe = r#"truncate -s 8M "$1/probe" && mkfs.ext4 -q -F "$1/probe" && mkdir "$1/p" || exit 77
        mount -o loop "$1/probe" "$1/p" && python3 -c 'import fcntl'"#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", probe, "sh", text(folder)]);
    let possible = rustix::process::geteuid().is_root()
        && command.output().is_ok_and(|output| output.status.success());
    if !possible {
        crate::lacks_right::lacks_right("needs root, loop devices, mkfs.ext4 and python3");
    }
    possible
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_disk_that_is_pulled_away_costs_what_was_not_synced() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if !is_possible(folder.path()) {
        return;
    }
    let (name, mut writer) = stream(StreamOptions::bytes(BYTES).slots(16));
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", SCRIPT, "sh", text(folder.path())]);
    command.args([env!("CARGO_BIN_EXE_livebag"), &name, PULL]);
    without_settings(&mut command);
    let mut recording = Recording::begin_command(command, 1);
    let mut published = 0_u64;
    wait_until("the recorder has ended", || {
        writer.publish(&FrameMeta::bytes(), &vec![published as u8; BYTES]).unwrap();
        published += 1;
        if published == 100 {
            std::fs::write(folder.path().join("pull"), "").unwrap();
        }
        std::thread::park_timeout(std::time::Duration::from_millis(10));
        recording.has_ended()
    });
    let ended = recording.end();
    assert_ne!(ended.code, 77, "the disk could not be made or pulled: {ended:?}");
    ended.expect(1, &["ended early", "put/output error"]);
    let before = json(&folder.path().join("before.json"))["message_count"].as_u64().unwrap();
    let kept = json(&folder.path().join("recovered.json"))["message_count"].as_u64().unwrap();
    assert!(before > 10 && kept >= before, "{kept} of {before}, which were a second old");
    assert_eq!(json(&folder.path().join("verified.json"))["whole"], true);
}

/// Open files outlive their names: without a check of the folder, it would be reported only at the end of the
/// recording.
#[test]
fn a_folder_that_is_removed_ends_the_recording() {
    for storage in ["container", "sqlite3"] {
        let folder = tempfile::tempdir().unwrap();
        let bag = folder.path().join("bag");
        let (name, mut writer) = stream(StreamOptions::bytes(1000));
        let recording = ["record", &name, "-o", text(&bag), "--storage", storage];
        let mut recording = Recording::begin(&recording[1..], 1);
        writer.publish(&FrameMeta::bytes(), &[1; 1000]).unwrap();
        wait_until("something is written", || std::fs::read_dir(&bag).unwrap().count() > 2);
        std::fs::rename(&bag, folder.path().join("moved")).unwrap();
        wait_until("the recorder has ended", || recording.has_ended());
        recording.end().expect(1, &["No such file"]);
    }
}
