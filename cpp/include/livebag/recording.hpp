// Recording and asking recordings, in C++17 over livebag.h: link livebag::recording (docs/cpp.md).
//
//     livebag::Recording run("run1");                          // also while it is being recorded
//     for (const livebag::Message& imu : run.latest(std::chrono::seconds(1), {"/imu"})) use(imu);
//     for (const livebag::Message& imu : run.follow({"/imu"})) use(imu);   // until the recording ends
//
// Every object here frees its resources, can be moved but not copied, and throws livebag::RecordingError, a
// livebag::Error. A Message is valid until its Messages is moved on.

#pragma once

#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "livebag.h"
#include "stream/error.hpp"

namespace livebag {

/// A call to the engine that failed. status() is the exact cause, code() the nearest that streams know.
class RecordingError : public Error {
   public:
    RecordingError(livebag_status status, const std::string& text) : Error(code_of(status), text), status_(status) {}

    livebag_status status() const noexcept { return status_; }

   private:
    static Errc code_of(livebag_status status) {
        switch (status) {
            case LIVEBAG_STATUS_INVALID: return Errc::bad_option;
            case LIVEBAG_STATUS_NOT_FOUND:
            case LIVEBAG_STATUS_NO_TOPIC: return Errc::not_found;
            case LIVEBAG_STATUS_DAMAGED: return Errc::damaged;
            case LIVEBAG_STATUS_CLOSED: return Errc::misuse;
            default: return Errc::system;
        }
    }

    livebag_status status_;
};

namespace detail {

inline void check(livebag_status status) {
    if (status != LIVEBAG_STATUS_OK) throw RecordingError(status, livebag_last_error());
}

template <auto Free>
struct Freed {
    template <typename T>
    void operator()(T* handle) const noexcept {
        Free(handle);
    }
};

template <typename T, auto Free>
using Handle = std::unique_ptr<T, Freed<Free>>;

inline std::vector<const char*> pointers(const std::vector<std::string>& texts) {
    std::vector<const char*> all;
    for (const std::string& text : texts) all.push_back(text.c_str());
    return all;
}

}  // namespace detail

/// A message of a recording. Times are nanoseconds since the Unix epoch.
struct Message {
    std::size_t topic = 0;  ///< number for Messages::topic(), and in Recording::topics() if it was there then
    std::uint64_t log_time_nanos = 0;
    std::uint64_t publish_time_nanos = 0;
    std::uint64_t sequence = 0;  ///< the source's count; 0 if it keeps none
    const std::uint8_t* data = nullptr;
    std::size_t data_bytes = 0;

    std::string_view text() const { return {reinterpret_cast<const char*>(data), data_bytes}; }
};

/// A topic of a recording.
struct RecordedTopic {
    std::string name;
    std::string type_name;
    std::string message_encoding;
    std::string schema_encoding;
    std::string schema;
    std::uint64_t message_count = 0;
    livebag_losses lost{};
};

namespace detail {

inline RecordedTopic taken(const livebag_topic& found) {
    std::string schema(reinterpret_cast<const char*>(found.schema), found.schema_bytes);
    return {found.name,        found.type_name,     found.message_encoding, found.schema_encoding,
            std::move(schema), found.message_count, found.lost};
}

inline Message taken(const livebag_message& found) {
    return {found.topic,    found.log_time_nanos, found.publish_time_nanos,
            found.sequence, found.data,           found.data_bytes};
}

}  // namespace detail

/// The answer to a query, oldest message first: a range that is walked once, by one thread at a time.
class Messages {
   public:
    class iterator {
       public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Message;
        using difference_type = std::ptrdiff_t;
        using pointer = const Message*;
        using reference = const Message&;

        reference operator*() const { return message_; }
        pointer operator->() const { return &message_; }
        iterator& operator++() {
            step();
            return *this;
        }
        void operator++(int) { step(); }
        bool operator==(const iterator& other) const { return cursor_ == other.cursor_; }
        bool operator!=(const iterator& other) const { return cursor_ != other.cursor_; }

       private:
        friend class Messages;
        explicit iterator(livebag_cursor* cursor) : cursor_(cursor) {
            if (cursor_ != nullptr) step();
        }

        void step() {
            livebag_message found{};
            const livebag_status status = livebag_next(cursor_, &found);
            if (status == LIVEBAG_STATUS_END) {
                cursor_ = nullptr;
                return;
            }
            detail::check(status);
            message_ = detail::taken(found);
        }

        livebag_cursor* cursor_;
        Message message_;
    };

    explicit Messages(livebag_cursor* cursor) : cursor_(cursor) {}

    iterator begin() { return iterator(cursor_.get()); }
    iterator end() { return iterator(nullptr); }

    /// The next message. If a followed recording has none, it waits at most for this time, and then returns nothing; so
    /// it does after the last message (ended()).
    std::optional<Message> next(std::chrono::nanoseconds timeout) {
        const auto nanos = static_cast<std::uint64_t>(timeout.count() < 0 ? 0 : timeout.count());
        livebag_message found{};
        const livebag_status status = livebag_next_within(cursor_.get(), nanos, &found);
        ended_ = status == LIVEBAG_STATUS_END;
        if (ended_ || status == LIVEBAG_STATUS_TIMEOUT) return std::nullopt;
        detail::check(status);
        return detail::taken(found);
    }

    /// Whether next() has found that there are no more messages.
    bool ended() const { return ended_; }

    /// The topic of a message, by Message::topic: also of one that came after Recording was opened.
    RecordedTopic topic(std::size_t number) const {
        livebag_topic found{};
        detail::check(livebag_cursor_topic_at(cursor_.get(), number, &found));
        return detail::taken(found);
    }

    /// Damaged messages left out so far.
    std::uint64_t damaged() const { return livebag_damaged(cursor_.get()); }

   private:
    detail::Handle<livebag_cursor, livebag_cursor_free> cursor_;
    bool ended_ = false;
};

/// A recording, whether a recorder is writing it or not.
class Recording {
   public:
    explicit Recording(const std::string& path) {
        livebag_recording* opened = nullptr;
        detail::check(livebag_open(path.c_str(), &opened));
        recording_.reset(opened);
    }

    /// Whether it was being written when it was opened.
    bool is_live() const { return livebag_is_live(recording_.get()); }

    /// Topics when it was opened, with the messages committed by now.
    std::vector<RecordedTopic> topics() const {
        std::vector<RecordedTopic> all;
        for (std::size_t number = 0; number < livebag_topic_count(recording_.get()); ++number) {
            livebag_topic found{};
            detail::check(livebag_topic_at(recording_.get(), number, &found));
            all.push_back(detail::taken(found));
        }
        return all;
    }

    /// Messages of these topics (all if there are none) from one log time to another, both included.
    Messages history(const std::vector<std::string>& topics = {}, std::uint64_t from_nanos = 0,
                     std::uint64_t to_nanos = UINT64_MAX) const {
        const std::vector<const char*> names = detail::pointers(topics);
        livebag_cursor* cursor = nullptr;
        detail::check(
            livebag_history(recording_.get(), names.data(), names.size(), from_nanos, to_nanos, &cursor));
        return Messages(cursor);
    }

    /// Messages of these topics (all if there are none) of the time before the newest of them.
    Messages latest(std::chrono::nanoseconds last, const std::vector<std::string>& topics = {}) const {
        const std::vector<const char*> names = detail::pointers(topics);
        const auto nanos = static_cast<std::uint64_t>(last.count() < 0 ? 0 : last.count());
        livebag_cursor* cursor = nullptr;
        detail::check(livebag_latest(recording_.get(), names.data(), names.size(), nanos, &cursor));
        return Messages(cursor);
    }

    /// Messages of these topics (all if there are none) that are committed from now on, or from `last` before
    /// the newest on, until the recording ends.
    Messages follow(const std::vector<std::string>& topics = {},
                    std::optional<std::chrono::nanoseconds> last = std::nullopt) const {
        const std::vector<const char*> names = detail::pointers(topics);
        const auto nanos = static_cast<std::uint64_t>(last && last->count() > 0 ? last->count() : 0);
        livebag_cursor* cursor = nullptr;
        detail::check(livebag_follow(recording_.get(), names.data(), names.size(), last ? &nanos : nullptr, &cursor));
        return Messages(cursor);
    }

   private:
    detail::Handle<livebag_recording, livebag_close> recording_;
};

/// Counts of a topic's messages.
struct TopicReport {
    std::string name;
    std::string type_name;
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t skipped = 0;
    livebag_losses lost{};
    bool writer_gone = false;
};

/// State of a recorder.
struct Report {
    std::vector<TopicReport> topics;
    std::optional<std::string> failure;  ///< what ended the recording, if something did

    std::uint64_t lost() const {
        std::uint64_t sum = 0;
        for (const TopicReport& topic : topics) sum += topic.lost.total;
        return sum;
    }
};

/// Records messages of one topic, from any thread.
class TopicWriter {
   public:
    explicit TopicWriter(livebag_writer* writer) : writer_(writer) {}

    /// Records a message now. Returns false if there was no room: it is counted as lost.
    bool write(const void* data, std::size_t bytes, std::uint64_t sequence = 0,
               std::optional<std::uint64_t> publish_time_nanos = std::nullopt,
               std::optional<std::uint64_t> log_time_nanos = std::nullopt) const {
        const livebag_status status =
            livebag_write_at(writer_.get(), log_time_nanos ? &*log_time_nanos : nullptr,
                             publish_time_nanos ? &*publish_time_nanos : nullptr, sequence,
                             static_cast<const std::uint8_t*>(data), bytes);
        if (status == LIVEBAG_STATUS_FULL) return false;
        detail::check(status);
        return true;
    }

   private:
    detail::Handle<livebag_writer, livebag_writer_free> writer_;
};

/// A topic of this process's own.
struct NewTopic {
    std::string name;
    std::string type_name{};
    std::string message_encoding = "cdr";
    std::string schema_encoding{};
    std::string schema{};  ///< may be left out for the ROS 2 types that livebag knows
};

/// A recording in progress; its destructor finishes it. finish() returns the final counts.
class Recorder {
   public:
    explicit Recorder(const std::string& path,
                      const livebag_record_options& options = livebag_record_options_default()) {
        livebag_recorder* made = nullptr;
        detail::check(livebag_record(path.c_str(), &options, &made));
        recorder_.reset(made);
    }

    /// Records streams of this machine by name, now and when they appear later; all without a name.
    void follow(const std::vector<std::string>& streams = {}) const {
        const std::vector<const char*> names = detail::pointers(streams);
        detail::check(livebag_recorder_follow(recorder_.get(), names.data(), names.size()));
    }

    TopicWriter topic(const NewTopic& topic) const {
        const livebag_topic_description description = {
            topic.name.c_str(),
            topic.type_name.c_str(),
            topic.message_encoding.c_str(),
            topic.schema_encoding.c_str(),
            reinterpret_cast<const std::uint8_t*>(topic.schema.data()),
            topic.schema.size(),
        };
        livebag_writer* writer = nullptr;
        detail::check(livebag_recorder_topic(recorder_.get(), &description, &writer));
        return TopicWriter(writer);
    }

    void pause() const { detail::check(livebag_recorder_pause(recorder_.get())); }
    void resume() const { detail::check(livebag_recorder_resume(recorder_.get())); }
    void split() const { detail::check(livebag_recorder_split(recorder_.get())); }

    /// Names the present moment, or a time range: log times in nanoseconds since 1970, both included.
    void event(const std::string& name, const std::string& text = {}, std::uint64_t from_nanos = 0,
               std::uint64_t to_nanos = 0) const {
        detail::check(livebag_recorder_event(recorder_.get(), name.c_str(), text.c_str(), from_nanos,
                                             to_nanos));
    }

    Report report() const {
        livebag_report* report = nullptr;
        detail::check(livebag_recorder_report(recorder_.get(), &report));
        return taken(report);
    }

    /// Records messages published until now, and closes the recording.
    Report finish() const {
        livebag_report* report = nullptr;
        const livebag_status status = livebag_recorder_finish(recorder_.get(), &report);
        const detail::Handle<livebag_report, livebag_report_free> held(report);
        detail::check(status);
        return read(held.get());
    }

   private:
    static Report taken(livebag_report* report) {
        const detail::Handle<livebag_report, livebag_report_free> held(report);
        return read(held.get());
    }

    static Report read(const livebag_report* report) {
        Report all;
        for (std::size_t number = 0; number < livebag_report_topic_count(report); ++number) {
            livebag_topic_report found{};
            detail::check(livebag_report_topic_at(report, number, &found));
            all.topics.push_back({found.name, found.type_name, found.messages, found.bytes, found.skipped,
                                  found.lost, found.writer_gone});
        }
        if (const char* failure = livebag_report_failure(report)) all.failure = failure;
        return all;
    }

    detail::Handle<livebag_recorder, livebag_recorder_free> recorder_;
};

}  // namespace livebag
