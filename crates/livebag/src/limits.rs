//! Every bound of the engine, in one place.

use std::time::Duration;

/// Block of a brick: payloads of the zero-copy path begin on a multiple of it, in the file and in
/// memory. A page of memory and of ext4, XFS and Btrfs; finer alignments that a disk may offer
/// make ext4 serialise its direct writes.
pub const BLOCK_BYTES: usize = 4096;

/// Messages from this size on get their own chunks, written directly; smaller ones are collected. A separate chunk
/// costs up to two blocks.
pub const OWN_CHUNK_BYTES_MIN: usize = 64 << 10;

/// A gathered chunk is closed at this size …
pub const CHUNK_BYTES_MAX: usize = 256 << 10;
/// … or, with many topics under one cache, at this one …
pub const CHUNK_BYTES_MIN: usize = 16 << 10;
/// … or at this age, which bounds how old the newest readable message is.
pub const CHUNK_AGE_MAX: Duration = Duration::from_millis(50);

/// The same while a client reads the live recording …
pub const CHUNK_AGE_MAX_READ: Duration = Duration::from_millis(5);
/// … and has sent a query within this time.
pub const READ_INTEREST: Duration = Duration::from_secs(5);

/// Messages that a look of a reader which follows a recording gathers.
pub const FOLLOW_BATCH_BYTES_MAX: usize = 32 << 20;

/// Topics with collected chunks that have their own brick; later ones share one, so that hundreds of small topics do
/// not become hundreds of files being appended to.
pub const OWN_GATHERED_BRICKS_MAX: usize = 64;

/// Default bound of everything waiting in memory: rosbag2's two buffers of 100 MiB.
pub const CACHE_BYTES_DEFAULT: u64 = 200 << 20;
/// Memory that a single topic can always use, even if the others fill the cache.
pub const TOPIC_BYTES_MIN: u64 = 256 << 10;
/// Room that a topic takes from the cache ahead of its next small messages.
pub const QUEUE_CREDIT_BYTES: u64 = 4 << 10;

/// Memory for one frame that is at least so large is the kernel's own, and goes back to it soon.
pub const LENT_BYTES_MIN: usize = 1 << 20;
/// Rounds of the watchdog, an eighth of the shortest lap each, without a copy after which the memory of copies is
/// freed: about two seconds for a 30 Hz camera with eight slots.
pub const COPY_BUFFERS_IDLE_ROUNDS: u32 = 64;
/// Memory of written large messages that a topic keeps for its next ones: one of a FullHD camera,
/// some dozen of 64 KiB.
pub const SPARE_BLOCK_BYTES_MAX: usize = 8 << 20;
/// Free blocks of such memory for a topic's messages, if that many fit: between two uses of a block, time passes in
/// which the caches forget that the device had it.
pub const SPARE_BLOCKS_MIN: usize = 32;
/// The same, at most.
pub const SPARE_BLOCKS_MAX: usize = 64;
/// Chunks of written small messages whose memory a topic keeps for its next ones: the amount between two polls of the
/// recorder at 400 MB/s. A larger burst asks the system for memory.
pub const SPARE_BATCHES_MAX: usize = 8;

/// Writes in flight at once. Zero-copy writes hold no memory but their slots.
pub const WRITES_IN_FLIGHT_MAX: usize = 256;

/// Bytes in the device's queue at which frames wait in their slots: about 25 ms of a fast disk's work, a tenth of the
/// lap of eight slots at 30 Hz.
pub const DEVICE_BYTES_MAX: u64 = 64 << 20;

/// Messages in an SQLite transaction, in bytes, at which it is committed before the queues are empty.
pub const COMMIT_BYTES_MAX: u64 = 16 << 20;

/// Memory being written to the disk at which the queues keep their messages.
pub const IN_FLIGHT_BYTES_MAX: u64 = 64 << 20;
/// Bytes by which a file that goes is shortened at a time, which takes some milliseconds …
pub const REMOVE_STEP_BYTES: u64 = 16 << 20;
/// … and how long other writes then have the device to themselves.
pub const REMOVE_PAUSE: Duration = Duration::from_millis(5);
/// After a removal that failed for a reason that may pass, such as too many open files.
pub const REMOVE_AGAIN_INTERVAL: Duration = Duration::from_secs(1);

/// Commands that can wait for a thread of the recorder; a caller with more of them waits too.
pub const JOBS_MAX: usize = 1024;
/// Level of zstd unless one is given: the fastest of its usual ones.
pub const COMPRESSION_LEVEL_DEFAULT: i32 = 1;
/// Threads that compress at most.
pub const COMPRESSION_THREADS_MAX: usize = 64;
/// Interval at which the free space and old splits are checked.
pub const SPACE_LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Longest and shortest interval at which streams and queues are polled.
pub const POLL_MAX: Duration = Duration::from_millis(5);
/// See [`POLL_MAX`].
pub const POLL_MIN: Duration = Duration::from_micros(500);
/// Longest pause where only slow streams are recorded, each of whose frames is awaited.
pub const POLL_MAX_AWAITED: Duration = Duration::from_millis(16);
/// Shortest period of a stream whose frames are awaited one by one.
pub const AWAITED_PERIOD_MIN: Duration = Duration::from_millis(8);
/// A frame is polled for this long after it is due: the lateness of a program's timer.
pub const AWAITED_BEHIND: Duration = Duration::from_micros(300);
/// The same while a client reads the live recording: a message that a program writes waits this long before it is
/// submitted.
pub const POLL_MAX_READ: Duration = Duration::from_millis(1);
/// Longest and shortest interval of the watchdog's polls; between these limits it is an eighth of the shortest lap.
pub const WATCH_MAX: Duration = Duration::from_millis(50);
/// See [`WATCH_MAX`].
pub const WATCH_MIN: Duration = Duration::from_millis(1);
/// How fast writers of this process may fill the queues at most: 2 GB/s.
pub const FILL_BYTES_PER_NANO: u64 = 2;
/// Interval at which new streams are searched for.
pub const DISCOVERY_INTERVAL: Duration = Duration::from_millis(100);
/// Pause between two writings of losses and topics into `container.yaml` while recording.
pub const MANIFEST_INTERVAL: Duration = Duration::from_secs(1);

/// A step of the wall clock from which on it is reported: a slewed clock needs minutes for as much.
pub const CLOCK_JUMP_MIN: Duration = Duration::from_millis(500);
/// Pause between two looks whether the cycle board is still the one that applications join.
pub const BOARD_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the cycle-aware schedule may hold a message back: half of the time in which streams of eight
/// slots at 30 Hz are lapped, with room for the writing.
pub const CYCLE_AGE_MAX: Duration = Duration::from_millis(200);
/// Longest computation that is a cycle's: 1 Hz is the slowest loop of a robot that is worth waiting for.
pub const CYCLE_BUSY_MAX: Duration = Duration::from_secs(1);
/// Cycles from which an application's rhythm is known …
pub const CYCLE_SAMPLES_MIN: usize = 3;
/// … and those that are remembered: half a second at 33 Hz.
pub const CYCLE_SAMPLES_MAX: usize = 16;
/// Time left between the end of writing and the next computation: a write's latency and a timer's.
pub const CYCLE_MARGIN: Duration = Duration::from_micros(500);
/// Amount written at once when a computation may begin at any moment.
pub const CYCLE_SLICE: Duration = Duration::from_millis(2);
/// The same while the disk's speed is not known.
pub const CYCLE_SLICE_BYTES: u64 = 2 << 20;
/// Shortest pause between two questions to a schedule.
pub const CYCLE_ASK_AGAIN_MIN: Duration = Duration::from_micros(500);
/// Applications whose rhythm is learnt; a board has no more places.
pub const CYCLE_APPLICATIONS_MAX: usize = livebag_shm::CYCLE_SLOTS;
/// Bytes from which a burst of writes shows the disk's speed: a smaller one shows its latency.
pub const SPEED_BURST_BYTES_MIN: u64 = 1 << 20;
/// Bytes after which the speed of a burst that does not end is taken.
pub const SPEED_BURST_BYTES_MAX: u64 = 64 << 20;

/// Space reserved on the disk so that a recording can be closed when it is full.
pub const CLOSE_RESERVE_BYTES: u64 = 1 << 20;
/// Files that closing has open at a time in addition to those of the recording, with some to spare. This many are kept
/// open until then.
pub const CLOSE_RESERVE_FILES: usize = 4;
/// Files that the process must be able to open while recording, in addition to all topics': a topic that would use them
/// is refused.
pub const SPARE_FILES_MIN: usize = 4;
/// The same before a stream is taken: a new split, which has a lock and a reserve, and streams that are opened anew.
pub const STREAM_SPARE_FILES_MIN: u64 = 16;
/// Descriptors of a stream that is followed: its region, and its entry in the table of readers.
pub const STREAM_FILES: u64 = 2;
/// Chunks of a brick kept in memory for its summary; of more, the time indexes are read again.
pub const CHUNKS_KEPT_MAX: usize = 1 << 14;
/// Bytes of a brick in the page cache at which their write-back is begun.
pub const WRITE_BEHIND_BYTES: u64 = 4 << 20;

/// Largest encoded message: the index counts its bytes in 32 bits, and CDR's own length fields too.
pub const MESSAGE_BYTES_MAX: usize = u32::MAX as usize - 2 * BLOCK_BYTES;
/// MCAP numbers its channels in 16 bits.
pub const TOPICS_MAX: usize = u16::MAX as usize - 1;

/// Files that readers have open at a time, all readers of the process together; a quarter of the limit of open files if
/// that is less. Others are opened again when they are read.
pub const READ_FILES_MAX: usize = 512;
/// Bytes that a cursor reads at once from a brick of small messages.
pub const READ_WINDOW_BYTES: usize = 1 << 20;
/// Messages from this size on are read straight to where they are wanted, without a window between.
pub const READ_STRAIGHT_BYTES_MIN: usize = 64 << 10;
/// A cursor reads a topic in place only if at least this much of it is requested: through a mapping the kernel fetches
/// this much at a time.
pub const IN_PLACE_BYTES_MIN: u64 = 2 << 20;
/// A chunk of an answer is closed at this size …
pub const ANSWER_CHUNK_BYTES: u64 = 256 << 10;
/// … which doubles after this many chunks, so that the summary of a long answer stays small …
pub const ANSWER_CHUNKS_BEFORE_DOUBLING: usize = 1 << 16;
/// … up to this one.
pub const ANSWER_CHUNK_BYTES_MAX: u64 = 16 << 20;
/// A chunk of a virtual file ends at this size, and where its messages span this time …
pub const VIRTUAL_CHUNK_BYTES: u64 = 1 << 20;
/// … so that a viewer that jumps reads little that it does not show.
pub const VIRTUAL_CHUNK_SPAN: Duration = Duration::from_secs(1);
/// Chunks of a virtual file: its summary has some 100 bytes for each, which a viewer reads at once.
pub const VIRTUAL_CHUNKS_MAX: usize = 1 << 20;
/// Memory of a virtual file for attachments and metadata records, without the attachments' data.
pub const VIRTUAL_CARRIED_BYTES_MAX: usize = 32 << 20;
/// How far ahead of a sequential reader the kernel is asked to read.
pub const READ_AHEAD_BYTES: u64 = 16 << 20;

/// Cells of a container's timeline that are kept for its next question, of 24 bytes each …
pub const TIMELINE_CELLS_MAX: usize = 1 << 19;
/// … and of a topic's: if its messages lie in more, cells become wider. An hour has some of half a second …
pub const TIMELINE_TOPIC_CELLS_MAX: usize = 1 << 13;
/// … and of a topic at least.
pub const TIMELINE_TOPIC_CELLS_MIN: usize = 1 << 8;
/// Entries that one thread sums up alone: some milliseconds …
pub const TIMELINE_ENTRIES_ALONE_MAX: u64 = 1 << 18;
/// … and threads that share more of them.
pub const TIMELINE_THREADS_MAX: usize = 4;
/// Silences of a topic that are kept: the longest.
pub const TIMELINE_SILENCES_MAX: usize = 512;
/// A topic is silent after this many usual periods without a message …
pub const SILENCE_PERIODS: u64 = 3;
/// … and this many nanoseconds.
pub const SILENCE_NANOS_MIN: u64 = 500_000_000;

/// Time between the making of a player's streams and its first message, in which recorders find
/// them.
pub const PLAY_LEAD_IN: Duration = Duration::from_millis(250);
/// Longest sleep of a player: bounds its delay in following commands.
pub const PLAY_SLEEP_MAX: Duration = Duration::from_millis(5);
/// Pause between two signs of life of a player's outputs.
pub const PLAY_HEARTBEAT: Duration = Duration::from_millis(20);
/// Orders to a player that wait to be followed: more than a held key gives.
pub const PLAY_ORDERS_MAX: usize = 256;
/// Default number of messages that a player reads ahead: most of a second of a robot's small ones …
pub const PLAY_AHEAD_MESSAGES: usize = 4096;
/// … and their bytes at most: an eighth of a second at 1 GB/s.
pub const PLAY_AHEAD_BYTES_MAX: usize = 128 << 20;
/// Memory of messages from this size on is used again: below, the allocator is as fast.
pub const PLAY_SPARE_BYTES_MIN: usize = 64 << 10;
/// Blocks of such memory that are kept.
pub const PLAY_SPARES_MAX: usize = 64;
/// Messages that wait for earlier sent ones, in bytes, at which the first of them goes.
pub const PLAY_REORDER_BYTES_MAX: usize = 256 << 20;
/// Most messages a second on `/clock`.
pub const PLAY_CLOCK_HZ_MAX: f64 = 10_000.0;
/// Period at which a recording's only message is repeated: that of a camera at 30 Hz.
pub const PLAY_PERIOD_ALONE: Duration = Duration::from_nanos(33_333_333);

const _: () = assert!(PLAY_LEAD_IN.as_nanos() > 2 * DISCOVERY_INTERVAL.as_nanos());
/// Longest chunk that recovery proves.
pub const PROVEN_CHUNK_BYTES_MAX: u64 = 1 << 30;
/// This much at the end of each brick must be proven after a crash of the recorder, even if the kernel lives: the
/// device may have failed, or been remounted, before these bytes were written.
pub const UNSETTLED_BYTES: u64 = 256 << 20;

const _: () = assert!(CHUNK_BYTES_MIN <= CHUNK_BYTES_MAX);
const _: () = assert!(OWN_CHUNK_BYTES_MIN <= CHUNK_BYTES_MAX);
const _: () = assert!(POLL_MIN.as_nanos() <= POLL_MAX_READ.as_nanos());
// After the longest sleep the recorder has polled again before the watchdog takes over.
const _: () = assert!(POLL_MAX_AWAITED.as_nanos() < WATCH_MAX.as_nanos());
const _: () = assert!(BLOCK_BYTES.is_power_of_two());
const _: () = assert!(SPARE_BLOCKS_MIN <= SPARE_BLOCKS_MAX);
const _: () = assert!(CHUNK_BYTES_MAX < u32::MAX as usize);

/// Longest name of an event.
pub const EVENT_NAME_BYTES_MAX: usize = 200;
/// Longest text of an event: a few words, not a report.
pub const EVENT_TEXT_BYTES_MAX: usize = 4000;
/// Longest file of events, which is read as a whole: 150,000 events of a hundred bytes.
pub const EVENTS_BYTES_MAX: u64 = 16 << 20;
