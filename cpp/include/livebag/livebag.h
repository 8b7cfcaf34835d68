/* The recorder and queries of livebag for C (docs/cpp.md). Made by cbindgen from crates/livebag-c:
 * LIVEBAG_BLESS=1 cargo test -p livebag-c writes it anew.
 *
 * Every function that can fail returns a livebag_status; livebag_last_error() has the text. An object that a
 * function returns through a pointer named `out` belongs to the caller, who frees it with the function that the
 * type names. A const char * or const uint8_t * that a function returns belongs to livebag, and is valid as long
 * as the comment says. Texts given to a function are UTF-8 and end with a zero. Pointers may be NULL only if the
 * comment says so; an unexpected NULL gives LIVEBAG_STATUS_INVALID. Recordings, recorders and writers may be used
 * by several threads at once, a cursor or a report by one at a time. */


#ifndef LIVEBAG_LIVEBAG_H
#define LIVEBAG_LIVEBAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Rises when a program that was built for an earlier version would break.
 */
#define LIVEBAG_ABI_VERSION 1

/**
 * How a call ended. `livebag_last_error` has the text of everything but OK, END and TIMEOUT.
 */
typedef enum {
  /**
   * Done.
   */
  LIVEBAG_STATUS_OK = 0,
  /**
   * There are no more messages. Not an error.
   */
  LIVEBAG_STATUS_END = 1,
  /**
   * An argument makes no sense: NULL where it may not be, text that is not UTF-8, a number out of range.
   */
  LIVEBAG_STATUS_INVALID = 2,
  /**
   * There is no such recording, or it is no livebag recording.
   */
  LIVEBAG_STATUS_NOT_FOUND = 3,
  /**
   * The recording has no such topic.
   */
  LIVEBAG_STATUS_NO_TOPIC = 4,
  /**
   * The recording is damaged there.
   */
  LIVEBAG_STATUS_DAMAGED = 5,
  /**
   * The message was dropped, and counted as lost: the topic's queue was full.
   */
  LIVEBAG_STATUS_FULL = 6,
  /**
   * The recorder has stopped, or has been finished.
   */
  LIVEBAG_STATUS_CLOSED = 7,
  /**
   * The disk or the system refused.
   */
  LIVEBAG_STATUS_IO = 8,
  /**
   * The recording ended early; messages written before are kept and readable.
   */
  LIVEBAG_STATUS_FAILED = 9,
  /**
   * A fault of livebag itself; the handle must not be used any more, only freed.
   */
  LIVEBAG_STATUS_INTERNAL = 10,
  /**
   * Nothing came in the time that was given. Not an error.
   */
  LIVEBAG_STATUS_TIMEOUT = 11,
} livebag_status;

/**
 * What becomes of a message for which there is no room in memory.
 */
typedef enum {
  /**
   * It is dropped and counted; livebag_write says LIVEBAG_STATUS_FULL.
   */
  LIVEBAG_WHEN_FULL_DROP_NEWEST = 0,
  /**
   * Older messages of lower or equal priority are dropped and counted.
   */
  LIVEBAG_WHEN_FULL_DROP_OLDEST = 1,
  /**
   * livebag_write waits.
   */
  LIVEBAG_WHEN_FULL_BLOCK = 2,
} livebag_when_full;

/**
 * How chunks of small messages are compressed.
 */
typedef enum {
  /**
   * Not at all.
   */
  LIVEBAG_COMPRESSION_NONE = 0,
  /**
   * LZ4: fast.
   */
  LIVEBAG_COMPRESSION_LZ4 = 1,
  /**
   * Zstandard: small.
   */
  LIVEBAG_COMPRESSION_ZSTD = 2,
} livebag_compression;

/**
 * The answer to a query, oldest message first. Freed by livebag_cursor_free; may outlive its recording.
 */
typedef struct livebag_cursor livebag_cursor;

/**
 * A recording in progress. Freed by livebag_recorder_free, which finishes it if necessary.
 */
typedef struct livebag_recorder livebag_recorder;

/**
 * A recording, whether a recorder is writing it or not. Freed by livebag_close.
 */
typedef struct livebag_recording livebag_recording;

/**
 * State of a recorder. Freed by livebag_report_free.
 */
typedef struct livebag_report livebag_report;

/**
 * Records messages of one topic, from any thread. Freed by livebag_writer_free; may outlive its recorder.
 */
typedef struct livebag_writer livebag_writer;

/**
 * How to record. Start with livebag_record_options_default(), and change the fields you need.
 */
typedef struct {
  /**
   * Memory for messages that wait for the disk; 0: livebag's default.
   */
  uint64_t cache_bytes;
  /**
   * A livebag_when_full.
   */
  uint32_t when_full;
  /**
   * A livebag_compression.
   */
  uint32_t compression;
  /**
   * Whether messages get checksums.
   */
  bool checksum;
  /**
   * Whether it begins paused.
   */
  bool start_paused;
  /**
   * A new split at this many bytes; 0: no.
   */
  uint64_t split_bytes;
  /**
   * A new split after this time; 0: no.
   */
  uint64_t split_nanos;
  /**
   * Splits that are kept, the oldest are removed; 0: all.
   */
  uint32_t splits_max;
  /**
   * Bytes that are kept, the oldest splits are removed; 0: all.
   */
  uint64_t total_bytes_max;
  /**
   * Name of the one MCAP file for all topics; NULL: a file per topic.
   */
  const char *one_file;
} livebag_record_options;

/**
 * A topic of this process's own.
 */
typedef struct {
  /**
   * Topic name, for example "/imu".
   */
  const char *name;
  /**
   * For example "sensor_msgs/msg/Imu"; NULL or empty: none.
   */
  const char *type_name;
  /**
   * For example "cdr" or "json"; NULL or empty: none.
   */
  const char *message_encoding;
  /**
   * For example "ros2msg"; NULL or empty: none.
   */
  const char *schema_encoding;
  /**
   * Definition of the type. NULL: of a "cdr" topic livebag's own, if it has one, else none.
   */
  const uint8_t *schema;
  /**
   * Its length.
   */
  size_t schema_bytes;
} livebag_topic_description;

/**
 * Messages lost, by cause.
 */
typedef struct {
  /**
   * Missing in the source's sequence when they reached livebag.
   */
  uint64_t transport;
  /**
   * Dropped because the topic's queue was full.
   */
  uint64_t queue;
  /**
   * Overwritten in the stream's slot before the device had them.
   */
  uint64_t lapped;
  /**
   * Refused by the disk.
   */
  uint64_t disk;
  /**
   * Discarded at the end, on request.
   */
  uint64_t abandoned;
  /**
   * Sum of the above.
   */
  uint64_t total;
} livebag_losses;

/**
 * Counts of a topic's messages. Texts are valid as long as the report.
 */
typedef struct {
  /**
   * Topic name.
   */
  const char *name;
  /**
   * Its type; may be empty.
   */
  const char *type_name;
  /**
   * Messages committed: on the disk and in the time index.
   */
  uint64_t messages;
  /**
   * Bytes of those.
   */
  uint64_t bytes;
  /**
   * Left out on purpose: while paused, or more often than asked for.
   */
  uint64_t skipped;
  /**
   * Messages lost.
   */
  livebag_losses lost;
  /**
   * Whether the stream's writer has died.
   */
  bool writer_gone;
} livebag_topic_report;

/**
 * A topic of a recording. Its pointers are valid as long as the recording or cursor that returned it.
 */
typedef struct {
  /**
   * Topic name, for example "/imu".
   */
  const char *name;
  /**
   * For example "sensor_msgs/msg/Imu"; may be empty.
   */
  const char *type_name;
  /**
   * For example "cdr".
   */
  const char *message_encoding;
  /**
   * For example "ros2msg"; may be empty.
   */
  const char *schema_encoding;
  /**
   * Definition of the type, not ended by a zero; may be empty.
   */
  const uint8_t *schema;
  /**
   * Its length.
   */
  size_t schema_bytes;
  /**
   * Messages committed so far.
   */
  uint64_t message_count;
  /**
   * Messages lost.
   */
  livebag_losses lost;
} livebag_topic;

/**
 * A message. `data` lives until the cursor is moved or freed.
 */
typedef struct {
  /**
   * Number of its topic: see livebag_cursor_topic_at, and livebag_topic_at for topics that were there
   * when the recording was opened.
   */
  size_t topic;
  /**
   * When the recorder took it; nanoseconds since the Unix epoch.
   */
  uint64_t log_time_nanos;
  /**
   * When its source stamped it; nanoseconds since the Unix epoch.
   */
  uint64_t publish_time_nanos;
  /**
   * The source's count; 0 if it keeps none.
   */
  uint64_t sequence;
  /**
   * The encoded message.
   */
  const uint8_t *data;
  /**
   * Its length.
   */
  size_t data_bytes;
} livebag_message;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The `LIVEBAG_ABI_VERSION` of the library that is running: compare it with that of the header.
 */
uint32_t livebag_abi_version(void);

/**
 * The version of livebag, for example "0.1.0"; never freed.
 */
const char *livebag_version(void);

/**
 * Why the last call of this thread that did not end with OK, END or TIMEOUT failed; empty if none has. Lives until
 * the next call of this thread that fails.
 */
const char *livebag_last_error(void);

/**
 * The default options.
 */
livebag_record_options livebag_record_options_default(void);

/**
 * Begins a recording in the new folder `path`; `options` may be NULL.
 *
 * # Safety
 * `path` ends with a zero; `options` is NULL or valid; `out` may be written.
 */
livebag_status livebag_record(const char *path,
                              const livebag_record_options *options,
                              livebag_recorder **out);

/**
 * Records the shared-memory streams with these names, now and when they appear later; all if
 * `name_count` is 0.
 *
 * # Safety
 * `recorder` is valid; `stream_names` has `name_count` texts.
 */
livebag_status livebag_recorder_follow(const livebag_recorder *recorder,
                                       const char *const *stream_names,
                                       size_t name_count);

/**
 * Adds a topic of this process's own.
 *
 * # Safety
 * `recorder` and `topic` are valid, with the texts that `topic` names; `out` may be written.
 */
livebag_status livebag_recorder_topic(const livebag_recorder *recorder,
                                      const livebag_topic_description *topic,
                                      livebag_writer **out);

/**
 * Records a message with the present time as its log time; its publish time is the same if
 * `publish_time_nanos` is NULL. Copies `data`; other threads may write at the same time.
 *
 * # Safety
 * `writer` is valid; `publish_time_nanos` is NULL or valid; `data` has `data_bytes` bytes.
 */
livebag_status livebag_write(const livebag_writer *writer,
                             const uint64_t *publish_time_nanos,
                             uint64_t sequence,
                             const uint8_t *data,
                             size_t data_bytes);

/**
 * The same with a given log time, unless `log_time_nanos` is NULL. Log times never decrease within a topic: an earlier
 * one is raised.
 *
 * # Safety
 * As of livebag_write.
 */
livebag_status livebag_write_at(const livebag_writer *writer,
                                const uint64_t *log_time_nanos,
                                const uint64_t *publish_time_nanos,
                                uint64_t sequence,
                                const uint8_t *data,
                                size_t data_bytes);

/**
 * Frees a writer; NULL is nothing. Messages already written are recorded.
 *
 * # Safety
 * `writer` is NULL or valid, and is not used afterwards.
 */
void livebag_writer_free(livebag_writer *writer);

/**
 * Leaves messages out until livebag_recorder_resume; they are counted as skipped.
 *
 * # Safety
 * `recorder` is valid.
 */
livebag_status livebag_recorder_pause(const livebag_recorder *recorder);

/**
 * Continues after livebag_recorder_pause.
 *
 * # Safety
 * `recorder` is valid.
 */
livebag_status livebag_recorder_resume(const livebag_recorder *recorder);

/**
 * Begins a new split.
 *
 * # Safety
 * `recorder` is valid.
 */
livebag_status livebag_recorder_split(const livebag_recorder *recorder);

/**
 * Names the log times from `from_nanos` to `to_nanos`, nanoseconds since 1970 and both included, with a few
 * words of `text`, which may be NULL; both 0: the present moment. The event is on the disk afterwards.
 *
 * # Safety
 * `recorder` is valid; `name` and `text` are NULL or texts.
 */
livebag_status livebag_recorder_event(const livebag_recorder *recorder,
                                      const char *name,
                                      const char *text,
                                      uint64_t from_nanos,
                                      uint64_t to_nanos);

/**
 * How the recording stands.
 *
 * # Safety
 * `recorder` is valid; `out` may be written.
 */
livebag_status livebag_recorder_report(const livebag_recorder *recorder, livebag_report **out);

/**
 * Records messages published until now, and closes the recording. `out` gets the last report, also if FAILED comes
 * back because the recording had ended early; it may be NULL. Free the recorder afterwards.
 *
 * # Safety
 * `recorder` is valid; `out` is NULL or may be written.
 */
livebag_status livebag_recorder_finish(const livebag_recorder *recorder,
                                       livebag_report **out);

/**
 * Frees a recorder; NULL is nothing. One that has not been finished is finished first.
 *
 * # Safety
 * `recorder` is NULL or valid, and is not used afterwards.
 */
void livebag_recorder_free(livebag_recorder *recorder);

/**
 * Topics of a report.
 *
 * # Safety
 * `report` is valid; NULL gives 0.
 */
size_t livebag_report_topic_count(const livebag_report *report);

/**
 * A topic of a report by its number, from 0 on.
 *
 * # Safety
 * `report` is valid; `out` may be written.
 */
livebag_status livebag_report_topic_at(const livebag_report *report,
                                       size_t number,
                                       livebag_topic_report *out);

/**
 * The first failure, which ended the recording, or NULL. Valid as long as the report.
 *
 * # Safety
 * `report` is valid; NULL gives NULL.
 */
const char *livebag_report_failure(const livebag_report *report);

/**
 * Frees a report; NULL is nothing.
 *
 * # Safety
 * `report` is NULL or valid, and is not used afterwards.
 */
void livebag_report_free(livebag_report *report);

/**
 * Opens a recording: a livebag container, also one that is being written. One whose recorder died is
 * recovered first. Bags of other makes (MCAP files, rosbag2, ROS 1) are NOT_FOUND: `livebag convert IN OUT`
 * makes containers of them.
 *
 * # Safety
 * `path` ends with a zero; `out` may be written.
 */
livebag_status livebag_open(const char *path,
                            livebag_recording **out);

/**
 * Closes a recording; NULL is nothing.
 *
 * # Safety
 * `recording` is NULL or open, and is not used afterwards.
 */
void livebag_close(livebag_recording *recording);

/**
 * Whether the recording was being written when it was opened.
 *
 * # Safety
 * `recording` is open; NULL gives false.
 */
bool livebag_is_live(const livebag_recording *recording);

/**
 * Topics when the recording was opened: a topic that came later is seen by opening it again.
 *
 * # Safety
 * `recording` is open; NULL gives 0.
 */
size_t livebag_topic_count(const livebag_recording *recording);

/**
 * A topic by its number, from 0 on.
 *
 * # Safety
 * `recording` is open; `out` may be written.
 */
livebag_status livebag_topic_at(const livebag_recording *recording,
                                size_t number,
                                livebag_topic *out);

/**
 * Asks for the messages of `topics` (all if `topic_count` is 0) from one log time to another, both
 * included: 0 and UINT64_MAX for everything. Messages that a recorder commits afterwards are not part of the answer.
 *
 * # Safety
 * `recording` is open; `topics` has `topic_count` texts; `out` may be written.
 */
livebag_status livebag_history(const livebag_recording *recording,
                               const char *const *topics,
                               size_t topic_count,
                               uint64_t from_nanos,
                               uint64_t to_nanos,
                               livebag_cursor **out);

/**
 * Asks for the messages of `topics` (all if `topic_count` is 0) of the time before the newest of them,
 * which is always among them.
 *
 * # Safety
 * As of livebag_history.
 */
livebag_status livebag_latest(const livebag_recording *recording,
                              const char *const *topics,
                              size_t topic_count,
                              uint64_t last_nanos,
                              livebag_cursor **out);

/**
 * Asks for the messages of `topics` (all if `topic_count` is 0) that are committed from now on; with
 * `last_nanos` also for those of that time before the newest. The cursor ends when the recording does. A
 * topic may be named before a running recording has it. A message can be had 0.1 s after it was recorded.
 *
 * # Safety
 * As of livebag_history; `last_nanos` is NULL or may be read.
 */
livebag_status livebag_follow(const livebag_recording *recording,
                              const char *const *topics,
                              size_t topic_count,
                              const uint64_t *last_nanos,
                              livebag_cursor **out);

/**
 * The next message, or END. A message that is damaged is left out and counted. On a cursor of
 * livebag_follow it waits for one until the recording ends.
 *
 * # Safety
 * `cursor` is valid and used only by this thread; `out` may be written.
 */
livebag_status livebag_next(livebag_cursor *cursor, livebag_message *out);

/**
 * The same, waiting at most for this time: TIMEOUT if there was no message. 0 polls once and does not wait.
 *
 * # Safety
 * As of livebag_next.
 */
livebag_status livebag_next_within(livebag_cursor *cursor,
                                   uint64_t timeout_nanos,
                                   livebag_message *out);

/**
 * The topic of a message that the cursor gave, by its number; `message_count` and `lost` as of the cursor's last poll
 * of the recording.
 *
 * # Safety
 * `cursor` is valid and used only by this thread; `out` may be written.
 */
livebag_status livebag_cursor_topic_at(livebag_cursor *cursor,
                                       size_t number,
                                       livebag_topic *out);

/**
 * Damaged messages left out so far.
 *
 * # Safety
 * `cursor` is valid and used only by this thread; NULL gives 0.
 */
uint64_t livebag_damaged(const livebag_cursor *cursor);

/**
 * Frees a cursor; NULL is nothing.
 *
 * # Safety
 * `cursor` is NULL or valid, and is not used afterwards.
 */
void livebag_cursor_free(livebag_cursor *cursor);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIVEBAG_LIVEBAG_H */
