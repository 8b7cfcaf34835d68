// Reader, FrameRef, Event.

#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "layout.hpp"
#include "seat.hpp"
#include "slot.hpp"
#include "system.hpp"
#include "wake.hpp"

namespace livebag {

/// How a stream's writer is.
enum class Liveness {
    live,
    stalled,  ///< there, but no publish and no heartbeat within the reader's deadline
    gone,     ///< ended, dead, or replaced
};

/// The writer's counters.
struct Counters {
    uint64_t published = 0;
    uint64_t abandoned = 0;  ///< loans given back without publishing
    uint64_t dropped = 0;    ///< frames that the writer's program could not publish
    uint64_t publish_gap_max_nanos = 0;
    uint64_t payload_bytes_published = 0;
    uint64_t heartbeats = 0;
    uint64_t epoch = 0;
};

namespace detail {

/// A stream mapped read-only, shared by readers and frames.
struct Region {
    Name name;
    Descriptor object;
    Mapping main;
    StaticHeader header;
    uid_t owner;

    explicit Region(const std::string& text) : name(text) {
        const std::string path = name.main_path();
        object = open_object(path, O_RDONLY);
        if (!object && errno == ENOENT)
            throw Error(Errc::not_found, "there is no stream \"" + text +
                                             "\" on this machine; start its writer, or see `livebag streams`");
        if (!object && (errno == EACCES || errno == EPERM))
            throw Error(Errc::denied, "no right to read the stream \"" + text +
                                          "\"; run as its owner, or have the writer name a group "
                                          "(StreamOptions::group) that you belong to");
        if (!object) throw system_error("open", path);
        const struct stat status = status_of(object, path);
        if (!S_ISREG(status.st_mode))
            throw Error(Errc::foreign, path + " is not a regular file, so no livebag stream");
        owner = status.st_uid;
        const auto bytes = static_cast<uint64_t>(status.st_size);
        try {
            if (bytes >= main_bytes_min) main = Mapping(object, bytes, PROT_READ, path);
            header = StaticHeader::decode(text, main.start(), bytes);
        } catch (const Error& error) {
            throw Error(error.code(), "the stream \"" + text + "\" cannot be read: " + error.what());
        }
    }

    uint64_t latest() const { return load_acquire(main.start(), live_at::latest); }  // pairs with announce
    ConstSlot slot(uint64_t k) const {
        return ConstSlot{main.start() + header.geometry.slot_header_offset(k),
                         main.start() + header.geometry.payload_offset(k)};
    }
};

inline void require_checksum(const FrameHeader& frame, const uint8_t* data) {
    if (!frame.crc32c) return;
    const uint32_t found = crc32c(data, frame.payload_bytes);
    if (found != *frame.crc32c)
        throw Error(Errc::checksum, "frame " + std::to_string(frame.sequence) + " is damaged: its bytes have CRC-32C " +
                                        hex(found, 8) + ", the writer stored " + hex(*frame.crc32c, 8));
}

}  // namespace detail

/// A frame in place in shared memory. Holds the mapping, so it stays valid for as long as it lives; its bytes belong to
/// the frame only until the writer refills the slot, which `validate` detects. The memory is read-only: writing to it
/// is a SIGSEGV.
class FrameRef {
   public:
    const FrameHeader& header() const { return header_; }
    uint64_t sequence() const { return header_.sequence; }
    /// The payload, page-aligned.
    const uint8_t* data() const { return slot().payload; }
    uint64_t size() const { return header_.payload_bytes; }

    /// Whether everything read from the payload so far belongs to this frame. Ask after the work and
    /// before its result is believed.
    bool validate() const { return detail::still_whole(slot().header, header_.sequence); }

    /// How many more frames the writer can publish before it begins to overwrite this one. 0: the next
    /// fill does it, or has done it.
    uint64_t frames_left() const {
        const uint64_t overwriting = sequence() + region_->header.geometry.slot_count;
        const uint64_t filling = region_->latest() + 1;
        return overwriting > filling ? overwriting - filling : 0;
    }

    /// Copies the payload into `size()` bytes of your own; false if it was overwritten meanwhile. Throws Errc::checksum
    /// when a checksum does not match.
    bool copy_to(uint8_t* to) const {
        copy_range(to, 0, size());
        if (!validate()) return false;
        detail::require_checksum(header_, to);
        return true;
    }
    bool copy_to(std::vector<uint8_t>& buffer) const {
        buffer.resize(static_cast<size_t>(size()));
        return copy_to(buffer.data());
    }
    /// Copies a part; call `validate` when all parts are there.
    void copy_range(uint8_t* to, uint64_t offset, uint64_t bytes) const {
        if (offset > size() || bytes > size() - offset)
            throw Error(Errc::misuse, "a copy of " + std::to_string(bytes) + " bytes from " + std::to_string(offset) +
                                          " on leaves the frame of " + std::to_string(size()) + " bytes");
        detail::copy_from_shared(to, data() + offset, static_cast<size_t>(bytes));
    }

    /// Whether the payload in place matches its checksum; true when the stream carries none. A
    /// mismatch counts only if `validate` still holds afterwards.
    bool checksum_matches() const {
        return !header_.crc32c || detail::crc32c(data(), static_cast<size_t>(size())) == *header_.crc32c;
    }

   private:
    friend class Reader;
    FrameRef(std::shared_ptr<const detail::Region> region, FrameHeader header)
        : region_(std::move(region)), header_(std::move(header)) {}
    detail::ConstSlot slot() const { return region_->slot(header_.sequence); }

    std::shared_ptr<const detail::Region> region_;
    FrameHeader header_;
};

/// What `Reader::next` found.
struct Next {
    uint64_t lapped = 0;  ///< frames that were overwritten before this reader came to them
    std::optional<FrameRef> frame;
};

/// What `Reader::copy_next` found.
struct NextCopy {
    uint64_t lapped = 0;
    std::optional<FrameHeader> frame;
};

/// A descriptor for poll, epoll or an executor: readable when there are frames after the last one
/// that this event has reported. A separate thread waits on the futex and signals it.
class Event {
   public:
    Event(Event&&) = delete;
    ~Event() {
        stop_->store(true);
        detail::futex_wake_all(region_->main.start() + detail::live_at::latest);
        thread_.join();
    }

    int descriptor() const { return event_.number(); }
    /// Makes the descriptor unreadable until the next frame. Call before reading the frames.
    void clear() {
        uint64_t count = 0;
        if (::read(event_.number(), &count, sizeof count) < 0 && errno != EAGAIN)
            throw detail::system_error("read", "an eventfd");
    }

   private:
    friend class Reader;
    template <class WaitAfter>
    Event(std::shared_ptr<const detail::Region> region, uint64_t after, WaitAfter wait)
        : region_(std::move(region)), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (!event_) throw detail::system_error("create", "an eventfd");
        thread_ = std::thread([stop = stop_, region = region_, number = event_.number(), after, wait]() mutable {
            while (!stop->load()) {
                if (!wait(after)) continue;
                after = region->latest();
                const uint64_t one = 1;
                if (::write(number, &one, sizeof one) < 0 && errno != EAGAIN) return;
            }
        });
    }

    std::shared_ptr<const detail::Region> region_;
    detail::Descriptor event_;
    std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
    std::thread thread_;
};

/// A reader of a stream. Cannot disturb the writer or another reader. Copies are cheap and go their
/// own way; each is for one thread at a time.
class Reader {
   public:
    /// Opens a stream. Frames count from now on: `next` begins with the frame after the newest one; `seek` changes
    /// that.
    static Reader open(const std::string& name) { return Reader(std::make_shared<const detail::Region>(name)); }

    /// Opens a stream that may not be there yet.
    static Reader open(const std::string& name, std::chrono::nanoseconds timeout) {
        for (const uint64_t deadline = detail::deadline_after(timeout);;) {
            try {
                return open(name);
            } catch (const Error& error) {
                if (!error.is_transient() || detail::monotonic_nanos() >= deadline) throw;
            }
            detail::nap(limits::nap_nanos_max);
        }
    }

    /// Shows this reader under this name instead of its program's: its purpose. More than 32 bytes are cut.
    Reader& labelled(const std::string& label) {
        attendance_.label = label;
        attendance_.seat.reset();
        return *this;
    }
    /// Has this reader, and its copies, not shown among the stream's readers.
    Reader& unlisted() {
        attendance_.is_listed = false;
        attendance_.seat.reset();
        return *this;
    }
    /// The stream's current readers, including this one once it has read a frame. Nothing if the stream is for a group,
    /// whose readers cannot tell of themselves. A stream shows 30 readers; more can read, but are not shown.
    std::optional<std::vector<ReaderInfo>> readers() const {
        if (region_->header.always_wake) return std::nullopt;
        return detail::Seat::present(region_->name, info().instance, region_->owner, region_->latest());
    }

    const StreamInfo& info() const { return region_->header.info; }
    /// The newest complete frame; 0 = none yet.
    uint64_t latest_sequence() const { return region_->latest(); }
    /// The frame that `next` returns next, if it still exists then.
    uint64_t next_sequence() const { return cursor_ + 1; }
    /// Continues with this frame. `seek(1)` takes every frame that still exists and counts the others as lapped;
    /// `seek_oldest` does not count it.
    void seek(uint64_t sequence) { cursor_ = sequence == 0 ? 0 : sequence - 1; }
    void seek_oldest() {
        const uint64_t latest = region_->latest();
        cursor_ = latest > info().slots ? latest - info().slots : 0;
    }
    /// Frames that this reader has missed so far, as counted by `next`.
    uint64_t lapped() const { return lapped_; }

    /// Copies the newest frame; nothing when there is none yet. `between` is called in the middle of
    /// the copy. Throws Errc::overtaken when the writer was faster several times.
    template <class Between = detail::Nothing>
    std::optional<FrameHeader> copy_latest(std::vector<uint8_t>& buffer, Between between = {}) {
        seat();
        for (int attempt = 0; attempt < limits::read_attempts_max; ++attempt) {
            const uint64_t k = region_->latest();
            if (k == 0) return std::nullopt;
            FrameHeader frame;
            if (copy(k, buffer, frame, between) == detail::Outcome::whole) return taken(std::move(frame), buffer);
        }
        throw overtaken();
    }

    /// The newest frame in place; nothing when there is none yet. `FrameRef::validate` when done.
    std::optional<FrameRef> borrow_latest() {
        for (int attempt = 0; attempt < limits::read_attempts_max; ++attempt) {
            const uint64_t k = region_->latest();
            if (k == 0) return std::nullopt;
            if (std::optional<FrameHeader> header = header_of(k)) {
                cursor_ = k;
                seat().take_newest(k);
                return FrameRef(region_, std::move(*header));
            }
        }
        throw overtaken();
    }

    /// The next frame in order, in place: every frame since the last, and an exact count of those
    /// that were overwritten. The caller counts frames that fail to validate later; a damaged one throws, and the next
    /// call skips it.
    Next next() {
        Next found;
        while (const uint64_t k = step(found.lapped)) {
            if (std::optional<FrameHeader> header = header_of(k)) {
                found.frame = FrameRef(region_, std::move(*header));
                break;
            }
            ++found.lapped;
        }
        note(found.frame.has_value(), found.lapped);
        return found;
    }

    /// The next frame in order, copied. A frame overwritten during the copy counts as lapped.
    template <class Between = detail::Nothing>
    NextCopy copy_next(std::vector<uint8_t>& buffer, Between between = {}) {
        NextCopy found;
        while (const uint64_t k = step(found.lapped)) {
            FrameHeader frame;
            if (copy(k, buffer, frame, between) == detail::Outcome::whole) {
                detail::require_checksum(frame, buffer.data());
                found.frame = std::move(frame);
                break;
            }
            ++found.lapped;
        }
        note(found.frame.has_value(), found.lapped);
        return found;
    }

    /// The newest frame from `next_sequence` on, copied along while it is still being written, so that it is
    /// there a moment after the writer has finished. Waits; nothing after the timeout.
    template <class Between = detail::Nothing>
    std::optional<FrameHeader> receive(std::vector<uint8_t>& buffer, std::chrono::nanoseconds timeout,
                                       Wait way = Wait::futex, Between between = {}) {
        const uint64_t deadline = detail::deadline_after(timeout);
        seat();
        while (wait_on(detail::live_at::begun, detail::wake_at::wanted_begun, cursor_, deadline, way)) {
            const uint64_t k = std::max(load(detail::live_at::begun), region_->latest());
            FrameHeader frame;
            const auto outcome = detail::copy_along(region_->slot(k), k, info().kind, info().payload_bytes_max, buffer,
                                                    frame, between);
            if (outcome == detail::Outcome::whole) return taken(std::move(frame), buffer);
            // Given up on: sleep until it, or the one that takes its place, is complete.
            if (outcome == detail::Outcome::not_yet &&
                !wait_on(detail::live_at::latest, detail::wake_at::wanted_latest, k - 1, deadline, way))
                break;
        }
        return std::nullopt;
    }

    /// Waits for the frame `next_sequence` or a later one; false after the timeout or when the stream was replaced.
    bool wait(std::chrono::nanoseconds timeout, Wait way = Wait::futex) { return wait_after(cursor_, timeout, way); }
    /// Waits for a frame after `sequence`.
    bool wait_after(uint64_t sequence, std::chrono::nanoseconds timeout, Wait way = Wait::futex) {
        seat();
        return wait_on(detail::live_at::latest, detail::wake_at::wanted_latest, sequence,
                       detail::deadline_after(timeout), way);
    }

    /// Something that an event loop can hold, for frames from `next_sequence` on.
    std::unique_ptr<Event> event() const {
        Reader own = *this;
        return std::unique_ptr<Event>(new Event(region_, cursor_, [own](uint64_t after) mutable {
            if (own.replaced()) detail::nap(limits::sleep_nanos_max);
            return own.wait_on(detail::live_at::latest, detail::wake_at::wanted_latest, after,
                               detail::deadline_after(std::chrono::nanoseconds(limits::sleep_nanos_max)), Wait::futex);
        }));
    }

    /// How the writer is, for a deadline of this reader's own.
    Liveness liveness(std::chrono::nanoseconds deadline) const {
        if (load(detail::live_at::state) != detail::state_is::live) return Liveness::gone;
        if (detail::lock_holder(region_->object, F_RDLCK) != detail::Holder::writer) return Liveness::gone;
        const uint64_t beat = load(detail::live_at::heartbeat_monotonic_nanos);
        const uint64_t now = detail::monotonic_nanos();
        const bool late = now > beat && now - beat > static_cast<uint64_t>(std::max<int64_t>(deadline.count(), 0));
        return late ? Liveness::stalled : Liveness::live;
    }

    /// Whether another object has taken the stream's name: open it again.
    bool replaced() const { return load(detail::live_at::state) == detail::state_is::replaced; }

    Counters counters() const {
        Counters read;
        read.published = load(detail::live_at::published);
        read.abandoned = load(detail::live_at::abandoned);
        read.dropped = load(detail::live_at::dropped);
        read.publish_gap_max_nanos = load(detail::live_at::publish_gap_max_nanos);
        read.payload_bytes_published = load(detail::live_at::payload_bytes_published);
        read.heartbeats = load(detail::live_at::heartbeat_count);
        read.epoch = load(detail::live_at::epoch);
        return read;
    }

    /// The writer's process, as it saw itself: in another PID namespace the number means nothing here.
    uint64_t writer_pid() const { return load(detail::live_at::writer_pid); }

   private:
    explicit Reader(std::shared_ptr<const detail::Region> region)
        : region_(std::move(region)), cursor_(region_->latest()) {
        find_wake();
    }

    uint64_t load(size_t word) const { return detail::load_relaxed(region_->main.start(), word); }

    /// A writer that re-attaches may have made a new wake object.
    void find_wake() {
        wake_epoch_ = load(detail::live_at::epoch);
        if (!region_->header.always_wake)
            wake_ = std::make_shared<const detail::Mapping>(
                detail::open_wake(region_->name, info().instance, region_->owner));
    }

    bool wait_on(size_t word, size_t wanted, uint64_t after, uint64_t deadline, Wait way) {
        if (load(detail::live_at::epoch) != wake_epoch_) find_wake();
        const detail::Sleeper sleeper{region_->main.start(), wake_ ? wake_->start() : nullptr,
                                      region_->header.always_wake, word, wanted};
        return detail::wait_until_above(sleeper, after, deadline, way);
    }

    template <class Between>
    detail::Outcome copy(uint64_t k, std::vector<uint8_t>& buffer, FrameHeader& frame, Between& between) {
        const auto outcome = detail::copy_frame(region_->slot(k), k, info().kind, info().payload_bytes_max, buffer,
                                                frame, between);
        return require_there(outcome, k);
    }

    /// The header of a frame that is complete according to `latest`; nothing if it was overwritten.
    std::optional<FrameHeader> header_of(uint64_t k) const {
        const detail::ConstSlot slot = region_->slot(k);
        if (require_there(detail::look(slot, k), k) != detail::Outcome::whole) return std::nullopt;
        const detail::RawHeader raw = detail::load_header(slot, info().kind);
        if (!detail::still_whole(slot.header, k)) return std::nullopt;
        return raw.decode(k, info().kind, info().payload_bytes_max);
    }

    /// `latest` had `k` or more, so by its acquire load the slot must have had it.
    static detail::Outcome require_there(detail::Outcome outcome, uint64_t k) {
        if (outcome == detail::Outcome::not_yet)
            throw Error(Errc::damaged, "the stream is damaged: its newest sequence says that frame " +
                                           std::to_string(k) + " is complete, its slot does not");
        return outcome;
    }

    /// Moves the cursor to the next frame that may be whole, counting those that cannot; 0 = none.
    uint64_t step(uint64_t& lapped) {
        const uint64_t latest = region_->latest();
        if (latest <= cursor_) return 0;
        const uint64_t oldest = latest > info().slots ? latest - info().slots + 1 : 1;
        const uint64_t k = std::max(cursor_ + 1, oldest);
        lapped += k - cursor_ - 1;
        return cursor_ = k;
    }

    std::optional<FrameHeader> taken(FrameHeader frame, const std::vector<uint8_t>& buffer) {
        detail::require_checksum(frame, buffer.data());
        cursor_ = frame.sequence;
        seat().take_newest(cursor_);
        return frame;
    }

    /// This reader's entry in the table of readers, taken at the first read of a frame.
    const detail::Seat& seat() {
        if (!attendance_.seat)
            attendance_.seat = std::make_unique<detail::Seat>(
                attendance_.is_listed && !region_->header.always_wake
                    ? detail::Seat::take(region_->name, info().instance, region_->owner, attendance_.label, cursor_)
                    : detail::Seat());
        return *attendance_.seat;
    }

    /// What one call found in order.
    void note(bool has_frame, uint64_t lapped) {
        lapped_ += lapped;
        const detail::Seat& own = seat();
        if (has_frame || lapped > 0) own.advance(has_frame, lapped, cursor_);
    }

    static Error overtaken() {
        return Error(Errc::overtaken, "the writer overtook this reader " + std::to_string(limits::read_attempts_max) +
                                          " times in a row; read faster, or create the stream with more slots");
    }

    std::shared_ptr<const detail::Region> region_;
    std::shared_ptr<const detail::Mapping> wake_;
    uint64_t wake_epoch_ = 0;
    uint64_t cursor_ = 0;  // the newest frame taken or passed over
    uint64_t lapped_ = 0;
    detail::Attendance attendance_;
};

}  // namespace livebag
