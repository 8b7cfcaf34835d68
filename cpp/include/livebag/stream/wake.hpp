// Sleeping and waking: docs/stream-layout.md, section 4.

#pragma once

#include <cstdint>
#include <string>

#include "layout.hpp"
#include "slot.hpp"
#include "system.hpp"

namespace livebag {

/// How a reader waits.
enum class Wait {
    futex,  ///< sleeps; the writer wakes it
    spin,   ///< burns a CPU for the lowest latency
};

namespace detail {

/// Opens the wake object that belongs to a main object; an empty mapping where there is none. Another user's could be
/// truncated while we use it, and is ignored.
inline Mapping open_wake(const Name& name, uint64_t instance, uid_t owner, Descriptor* opened = nullptr) {
    const std::string path = name.wake_path();
    Descriptor object = open_object(path, O_RDWR | O_NONBLOCK);
    if (!object) return Mapping();
    const struct stat status = status_of(object, path);
    if (!S_ISREG(status.st_mode) || status.st_uid != owner || static_cast<uint64_t>(status.st_size) < wake_bytes)
        return Mapping();
    Mapping page(object, wake_bytes, PROT_READ | PROT_WRITE, path);
    if (load_magic(page.start()) != magic_wake || load_relaxed(page.start(), wake_at::instance) != instance)
        return Mapping();
    if (opened != nullptr) *opened = std::move(object);
    return page;
}

/// Makes a new wake object in the place of any old one.
inline Mapping make_wake(const Name& name, uint64_t instance) {
    const std::string path = name.wake_path();
    ::unlink(path.c_str());
    const Descriptor object = open_object(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (!object) throw system_error("create", path);
    if (::fchmod(object.number(), 0600) != 0) throw system_error("set the mode of", path);
    reserve(object, wake_bytes, path);
    Mapping page(object, wake_bytes, PROT_READ | PROT_WRITE, path);
    store_relaxed(page.start(), wake_at::instance, instance);
    store_release(page.start(), wake_at::magic, magic_wake);  // pairs with load_magic in open_wake
    return page;
}

/// The writer's side: stores a sequence and wakes the readers that wait for it.
inline void announce(uint8_t* main, const Mapping& wake, size_t word, size_t wanted, uint64_t k) {
    store_release(main, word, k);             // pairs with the acquire loads of the word in readers
    __atomic_thread_fence(__ATOMIC_SEQ_CST);  // S1: pairs with S2 in wait_until_above
    if (!wake || load_relaxed(wake.start(), wanted) >= k) futex_wake_all(main + word);
}

inline void raise(uint8_t* base, size_t offset, uint64_t value) {
    uint64_t* const word = word_at(base, offset);
    uint64_t found = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (found < value &&
           !__atomic_compare_exchange_n(word, &found, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/// State of a sleeping reader.
struct Sleeper {
    const uint8_t* main;
    uint8_t* wake;  ///< null: there is none
    bool always_wake;
    size_t word;
    size_t wanted;
};

/// The reader's side: waits until the word is above `after`. False when the deadline (monotonic
/// nanoseconds) passed or the stream was replaced by another object of its name.
inline bool wait_until_above(const Sleeper& sleeper, uint64_t after, uint64_t deadline, Wait way) {
    for (unsigned spins = 0;; ++spins) {
        const uint64_t seen = load_acquire(sleeper.main, sleeper.word);  // pairs with announce
        if (seen > after) return true;
        if (way == Wait::spin && spins % 64 != 63) {
            cpu_pause();
            continue;
        }
        if (load_relaxed(sleeper.main, live_at::state) == state_is::replaced) return false;
        const uint64_t now = monotonic_nanos();
        if (now >= deadline) return false;
        if (way == Wait::spin) continue;
        const uint64_t left = std::min<uint64_t>(deadline - now, limits::sleep_nanos_max);
        if (!sleeper.always_wake && sleeper.wake == nullptr) {
            nap(std::min<uint64_t>(left, limits::nap_nanos_max));
            continue;
        }
        if (!sleeper.always_wake) raise(sleeper.wake, sleeper.wanted, seen + 1);
        // S2: pairs with S1 in announce. Either S1 comes first and the load below sees the new sequence,
        // or S2 comes first and the writer sees the wish.
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (load_acquire(sleeper.main, sleeper.word) != seen) continue;
        futex_wait(sleeper.main + sleeper.word, static_cast<uint32_t>(seen), left);
    }
}

}  // namespace detail
}  // namespace livebag
