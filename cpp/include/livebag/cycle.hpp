// The cycle word in C++17: an application says when it computes, so that the recorder can write in
// between. Header-only; links nothing but libc.
//
//     auto cycle = livebag::Cycle::join("planner");
//     cycle.begin(1);  // from here on the recorder should hold back …
//     plan();
//     cycle.end();     // … until here
//
// The bytes are fixed by docs/cycle-layout.md, which the Rust crate livebag-shm implements as well.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "stream/crc32c.hpp"
#include "stream/error.hpp"
#include "stream/limits.hpp"
#include "stream/slot.hpp"
#include "stream/system.hpp"

namespace livebag {

namespace cycle_limits {

/// Applications that a board has room for.
constexpr size_t slots = 64;
/// Longest name of an application in bytes.
constexpr size_t name_bytes_max = 128;

}  // namespace cycle_limits

namespace detail {

/// Named offsets of docs/cycle-layout.md.
namespace cycle_at {

constexpr uint64_t magic_value = 0x43474142'4556494C;  // "LIVEBAGC"
constexpr uint32_t layout_version = 1;
constexpr size_t magic = 0x000, version_and_crc = 0x008, total_bytes = 0x010, slots_and_stride = 0x018,
                 offset_and_ring = 0x020;
constexpr size_t slots_offset = 4096, slot_stride = 512;
constexpr size_t board_bytes = slots_offset + cycle_limits::slots * slot_stride;
constexpr uint64_t ring_entries = 8;
constexpr size_t epoch = 0x000, base = 0x008, pid = 0x010, start_ticks = 0x018, name_bytes = 0x020, name = 0x040,
                 transitions = 0x0C0, ring = 0x100;
constexpr size_t entry_bytes = 16, entry_nanos = 0, entry_weight = 8;

}  // namespace cycle_at

/// A lock on a part of an object, of this opening; false when another one holds it.
inline bool lock_range(const Descriptor& object, short kind, size_t start, size_t bytes, const std::string& path) {
    struct flock lock {};
    lock.l_type = kind;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(start);
    lock.l_len = static_cast<off_t>(bytes);
    if (::fcntl(object.number(), F_OFD_SETLK, &lock) == 0) return true;
    if (errno == EAGAIN || errno == EACCES) return false;
    throw system_error("lock", path);
}

/// The board: made, found, checked (docs/cycle-layout.md, sections 1, 2 and 4).
class CycleBoard {
   public:
    /// Without a name: the user's own.
    explicit CycleBoard(const std::string& board) : path_(folder() + "/livebag-cycles." + std::to_string(::geteuid())) {
        if (!board.empty()) path_ += "." + Name(board).text();
        for (int attempt = 0; attempt < 64; ++attempt) {
            object_ = open_object(path_, O_RDWR | O_CREAT | O_NONBLOCK, 0600);
            if (!object_) throw system_error("open", path_);
            const struct stat status = check_owner();
            if (static_cast<uint64_t>(status.st_size) >= cycle_at::board_bytes) {
                memory_ = Mapping(object_, cycle_at::board_bytes, PROT_READ | PROT_WRITE, path_);
                if (load_acquire(memory_.start(), cycle_at::magic) != 0) {  // pairs with make_locked
                    check();
                    return;
                }
            }
            make();
        }
        throw Error(Errc::contended, "other processes kept changing " + path_ + "; try again in a moment");
    }

    /// Locks a slot that no living process has; its number.
    size_t claim() const {
        for (size_t slot = 0; slot < cycle_limits::slots; ++slot)
            if (lock_range(object_, F_WRLCK, offset(slot), cycle_at::slot_stride, path_)) return slot;
        throw Error(Errc::contended, "all " + std::to_string(cycle_limits::slots) +
                                         " places of the cycle board are used by living applications; end some of "
                                         "them, or let one process act for several");
    }

    void release(size_t slot) const noexcept {
        struct flock lock {};
        lock.l_type = F_UNLCK;
        lock.l_whence = SEEK_SET;
        lock.l_start = static_cast<off_t>(offset(slot));
        lock.l_len = static_cast<off_t>(cycle_at::slot_stride);
        ::fcntl(object_.number(), F_OFD_SETLK, &lock);
    }

    uint8_t* slot(size_t slot) const { return memory_.start() + offset(slot); }

   private:
    static size_t offset(size_t slot) { return cycle_at::slots_offset + slot * cycle_at::slot_stride; }

    struct stat check_owner() const {
        const struct stat status = status_of(object_, path_);
        if (status.st_uid != ::geteuid())
            throw Error(Errc::foreign_owner, path_ + " belongs to user " + std::to_string(status.st_uid) +
                                                 ", not to user " + std::to_string(::geteuid()) +
                                                 "; remove it as its owner");
        if (!S_ISREG(status.st_mode)) throw foreign("not a regular file");
        return status;
    }

    Error foreign(const std::string& found) const {
        return Error(Errc::foreign, path_ + " is not a livebag cycle board: " + found + "; remove it");
    }

    /// One process at a time makes the region; the others come back.
    void make() const {
        if (!lock_range(object_, F_WRLCK, 0, cycle_at::slots_offset, path_)) return nap(1'000'000);
        make_locked();
        lock_range(object_, F_UNLCK, 0, cycle_at::slots_offset, path_);
    }

    void make_locked() const {
        const auto bytes = static_cast<uint64_t>(status_of(object_, path_).st_size);
        if (bytes != 0 && bytes != cycle_at::board_bytes)
            throw foreign("it has " + std::to_string(bytes) + " bytes, a board has " +
                          std::to_string(cycle_at::board_bytes));
        if (bytes == 0) {
            if (::fchmod(object_.number(), 0600) != 0) throw system_error("set the rights of", path_);
            reserve(object_, cycle_at::board_bytes, path_);
        }
        const Mapping made(object_, cycle_at::board_bytes, PROT_READ | PROT_WRITE, path_);
        if (load_acquire(made.start(), cycle_at::magic) != 0) return;
        for (const auto& word : static_words()) store_relaxed(made.start(), word.first, word.second);
        store_release(made.start(), cycle_at::magic, cycle_at::magic_value);  // pairs with the loads of the magic
    }

    /// The header but for the magic: layout version 1 has no choice in it.
    static std::array<std::pair<size_t, uint64_t>, 4> static_words() {
        const auto two = [](uint64_t low, uint64_t high) { return high << 32 | low; };
        const std::array<uint64_t, 3> fields{cycle_at::board_bytes, two(cycle_limits::slots, cycle_at::slot_stride),
                                             two(cycle_at::slots_offset, cycle_at::ring_entries)};
        uint8_t checked[sizeof fields];
        std::memcpy(checked, fields.data(), sizeof fields);
        return {{{cycle_at::version_and_crc, two(cycle_at::layout_version, crc32c(checked, sizeof checked))},
                 {cycle_at::total_bytes, fields[0]},
                 {cycle_at::slots_and_stride, fields[1]},
                 {cycle_at::offset_and_ring, fields[2]}}};
    }

    void check() const {
        const uint64_t magic = load_relaxed(memory_.start(), cycle_at::magic);
        if (magic != cycle_at::magic_value)
            throw foreign("it starts with " + hex(magic, 16) + " instead of \"LIVEBAGC\"");
        const uint64_t version = load_relaxed(memory_.start(), cycle_at::version_and_crc) & 0xFFFF'FFFF;
        if (version != cycle_at::layout_version)
            throw Error(Errc::version, path_ + " has layout version " + std::to_string(version) +
                                           ", this program reads version 1; use programs of one livebag version, or "
                                           "end them all and remove it");
        for (const auto& word : static_words())
            if (const uint64_t found = load_relaxed(memory_.start(), word.first); found != word.second)
                throw Error(Errc::damaged, path_ + " is damaged: the word at " + hex(word.first, 3) + " is " +
                                               hex(found, 16) + ", expected " + hex(word.second, 16) +
                                               "; end the applications that use it and remove it");
    }

    std::string path_;
    Descriptor object_;
    Mapping memory_;
};

}  // namespace detail

/// An application's place on the cycle board of its user. For one thread at a time.
///
/// `begin` and `end` are wait-free and make no system call: three stores and a reading of the clock through the vDSO.
/// The place is given back when this value goes out of scope, and reclaimed when the process dies.
class Cycle {
   public:
    /// Joins under a name that people will read: 1 to 128 bytes of UTF-8. It need not be unique. A board with a name is
    /// used only by a recorder with the same setting. Throws livebag::Error.
    static Cycle join(const std::string& name, const std::string& board = "") {
        if (name.empty() || name.size() > cycle_limits::name_bytes_max || !detail::is_utf8(name))
            throw Error(Errc::bad_name, "an application's name has 1 to 128 bytes of UTF-8, this one has " +
                                            std::to_string(name.size()) + " bytes");
        return Cycle(detail::CycleBoard(board), name);
    }

    Cycle(Cycle&& other) noexcept
        : board_(std::move(other.board_)),
          number_(other.number_),
          slot_(std::exchange(other.slot_, nullptr)),
          epoch_(other.epoch_),
          transitions_(other.transitions_) {}
    Cycle& operator=(Cycle&&) = delete;
    ~Cycle() {
        if (slot_ == nullptr) return;
        end();
        detail::store_release(slot_, detail::cycle_at::epoch, (epoch_ | 3) + 1);
        board_.release(number_);
    }

    /// A computation begins; one that has not ended yet ends here. `weight` is its importance, compared with that of
    /// the other applications; 0 means that it may be disturbed.
    void begin(uint32_t weight = 1) noexcept {
        const uint64_t now = detail::monotonic_nanos();
        if (is_busy()) advance(now, 0);
        advance(now, weight);
    }

    /// The computation has ended; nothing happens if none had begun.
    void end() noexcept {
        if (is_busy()) advance(detail::monotonic_nanos(), 0);
    }

   private:
    Cycle(detail::CycleBoard board, const std::string& name)
        : board_(std::move(board)), number_(board_.claim()), slot_(board_.slot(number_)) {
        namespace at = detail::cycle_at;
        // The last owner may have died at any point: in use, busy, or while claiming.
        const uint64_t claiming = (detail::load_relaxed(slot_, at::epoch) | 3) + 2;
        detail::store_relaxed(slot_, at::epoch, claiming);
        __atomic_thread_fence(__ATOMIC_RELEASE);  // pairs with the acquire fence of a reader's last look at the epoch
        detail::store_relaxed(slot_, at::pid, static_cast<uint64_t>(::getpid()));
        detail::store_relaxed(slot_, at::start_ticks, detail::own_start_ticks());
        detail::store_relaxed(slot_, at::name_bytes, name.size());
        std::array<uint64_t, cycle_limits::name_bytes_max / 8> words{};
        std::memcpy(words.data(), name.data(), name.size());
        for (size_t i = 0; i < words.size(); ++i) detail::store_relaxed(slot_, at::name + 8 * i, words[i]);
        transitions_ = (detail::load_relaxed(slot_, at::transitions) + 1) & ~uint64_t{1};
        detail::store_relaxed(slot_, at::base, transitions_);
        detail::store_relaxed(slot_, at::transitions, transitions_);
        epoch_ = claiming + 1;
        detail::store_release(slot_, at::epoch, epoch_);  // pairs with the acquire load of a reader's first look
    }

    bool is_busy() const noexcept { return slot_ != nullptr && transitions_ % 2 == 1; }

    void advance(uint64_t now, uint64_t weight) noexcept {
        namespace at = detail::cycle_at;
        if (slot_ == nullptr) return;
        ++transitions_;
        const size_t entry = at::ring + transitions_ % at::ring_entries * at::entry_bytes;
        __atomic_thread_fence(__ATOMIC_RELEASE);  // pairs with the acquire fence of a reader's look at the ring
        detail::store_relaxed(slot_, entry + at::entry_nanos, now);
        detail::store_relaxed(slot_, entry + at::entry_weight, weight);
        detail::store_release(slot_, at::transitions, transitions_);  // pairs with the acquire load of a reader
    }

    detail::CycleBoard board_;
    size_t number_;
    uint8_t* slot_;
    uint64_t epoch_ = 0;
    uint64_t transitions_ = 0;
};

}  // namespace livebag
