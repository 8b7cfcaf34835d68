/* livebag.h is C: records three messages and reads them back. */

#include <livebag/livebag.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                                     \
    if (!(condition)) {                                                                      \
        fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, livebag_last_error());    \
        return 1;                                                                            \
    }

int main(int argc, char **argv) {
    livebag_recorder *recorder = NULL;
    livebag_writer *writer = NULL;
    livebag_report *report = NULL;
    livebag_recording *recording = NULL;
    livebag_cursor *cursor = NULL, *follower = NULL;
    livebag_message message;
    livebag_topic found;
    const uint64_t everything = UINT64_MAX;
    livebag_topic_report of_topic;
    livebag_topic_description topic = {.name = "/note", .message_encoding = "json"};
    const char *const names[] = {"/note"};
    int count = 0;

    CHECK(argc == 2);
    CHECK(livebag_record(argv[1], NULL, &recorder) == LIVEBAG_STATUS_OK);
    CHECK(livebag_recorder_topic(recorder, &topic, &writer) == LIVEBAG_STATUS_OK);
    for (uint64_t k = 1; k <= 3; ++k)
        CHECK(livebag_write(writer, NULL, k, (const uint8_t *)"{}", 2) == LIVEBAG_STATUS_OK);
    livebag_writer_free(writer);
    CHECK(livebag_recorder_event(recorder, "now", NULL, 0, 0) == LIVEBAG_STATUS_OK);
    CHECK(livebag_recorder_event(recorder, "then", "a few words", 5, 7) == LIVEBAG_STATUS_OK);
    CHECK(livebag_recorder_event(recorder, "", NULL, 0, 0) == LIVEBAG_STATUS_INVALID);
    CHECK(livebag_recorder_event(recorder, "backwards", NULL, 7, 5) == LIVEBAG_STATUS_INVALID);
    CHECK(livebag_recorder_finish(recorder, &report) == LIVEBAG_STATUS_OK);
    CHECK(livebag_report_topic_at(report, 0, &of_topic) == LIVEBAG_STATUS_OK);
    CHECK(of_topic.messages == 3 && of_topic.lost.total == 0 && strcmp(of_topic.name, "/note") == 0);
    livebag_report_free(report);
    livebag_recorder_free(recorder);

    CHECK(livebag_open(argv[1], &recording) == LIVEBAG_STATUS_OK);
    CHECK(livebag_history(recording, names, 1, 0, UINT64_MAX, &cursor) == LIVEBAG_STATUS_OK);
    CHECK(livebag_follow(recording, names, 1, &everything, &follower) == LIVEBAG_STATUS_OK);
    livebag_close(recording); /* the cursors outlive it */
    CHECK(livebag_next_within(follower, 0, &message) == LIVEBAG_STATUS_OK && message.sequence == 1);
    CHECK(livebag_cursor_topic_at(follower, message.topic, &found) == LIVEBAG_STATUS_OK);
    CHECK(strcmp(found.name, "/note") == 0 && found.message_count == 3);
    CHECK(livebag_next(follower, &message) == LIVEBAG_STATUS_OK && message.sequence == 2);
    CHECK(livebag_next(follower, &message) == LIVEBAG_STATUS_OK && message.sequence == 3);
    CHECK(livebag_next(follower, &message) == LIVEBAG_STATUS_END); /* it is finished: nothing will come */
    livebag_cursor_free(follower);
    while (livebag_next(cursor, &message) == LIVEBAG_STATUS_OK) {
        ++count;
        CHECK(message.sequence == (uint64_t)count && message.data_bytes == 2);
    }
    livebag_cursor_free(cursor);
    CHECK(count == 3);
    return 0;
}
