//! Pushers that are killed.

use rustix::process::Pid;

use crate::run::{PART_BYTES, assert_stored, bytes, push_command, record};
use crate::store::Store;

/// `LIVEBAG_PUSH_KILLS=200` for more.
fn kills() -> u64 {
    std::env::var("LIVEBAG_PUSH_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(20)
}

#[test]
fn after_a_kill_at_most_one_part_is_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mut killed, mut sent_again_max, mut random, mut recordings) =
        (0, 0, 88_172_645_463_325_252_u64, 0);
    while killed < kills() {
        let store = Store::start();
        recordings += 1;
        let name = format!("run{recordings}");
        let bag = record(folder.path(), &name, 70, recordings as u8);
        let mut of_this = 0;
        loop {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let mut child = push_command(&store, &bag, &[]).spawn().unwrap();
            store.kill_after(random % (3 * PART_BYTES), Pid::from_raw(child.id() as i32));
            let status = child.wait().unwrap();
            store.kill_after(0, None);
            match status.code() {
                None => of_this += 1,
                Some(code) => {
                    assert_eq!(code, 0, "{:?}", child.wait_with_output());
                    break;
                }
            }
        }
        // Claim, checksums and lists of parts are small.
        let sent_again = store.received_bytes().saturating_sub(bytes(&bag));
        assert!(
            sent_again <= of_this * PART_BYTES + (1 << 20),
            "{sent_again} bytes after {of_this} kills"
        );
        assert_stored(&store.place(&format!("robot7/{name}")), &bag);
        killed += of_this;
        sent_again_max = sent_again_max.max(sent_again / of_this.max(1));
        std::fs::remove_dir_all(&bag).unwrap();
    }
    println!(
        "{killed} kills in {recordings} pushes; sent again per kill, at most: {sent_again_max} bytes"
    );
}
