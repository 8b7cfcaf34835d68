// Errors: one exception class, a code to branch on, and prose for people.

#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace livebag {

/// The kind of error, for programs. People read `Error::what()`.
enum class Errc {
    bad_name,       ///< a stream name breaks the rules
    bad_option,     ///< an option is out of bounds
    live_writer,    ///< another writer owns the stream
    foreign_owner,  ///< the object belongs to another user
    foreign,        ///< the object is not a livebag stream
    being_made,     ///< the stream is still being made: try again in a moment
    version,        ///< another layout version
    damaged,        ///< a header or a frame that breaks the rules of the layout
    checksum,       ///< a frame whose bytes do not match its CRC-32C
    not_found,      ///< no such stream
    denied,         ///< no right to it
    no_space,       ///< /dev/shm is full
    contended,      ///< other processes kept changing the same name
    too_large,      ///< a frame, a text or a table that does not fit
    wrong_kind,     ///< a frame of another kind than the stream
    overtaken,      ///< the writer overtook this reader again and again
    misuse,         ///< calls in an order that cannot work
    system,         ///< the system refused
};

/// Thrown by everything in livebag that can fail.
class Error : public std::runtime_error {
   public:
    Error(Errc code, const std::string& text) : std::runtime_error(text), code_(code) {}

    Errc code() const noexcept { return code_; }

    /// Whether trying to open again in a moment may help: no such stream yet, or still being made.
    bool is_transient() const noexcept { return code_ == Errc::not_found || code_ == Errc::being_made; }

   private:
    Errc code_;
};

namespace detail {

/// An error of the system, from errno.
inline Error system_error(const std::string& action, const std::string& object, int code = errno) {
    const char* cause = std::strerror(code);
    return Error(Errc::system, "cannot " + action + " " + object + ": " + cause);
}

inline std::string hex(uint64_t value, int digits) {
    static const char* const digit = "0123456789abcdef";
    std::string text = "0x";
    for (int at = digits - 1; at >= 0; --at) text += digit[(value >> (4 * at)) & 15];
    return text;
}

}  // namespace detail
}  // namespace livebag
