// The system: names and paths, descriptors, mappings, locks, clocks, futex.

#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>

#include "error.hpp"
#include "layout.hpp"
#include "limits.hpp"

namespace livebag::detail {

/// Where POSIX shared memory is mounted on Linux.
inline const std::string& folder() {
    static const std::string path = "/dev/shm";
    return path;
}

/// A name that has passed the rules, so that a path may be made of it.
class Name {
   public:
    explicit Name(const std::string& name) : name_(name) {
        if (name.empty() || name.size() > limits::name_bytes_max)
            throw Error(Errc::bad_name,
                        "a stream name has 1 to 200 characters, this one has " + std::to_string(name.size()));
        for (const char c : name)
            if (!is_allowed(c))
                throw Error(Errc::bad_name, "the stream name \"" + printable(name) + "\" contains \"" +
                                                printable(std::string(1, c)) +
                                                "\"; allowed are letters and digits of ASCII, '_', '.' and '-' "
                                                "(a topic like /camera/front becomes camera.front)");
        if (name.front() == '.' || name.find("..") != std::string::npos || ends_in_wake(name))
            throw Error(Errc::bad_name, "the stream name \"" + name +
                                            "\" starts with '.', contains \"..\" or ends in \".wake\"; "
                                            "choose another name");
    }

    static bool is_valid(const std::string& name) {
        if (name.empty() || name.size() > limits::name_bytes_max || name.front() == '.') return false;
        for (const char c : name)
            if (!is_allowed(c)) return false;
        return name.find("..") == std::string::npos && !ends_in_wake(name);
    }

    const std::string& text() const { return name_; }
    std::string main_path() const { return folder() + "/" + prefix() + name_; }
    std::string wake_path() const { return main_path() + ".wake"; }
    static const char* prefix() { return "livebag."; }

   private:
    static bool is_allowed(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
               c == '-';
    }
    static bool ends_in_wake(const std::string& name) {
        return name.size() >= 5 && name.compare(name.size() - 5, 5, ".wake") == 0;
    }
    static std::string printable(std::string text) {
        for (char& c : text)
            if (c < ' ' || c > '~') c = '?';
        return text;
    }

    std::string name_;
};

/// An open file descriptor, closed once.
class Descriptor {
   public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            number_ = std::exchange(other.number_, -1);
        }
        return *this;
    }
    ~Descriptor() { reset(); }

    explicit operator bool() const { return number_ >= 0; }
    int number() const { return number_; }
    void reset() {
        if (number_ >= 0) ::close(number_);
        number_ = -1;
    }

   private:
    int number_ = -1;
};

/// A shared mapping of an object from its start.
class Mapping {
   public:
    Mapping() = default;
    Mapping(const Descriptor& object, uint64_t bytes, int protection, const std::string& path) : bytes_(bytes) {
        void* const at = ::mmap(nullptr, bytes, protection, MAP_SHARED, object.number(), 0);
        if (at == MAP_FAILED) throw system_error("map", path);
        start_ = static_cast<uint8_t*>(at);
    }
    Mapping(Mapping&& other) noexcept
        : start_(std::exchange(other.start_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept {
        if (this != &other) {
            reset();
            start_ = std::exchange(other.start_, nullptr);
            bytes_ = std::exchange(other.bytes_, 0);
        }
        return *this;
    }
    ~Mapping() { reset(); }

    explicit operator bool() const { return start_ != nullptr; }
    uint8_t* start() const { return start_; }
    uint64_t bytes() const { return bytes_; }

   private:
    void reset() {
        if (start_ != nullptr) ::munmap(start_, bytes_);
        start_ = nullptr;
    }

    uint8_t* start_ = nullptr;
    uint64_t bytes_ = 0;
};

inline Descriptor open_object(const std::string& path, int flags, mode_t mode = 0) {
    int number;
    do number = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode);
    while (number < 0 && errno == EINTR);
    return Descriptor(number);
}

inline struct stat status_of(const Descriptor& object, const std::string& path) {
    struct stat status {};
    if (::fstat(object.number(), &status) != 0) throw system_error("examine", path);
    return status;
}

/// Whether the path still leads to the opened object.
inline bool still_named(const std::string& path, const struct stat& object) {
    struct stat now {};
    return ::lstat(path.c_str(), &now) == 0 && now.st_dev == object.st_dev && now.st_ino == object.st_ino;
}

/// Reserves memory, so that a full /dev/shm is an error now and not a SIGBUS later.
inline void reserve(const Descriptor& object, uint64_t bytes, const std::string& path) {
    int failed;
    do failed = ::fallocate(object.number(), 0, 0, static_cast<off_t>(bytes));
    while (failed != 0 && errno == EINTR);
    if (failed == 0) return;
    if (errno == ENOSPC || errno == EFBIG)
        throw Error(Errc::no_space, "/dev/shm has no room for " + std::to_string(bytes) +
                                        " bytes; remove stale streams, use fewer slots, or enlarge it "
                                        "(mount -o remount,size=… /dev/shm)");
    throw system_error("reserve memory for", path);
}

/// Another holder of an open-file-description lock on the object.
enum class Holder { nobody, reader, writer };

inline Holder lock_holder(const Descriptor& object, short wanted) {
    struct flock lock {};
    lock.l_type = wanted;
    lock.l_whence = SEEK_SET;
    if (::fcntl(object.number(), F_OFD_GETLK, &lock) != 0) return Holder::nobody;
    if (lock.l_type == F_WRLCK) return Holder::writer;
    return lock.l_type == F_RDLCK ? Holder::reader : Holder::nobody;
}

/// Takes the writer's lock. It belongs to the open file description: a process that dies loses it,
/// and a forked child that keeps the descriptor shares it.
inline bool take_lock(const Descriptor& object, const std::string& path) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (::fcntl(object.number(), F_OFD_SETLK, &lock) == 0) return true;
    if (errno == EAGAIN || errno == EACCES) return false;
    throw system_error("lock", path);
}

/// Gives the writer's lock back. Closing the descriptor is not enough: a mapping keeps the open file
/// description, and with it the lock, alive.
inline void release_lock(const Descriptor& object) {
    struct flock lock {};
    lock.l_type = F_UNLCK;
    lock.l_whence = SEEK_SET;
    ::fcntl(object.number(), F_OFD_SETLK, &lock);
}

inline uint64_t clock_nanos(clockid_t clock) {
    struct timespec now {};
    ::clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}
inline uint64_t monotonic_nanos() { return clock_nanos(CLOCK_MONOTONIC); }
inline uint64_t realtime_nanos() { return clock_nanos(CLOCK_REALTIME); }

/// The monotonic time at which a timeout ends; saturates, so that nanoseconds::max() means never.
inline uint64_t deadline_after(std::chrono::nanoseconds timeout) {
    if (timeout.count() <= 0) return 0;
    const uint64_t now = monotonic_nanos();
    const auto more = static_cast<uint64_t>(timeout.count());
    return more > UINT64_MAX - now ? UINT64_MAX : now + more;
}

inline void nap(uint64_t nanos) {
    struct timespec time {};
    time.tv_sec = static_cast<time_t>(nanos / 1'000'000'000u);
    time.tv_nsec = static_cast<long>(nanos % 1'000'000'000u);
    ::nanosleep(&time, nullptr);
}

inline void cpu_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/// Wakes every thread that sleeps on the low 4 bytes of a word. Not FUTEX_PRIVATE_FLAG: the sleepers are other
/// processes.
inline void futex_wake_all(const uint8_t* word) {
    ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Sleeps while the low 4 bytes of a word are `expected`. Every reason to return is fine: the caller
/// looks again.
inline void futex_wait(const uint8_t* word, uint32_t expected, uint64_t nanos) {
    struct timespec time {};
    time.tv_sec = static_cast<time_t>(nanos / 1'000'000'000u);
    time.tv_nsec = static_cast<long>(nanos % 1'000'000'000u);
    ::syscall(SYS_futex, word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

inline uint64_t random_nonzero() {
    uint64_t value = 0;
    while (value == 0)
        if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) value = monotonic_nanos();
    return value;
}

/// Field 22 of /proc/self/stat (proc(5)), 0 if unknown. Fields are counted after the last ')',
/// because the program's name in field 2 may contain anything.
inline uint64_t own_start_ticks() {
    const Descriptor file = open_object("/proc/self/stat", O_RDONLY);
    char text[1024];
    const ssize_t bytes = file ? ::read(file.number(), text, sizeof text - 1) : -1;
    if (bytes <= 0) return 0;
    text[bytes] = '\0';
    const char* at = std::strrchr(text, ')');
    for (int field = 2; at != nullptr && field < 22; ++field) {
        at = std::strchr(at, ' ');
        if (at != nullptr) ++at;
    }
    return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

}  // namespace livebag::detail
