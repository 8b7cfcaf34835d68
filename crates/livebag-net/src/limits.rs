//! Every bound of the server, in one place.

use std::time::Duration;

/// Port unless one is given.
pub const PORT_DEFAULT: u16 = 8767;

/// Connections at once; more are closed as they come.
pub const CONNECTIONS_MAX: usize = 1024;
/// Connections at once from one address that is not this machine.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 128;
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the head of a request may take, and how long a connection may be idle.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest head of a request, its address and headers together.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Headers of a request.
pub const HEADERS_MAX: usize = 64;
/// Longest body of a request: no request has one that means anything.
pub const BODY_BYTES_MAX: usize = 4 << 10;

/// Answers being laid out at once.
pub const ANSWERS_MAX: usize = 64;
/// Answers at once for one address that is not this machine.
pub const ANSWERS_PER_ADDRESS_MAX: usize = 32;
/// How long a request waits for its turn.
pub const TURN_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of all answers in memory, of which each takes its part before it is read and until the network
/// has it.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Pieces of an answer that wait for the network.
pub const PIECES_WAITING_MAX: usize = 2;
/// Bytes of a piece from which it is sent.
pub const PIECE_BYTES: usize = 256 << 10;
/// Values of a message that are decoded at any time …
pub const DECODED_VALUES_SMALL: usize = 1 << 13;
/// … and at most, of one message at a time: some 128 bytes of memory each.
pub const DECODED_VALUES_MAX: usize = 1 << 21;
/// Interval at which the memory of answers is returned to the system, once none is in progress …
pub const GIVE_BACK_INTERVAL: Duration = Duration::from_secs(2);
/// … if it was at least this much.
pub const GIVE_BACK_BYTES_MIN: usize = 32 << 20;
/// Characters of the sentence that refuses a request.
pub const REFUSAL_CHARS_MAX: usize = 1000;
/// Bytes of files from which they are handed to the network, which is given many at once …
pub const PARCEL_BYTES: usize = 1 << 20;
/// … and the bytes between them, if there are no more than this, in separate memory.
pub const BETWEEN_BYTES_MAX: usize = 1 << 10;
/// Pieces whose memory is kept for the next ones …
pub const SPARE_PIECES_MAX: usize = 32;
/// … unless they are larger than this.
pub const SPARE_PIECE_BYTES_MAX: usize = 8 << 20;
/// A reader that takes less than this …
pub const PROGRESS_BYTES_MIN: u64 = 16 << 10;
/// … in this time is let go.
pub const PROGRESS_TIMEOUT: Duration = Duration::from_secs(30);

/// Virtual files that are remembered.
pub const VIRTUAL_FILES_MAX: usize = 64;
/// Memory of those.
pub const VIRTUAL_FILES_BYTES_MAX: usize = 512 << 20;
/// A live one used since then is not dropped: its reader could not continue.
pub const VIRTUAL_FILE_PATIENCE: Duration = Duration::from_secs(60);
/// Forgotten ones that are remembered as such; once there are more, every file may have been there before.
pub const VIRTUAL_FILES_FORGOTTEN_MAX: usize = 1024;
/// Shortest interval at which a virtual file is extended.
pub const VIRTUAL_FILE_GROWTH: Duration = Duration::from_secs(1);

/// Interval at which new recordings are searched for.
pub const CATALOG_INTERVAL: Duration = Duration::from_secs(1);
/// Age at which a recording of a store is opened anew, to see what was added.
pub const STORE_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum depth of nested folders.
pub const CATALOG_DEPTH_MAX: usize = 4;
/// Recordings that are listed.
pub const CATALOG_BAGS_MAX: usize = 10_000;
/// Recordings that stay open between two requests: each holds the files of its topics.
pub const OPEN_BAGS_MAX: usize = 64;
/// Interval at which a live recording is opened again, to detect that its recorder has died.
pub const LIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Bins of a timeline or a series, unless a request says how many …
pub const TIMELINE_BINS_DEFAULT: usize = 600;
/// … of a series …
pub const SERIES_BINS_DEFAULT: usize = 1000;
/// … and at most.
pub const BINS_MAX: usize = 4000;
/// Recordings of which the timeline is kept for the next question: some 12 MB of memory each at most.
pub const TIMELINES_KEPT_MAX: usize = 8;
/// Attachments that a timeline marks.
pub const ATTACHMENTS_MARKED_MAX: usize = 1000;
/// Longest record of the summary of a file with attachments.
pub const SUMMARY_RECORD_BYTES_MAX: usize = 1 << 20;
/// Fields of a series.
pub const FIELDS_MAX: usize = 16;
/// Fields of a topic that are listed.
pub const FIELDS_LISTED_MAX: usize = 4096;
/// Messages that a series reads; of more it reads every second, third, … and reports that …
pub const SERIES_MESSAGES_MAX: u64 = 1 << 19;
/// … and bytes of them, as the first one is.
pub const SERIES_BYTES_MAX: u64 = 512 << 20;
/// Messages that a series decodes before it takes their values …
pub const SERIES_BATCH_MESSAGES: usize = 256;
/// … and their bytes.
pub const SERIES_BATCH_BYTES: usize = 1 << 20;
/// Points that a request gets unless it says how many …
pub const POINTS_DEFAULT: usize = 20_000;
/// … and at most.
pub const POINTS_MAX: usize = 200_000;
/// Widest picture that a request may ask for.
pub const PICTURE_WIDTH_MAX: usize = 1 << 16;
/// Time between two events of a recording's status.
pub const STATUS_INTERVAL: Duration = Duration::from_millis(500);
/// Looks over which rates are averaged: two seconds.
pub const STATUS_LOOKS: usize = 4;

/// Topics that one request may name.
pub const TOPICS_MAX: usize = 1000;
/// Longest name of a topic or a recording in a request.
pub const NAME_BYTES_MAX: usize = 1024;
/// Items of an array that a request may ask to have decoded.
pub const ARRAY_ITEMS_MAX: usize = 1 << 20;
/// Longest time that `auto` may be given.
pub const WITHIN_MAX: Duration = Duration::from_secs(60);
/// Pixels of a picture.
pub const PIXELS_MAX: u64 = 1 << 27;

/// Bytes of a chunk of an `auto` answer: newer messages must not wait for older ones.
pub const AUTO_CHUNK_BYTES: u64 = 16 << 10;
/// Minimum that `auto` keeps in flight, and its maximum before it has measured the link: some of the bytes that TCP
/// sends at once.
pub const AUTO_BLIND_BYTES: u64 = 16 << 10;
/// Bytes that `auto` keeps in flight besides the next message, as a time at the link's speed; a longer round trip
/// counts instead. If a link becomes twenty times slower, the answer is late by twenty times this.
pub const AUTO_AHEAD: Duration = Duration::from_millis(10);
/// Time that `auto` reserves for unknown delays: the answer's end, the client's reading.
pub const AUTO_MARGIN: Duration = Duration::from_millis(40);
/// Time over which the speed of a link is averaged.
pub const GOODPUT_WINDOW: Duration = Duration::from_millis(250);
/// The same for noticing that it has become slower.
pub const GOODPUT_WINDOW_SHORT: Duration = Duration::from_millis(60);
/// Interval at which a link is polled.
pub const GOODPUT_INTERVAL: Duration = Duration::from_millis(2);
/// How long the speed of the link to an address is remembered …
pub const GOODPUT_MEMORY: Duration = Duration::from_secs(30);
/// … and of how many addresses.
pub const GOODPUT_ADDRESSES_MAX: usize = 1024;

/// Maximum bytes read of a routing table, to find the wireless link to a client.
pub const ROUTES_BYTES_MAX: u64 = 64 << 10;

/// Threads that answer questions that come by Zenoh.
pub const ZENOH_THREADS: usize = 4;
/// Questions that wait for one of them.
pub const ZENOH_QUESTIONS_MAX: usize = 64;
/// Bytes that an asker takes at once from each recording …
pub const ZENOH_PAGE_BYTES: u64 = 8 << 20;
/// … and messages.
pub const ZENOH_PAGE_MESSAGES: usize = 4096;
/// How long the first announcement is waited for …
pub const ZENOH_LOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// … and how long after the last one no further is expected.
pub const ZENOH_QUIET: Duration = Duration::from_millis(700);
/// How long a page may give nothing although Zenoh has not ended it.
pub const ZENOH_SILENCE: Duration = Duration::from_secs(15);
/// A server looks so often for recordings of other robots, however many pages ask.
pub const ROBOTS_INTERVAL: Duration = Duration::from_secs(3);
/// Announced recordings that an asker lists.
pub const FOUND_MAX: usize = 65_536;

/// Timeout of a query to a server, for its connection and for the start of the answer.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest error text that an asker reads.
pub const ERROR_BYTES_MAX: u64 = 64 << 10;

/// Live sockets at once …
pub const LIVE_SOCKETS_MAX: usize = 64;
/// … and of one address that is not this machine.
pub const LIVE_SOCKETS_PER_ADDRESS_MAX: usize = 16;
/// Longest message of a client: a subscription to some thousands of channels.
pub const LIVE_ASK_BYTES_MAX: usize = 256 << 10;
/// Subscriptions of a socket, and of one message.
pub const LIVE_SUBSCRIPTIONS_MAX: usize = 4096;
/// Longest id of a request to play.
pub const LIVE_REQUEST_ID_BYTES_MAX: usize = 256;
/// Highest speed of playing.
pub const LIVE_SPEED_MAX: f32 = 1000.0;
/// Messages of a client that cannot be followed, or requests that wait; after more of them the socket is closed.
pub const LIVE_MISTAKES_MAX: usize = 64;
/// Interval of polls for new messages …
pub const LIVE_TICK: Duration = Duration::from_millis(20);
/// … and for channels.
pub const LIVE_CHANNELS_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes given to a socket at once: the amount that a link carries in the time below, at least this …
pub const LIVE_BATCH_BYTES_MIN: usize = 64 << 10;
/// … and at most this, or one message.
pub const LIVE_BATCH_BYTES_MAX: usize = 4 << 20;
/// Additional age of messages sent at once when they arrive, over a link that cannot carry everything.
pub const LIVE_BATCH_TIME: Duration = Duration::from_millis(100);
/// A socket gets nothing new while the client's kernel lacks this many bytes.
pub const LIVE_AHEAD_BYTES: u64 = 64 << 10;
/// A larger message is left out.
pub const LIVE_MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Of a subscription's waiting messages this many of the newest are considered; the others are left out.
pub const LIVE_BEHIND_MAX: usize = 2048;
/// Streams that are shown without a recording.
pub const LIVE_STREAMS_MAX: usize = 1024;
/// Interval of reports about messages left out.
pub const LIVE_STATUS_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which a client is pinged …
pub const LIVE_PING_INTERVAL: Duration = Duration::from_secs(10);
/// … and after which a silent one counts as gone.
pub const LIVE_SILENCE_MAX: Duration = Duration::from_secs(45);
/// Longest file of a viewer.
pub const VIEWER_FILE_BYTES_MAX: u64 = 256 << 20;

/// The limits that a server can change; the others are the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// [`CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// [`ANSWERS_MAX`].
    pub answers_max: usize,
    /// [`ANSWER_BYTES_MAX`].
    pub answer_bytes_max: usize,
    /// [`HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// [`HEAD_TIMEOUT`].
    pub head_timeout: Duration,
    /// [`TURN_TIMEOUT`].
    pub turn_timeout: Duration,
    /// [`PROGRESS_TIMEOUT`].
    pub progress_timeout: Duration,
    /// [`LIVE_SOCKETS_MAX`].
    pub live_sockets_max: usize,
    /// [`LIVE_SILENCE_MAX`].
    pub live_silence_max: Duration,
}

impl ServerLimits {
    /// Those of this module.
    pub const DEFAULT: Self = Self {
        connections_max: CONNECTIONS_MAX,
        answers_max: ANSWERS_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
        handshake_timeout: HANDSHAKE_TIMEOUT,
        head_timeout: HEAD_TIMEOUT,
        turn_timeout: TURN_TIMEOUT,
        progress_timeout: PROGRESS_TIMEOUT,
        live_sockets_max: LIVE_SOCKETS_MAX,
        live_silence_max: LIVE_SILENCE_MAX,
    };
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Interval of polls for new messages of followers.
pub const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);
/// Interval at which a follower without new messages gets a comment.
pub const FOLLOW_SIGN_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum new messages of a topic that a follower gets in one poll; of more it gets the newest.
pub const FOLLOW_BEHIND_MAX: usize = 4096;

const _: () = assert!(LIVE_SOCKETS_MAX * LIVE_BATCH_BYTES_MAX <= ANSWER_BYTES_MAX);
const _: () = assert!(PIECE_BYTES <= SPARE_PIECE_BYTES_MAX);
const _: () = assert!(ANSWERS_MAX * (PIECES_WAITING_MAX + 2) * PIECE_BYTES <= ANSWER_BYTES_MAX);
const _: () = assert!(HEAD_BYTES_MAX >= 8192, "hyper's least");
