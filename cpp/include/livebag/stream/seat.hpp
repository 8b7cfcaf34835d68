// The table of readers: their names, positions and missed frames (docs/stream-layout.md, section 4.1).
//
// The table is in the wake object, the only memory that readers may write. Only displays use it: the writer never reads
// it, and no address is computed from it. An entry belongs to the process that holds the kernel's lock on its bytes.
// The lock ends with the process, in any PID namespace.

#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout.hpp"
#include "limits.hpp"
#include "slot.hpp"
#include "system.hpp"
#include "wake.hpp"

namespace livebag {

/// A reader of a stream, as it tells of itself. Information, not proof.
struct ReaderInfo {
    uint32_t pid = 0;          ///< as its process sees itself: in another PID namespace it means nothing here
    uint64_t start_ticks = 0;  ///< when that process started, in clock ticks since boot; 0 if unknown
    std::string label;         ///< what it calls itself, or its program's name; at most 32 bytes, as they are
    uint64_t taken = 0;        ///< frames taken
    /// Frames that were overwritten before `Reader::next` came to them. Readers of the newest frame pass
    /// others over on purpose, and count none.
    uint64_t lapped = 0;
    uint64_t last_sequence = 0;          ///< the newest frame taken or passed over
    uint64_t behind = 0;                 ///< frames published since
    std::optional<uint64_t> idle_nanos;  ///< since it took its last frame; nothing if it has taken none
};

namespace detail {

/// An entry of one's own in the table of readers, or none; given back by the destructor.
class Seat {
   public:
    Seat() = default;
    Seat(Seat&& other) noexcept
        : page_(std::move(other.page_)),
          object_(std::move(other.object_)),
          entry_(std::exchange(other.entry_, nullptr)),
          at_(other.at_) {}
    Seat& operator=(Seat&&) = delete;
    ~Seat() {
        if (entry_ == nullptr) return;
        store_release(entry_, reader_at::turn, (load_relaxed(entry_, reader_at::turn) | 1) + 1);
        lock_entry(object_, F_UNLCK, at_);
    }

    /// An entry that no living reader has; none without a table or a free entry: the reader is just not
    /// shown. `label`: the program's name if it is empty.
    static Seat take(const Name& name, uint64_t instance, uid_t owner, const std::string& label, uint64_t last) {
        Seat seat;
        seat.page_ = open_wake(name, instance, owner, &seat.object_);
        for (size_t n = 0; seat.page_ && n < reader_at::count; ++n) {
            seat.at_ = reader_at::table_offset + n * reader_at::stride;
            if (!lock_entry(seat.object_, F_WRLCK, seat.at_)) continue;
            seat.entry_ = seat.page_.start() + seat.at_;
            seat.introduce(label.empty() ? own_name() : label, last);
            break;
        }
        return seat;
    }

    explicit operator bool() const { return entry_ != nullptr; }

    /// The reader has reached `last`, and has missed `lapped` frames on the way. On the second cache line of the entry,
    /// which no other process stores to; relaxed, since no order between these numbers is promised.
    void advance(bool has_frame, uint64_t lapped, uint64_t last) const {
        if (entry_ == nullptr) return;
        if (has_frame) {
            store_relaxed(entry_, reader_at::taken, load_relaxed(entry_, reader_at::taken) + 1);
            store_relaxed(entry_, reader_at::taken_monotonic_nanos, clock_nanos(CLOCK_MONOTONIC_COARSE));
        }
        if (lapped > 0) store_relaxed(entry_, reader_at::lapped, load_relaxed(entry_, reader_at::lapped) + lapped);
        store_relaxed(entry_, reader_at::last_sequence, last);
    }

    /// The reader has the newest frame, perhaps once more.
    void take_newest(uint64_t sequence) const {
        if (entry_ == nullptr) return;
        // At first the last sequence is where the reader began, and not one that it took.
        const bool is_again = load_relaxed(entry_, reader_at::last_sequence) == sequence &&
                              load_relaxed(entry_, reader_at::taken) > 0;
        if (!is_again) advance(true, 0, sequence);
    }

    /// A stream's current readers, in the order of the table; nothing if it has none, or this process may not read it.
    static std::optional<std::vector<ReaderInfo>> present(const Name& name, uint64_t instance, uid_t owner,
                                                          uint64_t latest) {
        Descriptor object;
        const Mapping page = open_wake(name, instance, owner, &object);
        if (!page) return std::nullopt;
        std::vector<ReaderInfo> all;
        for (size_t n = 0; n < reader_at::count; ++n) {
            const size_t at = reader_at::table_offset + n * reader_at::stride;
            if (load_relaxed(page.start() + at, reader_at::turn) % 2 == 0 || !is_locked(object, at)) continue;
            if (std::optional<ReaderInfo> info = look(page.start() + at)) {
                info->behind = latest > info->last_sequence ? latest - info->last_sequence : 0;
                all.push_back(std::move(*info));
            }
        }
        return all;
    }

   private:
    using Label = std::array<uint64_t, limits::reader_label_bytes_max / 8>;

    static struct flock range(short kind, size_t at) {
        struct flock lock {};
        lock.l_type = kind;
        lock.l_whence = SEEK_SET;
        lock.l_start = static_cast<off_t>(at);
        lock.l_len = static_cast<off_t>(reader_at::stride);
        return lock;
    }
    static bool lock_entry(const Descriptor& object, short kind, size_t at) {
        struct flock lock = range(kind, at);
        return ::fcntl(object.number(), F_OFD_SETLK, &lock) == 0;
    }
    /// An answer that the system refuses to give does not make a reader dead.
    static bool is_locked(const Descriptor& object, size_t at) {
        struct flock lock = range(F_WRLCK, at);
        return ::fcntl(object.number(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
    }

    /// Makes the entry one's own. The lock keeps others from storing to it, and orders these stores after those of the
    /// last owner, which may have died while owning or taking it.
    void introduce(const std::string& label, uint64_t last) const {
        const uint64_t taking = (load_relaxed(entry_, reader_at::turn) | 1) + 1;
        store_relaxed(entry_, reader_at::turn, taking);
        __atomic_thread_fence(__ATOMIC_RELEASE);  // pairs with the acquire fence in look
        size_t bytes = std::min(label.size(), limits::reader_label_bytes_max);
        // Cut between two characters.
        while (bytes > 0 && bytes < label.size() && (static_cast<uint8_t>(label[bytes]) & 0xC0) == 0x80) --bytes;
        Label words{};
        std::memcpy(words.data(), label.data(), bytes);
        store_relaxed(entry_, reader_at::pid, static_cast<uint64_t>(::getpid()));
        store_relaxed(entry_, reader_at::start_ticks, own_start_ticks());
        store_relaxed(entry_, reader_at::label_bytes, bytes);
        for (size_t i = 0; i < words.size(); ++i) store_relaxed(entry_, reader_at::label + 8 * i, words[i]);
        store_relaxed(entry_, reader_at::taken, 0);
        store_relaxed(entry_, reader_at::lapped, 0);
        store_relaxed(entry_, reader_at::last_sequence, last);
        store_relaxed(entry_, reader_at::taken_monotonic_nanos, 0);
        store_release(entry_, reader_at::turn, taking + 1);  // pairs with the acquire load in look
    }

    /// The owner of the entry; nothing if it is free, or changing owners.
    static std::optional<ReaderInfo> look(const uint8_t* entry) {
        const uint64_t turn = load_acquire(entry, reader_at::turn);  // pairs with the last store of introduce
        if (turn % 2 == 0) return std::nullopt;
        ReaderInfo info;
        Label words;
        for (size_t i = 0; i < words.size(); ++i) words[i] = load_relaxed(entry, reader_at::label + 8 * i);
        const uint64_t pid = load_relaxed(entry, reader_at::pid);
        const uint64_t bytes = load_relaxed(entry, reader_at::label_bytes);
        info.start_ticks = load_relaxed(entry, reader_at::start_ticks);
        info.taken = load_relaxed(entry, reader_at::taken);
        info.lapped = load_relaxed(entry, reader_at::lapped);
        info.last_sequence = load_relaxed(entry, reader_at::last_sequence);
        const uint64_t nanos = load_relaxed(entry, reader_at::taken_monotonic_nanos);
        // Pairs with the release fence in introduce: had any load above seen a store of a later owner, the
        // load below would see that owner's turn, or a later one. Turns never come back.
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (load_relaxed(entry, reader_at::turn) != turn || pid == 0 || pid > UINT32_MAX) return std::nullopt;
        info.pid = static_cast<uint32_t>(pid);
        char text[sizeof words];
        std::memcpy(text, words.data(), sizeof words);
        info.label.assign(text, static_cast<size_t>(std::min<uint64_t>(bytes, sizeof words)));
        if (nanos > 0) {
            const uint64_t now = monotonic_nanos();
            info.idle_nanos = now > nanos ? now - nanos : 0;
        }
        return info;
    }

    /// The name of this process's program, as `ps` shows it.
    static std::string own_name() {
        const Descriptor file = open_object("/proc/self/comm", O_RDONLY);
        char text[64];
        ssize_t bytes = file ? ::read(file.number(), text, sizeof text) : 0;
        while (bytes > 0 && text[bytes - 1] == '\n') --bytes;
        return std::string(text, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    }

    Mapping page_;
    Descriptor object_;
    uint8_t* entry_ = nullptr;
    size_t at_ = 0;
};

/// A reader's entry, taken at its first read of a frame. A copy of the reader takes a separate one.
class Attendance {
   public:
    Attendance() = default;
    Attendance(const Attendance& other) : label(other.label), is_listed(other.is_listed) {}
    Attendance(Attendance&&) = default;
    Attendance& operator=(const Attendance& other) {
        if (this != &other) {
            label = other.label;
            is_listed = other.is_listed;
            seat.reset();
        }
        return *this;
    }
    Attendance& operator=(Attendance&&) = default;

    std::string label;
    bool is_listed = true;
    std::unique_ptr<Seat> seat;
};

}  // namespace detail
}  // namespace livebag
