// One writer per name: create, re-attach, take over. docs/stream-layout.md, section 5.

#pragma once

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout.hpp"
#include "options.hpp"
#include "system.hpp"
#include "wake.hpp"

namespace livebag::detail {

/// A writer's resources of a stream. The descriptor carries the writer's lock.
struct Claim {
    Name name;
    StaticHeader header;
    Descriptor object;
    Mapping main;
    Mapping wake;  ///< empty: ALWAYS_WAKE
};

inline gid_t group_of(const std::string& group) {
    char* end = nullptr;
    const unsigned long number = std::strtoul(group.c_str(), &end, 10);
    if (*end == '\0' && group[0] >= '0' && group[0] <= '9') return static_cast<gid_t>(number);
    std::vector<char> buffer(1 << 16);
    struct group entry {};
    struct group* found = nullptr;
    ::getgrnam_r(group.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found == nullptr)
        throw Error(Errc::bad_option,
                    "there is no group \"" + group + "\" on this machine; create it, or name another");
    return found->gr_gid;
}

/// 0600 for only the owner, 0640 for a group, for any umask.
inline void set_access(const Descriptor& object, const std::string& path, const std::optional<gid_t>& group) {
    if (group && ::fchown(object.number(), static_cast<uid_t>(-1), *group) != 0)
        throw Error(Errc::denied, "cannot give " + path + " to group " + std::to_string(*group) + ": " +
                                      std::strerror(errno) + "; join the group, or name one of yours");
    if (::fchmod(object.number(), group ? 0640 : 0600) != 0) throw system_error("set the mode of", path);
}

class Claimer {
   public:
    Claimer(const Name& name, const StreamOptions& options)
        : name_(name), path_(name.main_path()), wanted_(StaticHeader::from_options(name.text(), options)) {
        if (!options.group.empty()) group_ = group_of(options.group);
    }

    Claim claim() {
        for (int attempt = 0; attempt < limits::create_attempts_max; ++attempt) {
            bool made = false;
            Descriptor object = open_object(path_, O_RDWR);
            if (!object && errno == ENOENT) {
                object = open_object(path_, O_RDWR | O_CREAT | O_EXCL, 0600);
                if (!object && errno == EEXIST) continue;
                made = static_cast<bool>(object);
            }
            if (!object) throw refused();
            const struct stat status = require_own(object);
            if (!take_lock(object, path_)) {
                if (holder_is_stranger(object, status)) replace(object, status);
                continue;
            }
            if (!still_named(path_, status)) continue;
            if (made) return create(std::move(object));
            if (std::optional<StaticHeader> found = examine(object, status)) {
                if (auto claim = reattach(object, std::move(*found))) return std::move(*claim);
            }
        }
        throw Error(Errc::contended, "the stream \"" + name_.text() +
                                         "\" kept being re-created by another process; try again");
    }

   private:
    Error refused() const {
        if (errno == EACCES || errno == EPERM)
            return Error(Errc::denied, "no right to write " + path_ + "; remove it as its owner, or choose another name");
        if (errno == ELOOP)
            return Error(Errc::foreign, path_ + " is a symbolic link, not a livebag stream; remove it");
        return system_error("open", path_);
    }

    struct stat require_own(const Descriptor& object) const {
        const struct stat status = status_of(object, path_);
        if (status.st_uid != ::geteuid())
            throw Error(Errc::foreign_owner, path_ + " belongs to user " + std::to_string(status.st_uid) +
                                                 ", not to user " + std::to_string(::geteuid()) +
                                                 "; remove it as its owner, or choose another name");
        if (!S_ISREG(status.st_mode))
            throw Error(Errc::foreign, path_ + " is not a regular file, so no livebag stream; remove it");
        return status;
    }

    /// After a lock conflict: whether a foreign reader holds a lock, which only one that means harm
    /// does. Refuses when it is a writer's. A lock on an object that has lost its name belongs to a
    /// writer that is about to find that out itself.
    bool holder_is_stranger(const Descriptor& object, const struct stat& status) const {
        const Holder holder = lock_holder(object, F_WRLCK);
        if (holder != Holder::writer || !still_named(path_, status)) return holder == Holder::reader;
        uint64_t pid = 0;
        if (::pread(object.number(), &pid, sizeof pid, live_at::writer_pid) != sizeof pid) pid = 0;
        throw Error(Errc::live_writer, "the stream \"" + name_.text() + "\" has a live writer (process " +
                                           std::to_string(pid) + "); stop it, or choose another name");
    }

    /// The header of a stream that can be re-attached; otherwise makes room, or refuses.
    std::optional<StaticHeader> examine(const Descriptor& object, const struct stat& status) const {
        uint64_t magic = 0;
        if (::pread(object.number(), &magic, sizeof magic, 0) < 0) throw system_error("read", path_);
        if (magic == 0) {
            ::unlink(path_.c_str());
            return std::nullopt;
        }
        if (magic != magic_main)
            throw Error(Errc::foreign, path_ + " is not a livebag stream (it starts with " + hex(magic, 16) +
                                           " instead of \"LIVEBAGS\"); remove it, or choose another name");
        try {
            const auto bytes = static_cast<uint64_t>(status.st_size);
            const Mapping view(object, bytes, PROT_READ, path_);
            StaticHeader found = StaticHeader::decode(name_.text(), view.start(), bytes);
            if (found.same_stream(wanted_)) return found;
        } catch (const Error& error) {
            if (error.code() == Errc::system) throw;
        }
        replace(object, status);
        return std::nullopt;
    }

    /// Takes the name from an object; its mappings stay valid for its readers, which are notified.
    void replace(const Descriptor& object, const struct stat& status) const {
        if (!still_named(path_, status)) return;
        tell_replaced(object, static_cast<uint64_t>(status.st_size));
        ::unlink(path_.c_str());
        ::unlink(name_.wake_path().c_str());
    }

   public:
    /// Stores state 3 in an object with a valid header and wakes its sleepers.
    static void tell_replaced(const Descriptor& object, uint64_t bytes) {
        if (bytes < main_bytes_min) return;
        try {
            const Mapping view(object, bytes, PROT_READ | PROT_WRITE, "a stream");
            StaticHeader::decode("", view.start(), bytes);
            store_relaxed(view.start(), live_at::state, state_is::replaced);
            futex_wake_all(view.start() + live_at::latest);
            futex_wake_all(view.start() + live_at::begun);
        } catch (const Error&) {
            // No reader can have opened an object with an invalid header.
        }
    }

   private:
    Claim create(Descriptor object) {
        StaticHeader header = wanted_;
        header.info.created_realtime_nanos = realtime_nanos();
        header.info.instance = random_nonzero();
        try {
            set_access(object, path_, group_);
            Mapping wake;
            if (header.always_wake)
                ::unlink(name_.wake_path().c_str());
            else
                wake = make_wake(name_, header.info.instance);
            reserve(object, header.geometry.total_bytes, path_);
            Mapping main(object, header.geometry.total_bytes, PROT_READ | PROT_WRITE, path_);
            const std::vector<uint8_t> page = header.encode();
            std::memcpy(main.start() + schema_offset, header.info.schema.data(), header.info.schema.size());
            std::memcpy(main.start() + 8, page.data() + 8, page.size() - 8);
            store_live_words(main.start(), 1);
            store_release(main.start(), header_at::magic, magic_main);  // pairs with load_magic
            return Claim{name_, std::move(header), std::move(object), std::move(main), std::move(wake)};
        } catch (...) {
            ::unlink(path_.c_str());
            ::unlink(name_.wake_path().c_str());
            throw;
        }
    }

    std::optional<Claim> reattach(Descriptor& object, StaticHeader header) {
        Mapping main(object, header.geometry.total_bytes, PROT_READ | PROT_WRITE, path_);
        const std::optional<uint64_t> newest = newest_complete(main.start(), header.geometry);
        if (!newest) {
            replace(object, status_of(object, path_));
            return std::nullopt;
        }
        set_access(object, path_, group_);
        Mapping wake;
        if (!header.always_wake) {
            wake = open_wake(name_, header.info.instance, ::geteuid());
            if (!wake) wake = make_wake(name_, header.info.instance);
        }
        store_live_words(main.start(), load_relaxed(main.start(), live_at::epoch) + 1);
        if (load_relaxed(main.start(), live_at::begun) < *newest)
            announce(main.start(), wake, live_at::begun, wake_at::wanted_begun, *newest);
        announce(main.start(), wake, live_at::latest, wake_at::wanted_latest, *newest);
        return Claim{name_, std::move(header), std::move(object), std::move(main), std::move(wake)};
    }

    /// The newest frame that was completed: a writer may have died between the slot and `latest`.
    /// Nothing when the slots contradict `latest`, which only damage can bring about.
    static std::optional<uint64_t> newest_complete(const uint8_t* main, const Geometry& geometry) {
        const uint64_t latest = load_acquire(main, live_at::latest);
        if (latest >= uint64_t{1} << 62) return std::nullopt;
        for (uint64_t index = 0; index < geometry.slot_count; ++index) {
            const uint64_t lock = load_acquire(main + geometry.slot_header_offset(index), slot_at::lock);
            const uint64_t frame = lock / 2 + lock % 2;
            if (lock > 2 * (latest + 1) || (lock != 0 && frame % geometry.slot_count != index)) return std::nullopt;
        }
        const uint64_t after = load_acquire(main + geometry.slot_header_offset(latest + 1), slot_at::lock);
        return after == 2 * (latest + 1) ? latest + 1 : latest;
    }

    static void store_live_words(uint8_t* main, uint64_t epoch) {
        store_relaxed(main, live_at::writer_pid, static_cast<uint64_t>(::getpid()));
        store_relaxed(main, live_at::writer_start_ticks, own_start_ticks());
        store_relaxed(main, live_at::epoch, epoch);
        store_relaxed(main, live_at::attached_realtime_nanos, realtime_nanos());
        store_relaxed(main, live_at::heartbeat_monotonic_nanos, monotonic_nanos());
        store_relaxed(main, live_at::state, state_is::live);
    }

    Name name_;
    std::string path_;
    StaticHeader wanted_;
    std::optional<gid_t> group_;
};

}  // namespace livebag::detail
