// The slot protocol of docs/stream-layout.md, section 3, over pointers: the same code runs in shared
// memory and, under ThreadSanitizer, on plain memory.
//
// Words are accessed only with the __atomic builtins (C++17 has no std::atomic_ref). Payload bytes race
// by design: a reader copies while the writer may already refill the slot, and finds out afterwards.
// Such bytes are moved by relaxed atomic accesses, or by assembly that the compiler cannot look into
// and the CPU performs as ordinary loads and stores; either way there is no data race in the sense of
// the language, and the fences below order these accesses.

#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "crc32c.hpp"
#include "frame.hpp"
#include "layout.hpp"
#include "limits.hpp"
#include "system.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#if defined(__SANITIZE_THREAD__)
#define LIVEBAG_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LIVEBAG_THREAD_SANITIZER 1
#endif
#endif

namespace livebag::detail {

inline uint64_t* word_at(uint8_t* base, size_t offset) { return reinterpret_cast<uint64_t*>(base + offset); }
inline const uint64_t* word_at(const uint8_t* base, size_t offset) {
    return reinterpret_cast<const uint64_t*>(base + offset);
}
inline uint64_t load_relaxed(const uint8_t* base, size_t offset) {
    return __atomic_load_n(word_at(base, offset), __ATOMIC_RELAXED);
}
inline uint64_t load_acquire(const uint8_t* base, size_t offset) {
    return __atomic_load_n(word_at(base, offset), __ATOMIC_ACQUIRE);
}
inline void store_relaxed(uint8_t* base, size_t offset, uint64_t value) {
    __atomic_store_n(word_at(base, offset), value, __ATOMIC_RELAXED);
}
inline void store_release(uint8_t* base, size_t offset, uint64_t value) {
    __atomic_store_n(word_at(base, offset), value, __ATOMIC_RELEASE);
}

/// Orders non-temporal stores of a fill, which pass the release stores of x86. Elsewhere there are none.
inline void order_streaming_stores() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/// Moves whole 64-byte blocks, each access as good as a relaxed atomic one. Alignment is not needed.
/// Rejected: memcpy (a data race that the compiler may exploit), volatile words (a quarter of the
/// bytes per instruction).
#if defined(__x86_64__) && !defined(LIVEBAG_THREAD_SANITIZER)
#define LIVEBAG_BLOCK_COPY 1
inline void copy_blocks(void* to, const void* from, size_t blocks) {
    for (auto *t = static_cast<uint8_t*>(to), *end = t + blocks * 64; t != end; t += 64) {
        __asm__ volatile(
            "movdqu (%1), %%xmm0\n\t"
            "movdqu 16(%1), %%xmm1\n\t"
            "movdqu 32(%1), %%xmm2\n\t"
            "movdqu 48(%1), %%xmm3\n\t"
            "movdqu %%xmm0, (%0)\n\t"
            "movdqu %%xmm1, 16(%0)\n\t"
            "movdqu %%xmm2, 32(%0)\n\t"
            "movdqu %%xmm3, 48(%0)"
            :
            : "r"(t), "r"(from)
            : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
        from = static_cast<const uint8_t*>(from) + 64;
    }
}
#elif defined(__aarch64__) && !defined(LIVEBAG_THREAD_SANITIZER)
#define LIVEBAG_BLOCK_COPY 1
inline void copy_blocks(void* to, const void* from, size_t blocks) {
    for (auto *t = static_cast<uint8_t*>(to), *end = t + blocks * 64; t != end; t += 64) {
        __asm__ volatile(
            "ldp q0, q1, [%1]\n\t"
            "ldp q2, q3, [%1, #32]\n\t"
            "stp q0, q1, [%0]\n\t"
            "stp q2, q3, [%0, #32]"
            :
            : "r"(t), "r"(from)
            : "v0", "v1", "v2", "v3", "memory");
        from = static_cast<const uint8_t*>(from) + 64;
    }
}
#endif

/// Copies bytes out of shared memory.
inline void copy_from_shared(uint8_t* to, const uint8_t* from, size_t bytes) {
#if defined(LIVEBAG_BLOCK_COPY)
    const size_t blocks = bytes / 64;
    copy_blocks(to, from, blocks);
    to += blocks * 64, from += blocks * 64, bytes -= blocks * 64;
#endif
    for (; bytes > 0 && reinterpret_cast<uintptr_t>(from) % 8 != 0; --bytes)
        *to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
    for (; bytes >= 8; to += 8, from += 8, bytes -= 8) {
        const uint64_t word = load_relaxed(from, 0);
        std::memcpy(to, &word, 8);
    }
    for (; bytes > 0; --bytes) *to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
}

/// Copies bytes into shared memory.
inline void copy_to_shared(uint8_t* to, const uint8_t* from, size_t bytes) {
#if defined(LIVEBAG_BLOCK_COPY)
    const size_t blocks = bytes / 64;
    copy_blocks(to, from, blocks);
    to += blocks * 64, from += blocks * 64, bytes -= blocks * 64;
#endif
    for (; bytes > 0 && reinterpret_cast<uintptr_t>(to) % 8 != 0; --bytes)
        __atomic_store_n(to++, *from++, __ATOMIC_RELAXED);
    for (; bytes >= 8; to += 8, from += 8, bytes -= 8) store_relaxed(to, 0, load_u64(from));
    for (; bytes > 0; --bytes) __atomic_store_n(to++, *from++, __ATOMIC_RELAXED);
}

/// A slot as its writer sees it.
struct Slot {
    uint8_t* header;
    uint8_t* payload;
};

/// A slot as a reader sees it.
struct ConstSlot {
    const uint8_t* header;
    const uint8_t* payload;
};

constexpr uint64_t progress_mask = (uint64_t{1} << 48) - 1;

// ---- Writer -------------------------------------------------------------------------------------

/// Opens slot `k mod N` for frame `k`; returns the attempt in the place that `progress` has for it.
inline uint64_t begin_fill(Slot slot, uint64_t k) {
    const uint64_t attempt = (((load_relaxed(slot.header, slot_at::progress) >> 48) + 1) & 0xFFFF) << 48;
    store_relaxed(slot.header, slot_at::progress, attempt);
    store_release(slot.header, slot_at::lock, 2 * k - 1);  // A: pairs with the acquire load in copy_along
    __atomic_thread_fence(__ATOMIC_RELEASE);  // B: pairs with fence F of every reader (still_whole)
    order_streaming_stores();
    return attempt;
}

/// Closes the slot: frame `k` is complete.
inline void finish_fill(Slot slot, uint64_t k) {
    order_streaming_stores();
    store_release(slot.header, slot_at::lock, 2 * k);  // D: pairs with the acquire loads of lock in readers
}

/// Copies piece by piece, publishing each to readers that copy along; returns the CRC-32C if requested.
inline uint32_t fill_by_copy(Slot slot, uint64_t attempt, const uint8_t* data, size_t bytes, bool checksum) {
    uint32_t crc = 0;
    for (size_t done = 0; done < bytes;) {
        const size_t piece = std::min(bytes - done, limits::piece_bytes);
        if (checksum) crc = crc32c(data + done, piece, crc);
        copy_to_shared(slot.payload + done, data + done, piece);
        done += piece;
        // C: pairs with the acquire load of progress in copy_along
        store_release(slot.header, slot_at::progress, attempt | done);
    }
    return crc;
}

inline void store_words(uint8_t* to, const uint8_t* from, size_t offset, size_t bytes) {
    for (const size_t end = offset + bytes; offset < end; offset += 8)
        store_relaxed(to, offset, load_u64(from + offset));
}

/// A frame's header in the writer's own memory.
class HeaderImage {
   public:
    /// Encodes and checks the properties from the writer's program. Throws before anything shared is touched.
    void encode(const FrameMeta& meta, Kind kind, uint64_t payload_bytes, uint64_t publish_time_nanos) {
        if (kind_of(meta.layout) != kind)
            throw Error(Errc::wrong_kind, std::string("the frame is of kind ") + to_string(kind_of(meta.layout)) +
                                              ", the stream of kind " + to_string(kind));
        uint8_t* const to = reinterpret_cast<uint8_t*>(words_);
        std::memset(to + slot_at::publish_time_nanos, 0, slot_at::frame_id - slot_at::publish_time_nanos);
        put(to, slot_at::publish_time_nanos, publish_time_nanos);
        put(to, slot_at::payload_bytes, payload_bytes);
        put(to, slot_at::frame_id_bytes, put_short("frame_id", to + slot_at::frame_id, meta.frame_id,
                                                   limits::frame_id_bytes_max));
        encoding_bytes_ = fields_bytes_ = 0;
        if (const auto* image = std::get_if<ImageLayout>(&meta.layout)) encode_image(to, *image);
        if (const auto* points = std::get_if<PointsLayout>(&meta.layout)) encode_points(to, *points);
        frame_id_bytes_ = meta.frame_id.size();
    }

    void set_crc(uint32_t crc) {
        auto* const to = reinterpret_cast<uint8_t*>(words_);
        put(to, slot_at::crc32c, crc);
        put(to, slot_at::frame_flags, get<uint32_t>(to, slot_at::frame_flags) | 1u);
    }

    /// Stores the words into a slot that is being filled.
    void store(Slot slot) const {
        const auto* const from = reinterpret_cast<const uint8_t*>(words_);
        store_words(slot.header, from, slot_at::publish_time_nanos, slot_at::frame_id - slot_at::publish_time_nanos);
        store_words(slot.header, from, slot_at::frame_id, frame_id_bytes_);
        store_words(slot.header, from, slot_at::encoding, encoding_bytes_);
        store_words(slot.header, from, slot_at::fields, fields_bytes_);
    }

   private:
    static uint8_t put_short(const char* field, uint8_t* to, const std::string& text, size_t bytes_max) {
        if (text.size() > bytes_max) throw too_long(field, text.size(), bytes_max);
        if (!is_utf8(text)) throw Error(Errc::too_large, std::string("the frame's ") + field + " is not UTF-8 text");
        std::memcpy(to, text.data(), text.size());
        return static_cast<uint8_t>(text.size());
    }

    static Error too_long(const char* field, size_t found, size_t expected) {
        return Error(Errc::too_large, std::string("the frame's ") + field + " has " + std::to_string(found) +
                                          " bytes or entries, at most " + std::to_string(expected) + " are possible");
    }

    void encode_image(uint8_t* to, const ImageLayout& image) {
        put(to, slot_at::frame_flags, image.is_bigendian ? 2u : 0u);
        put(to, slot_at::height, image.height);
        put(to, slot_at::width, image.width);
        put(to, slot_at::step, image.step);
        put(to, slot_at::encoding_bytes, put_short("encoding", to + slot_at::encoding, image.encoding,
                                                   limits::pixel_encoding_bytes_max));
        encoding_bytes_ = image.encoding.size();
    }

    void encode_points(uint8_t* to, const PointsLayout& points) {
        if (points.fields.size() > limits::point_fields_max)
            throw too_long("fields", points.fields.size(), limits::point_fields_max);
        put(to, slot_at::frame_flags, (points.is_bigendian ? 2u : 0u) | (points.is_dense ? 4u : 0u));
        put(to, slot_at::height, points.height);
        put(to, slot_at::width, points.width);
        put(to, slot_at::step, points.point_step);
        put(to, slot_at::row_step, points.row_step);
        put(to, slot_at::field_count, static_cast<uint8_t>(points.fields.size()));
        for (size_t i = 0; i < points.fields.size(); ++i) {
            const PointField& field = points.fields[i];
            uint8_t* const entry = to + slot_at::fields + i * slot_at::field_stride;
            std::memset(entry, 0, slot_at::field_stride);
            if (field.name.empty()) throw Error(Errc::too_large, "a point's field has no name; give it one");
            const uint8_t name_bytes =
                put_short("field name", entry, field.name, limits::point_field_name_bytes_max);
            put(entry, 32, field.offset);
            put(entry, 36, field.count);
            entry[40] = field.datatype;
            entry[41] = name_bytes;
        }
        fields_bytes_ = points.fields.size() * slot_at::field_stride;
    }

    uint64_t words_[slot_at::header_bytes_max / 8] = {};
    size_t frame_id_bytes_ = 0;
    size_t encoding_bytes_ = 0;
    size_t fields_bytes_ = 0;
};

// ---- Reader -------------------------------------------------------------------------------------

/// What became of a frame that a reader wanted.
enum class Outcome {
    whole,
    overtaken,  ///< the slot holds a later frame, or got one meanwhile
    not_yet,    ///< the slot does not hold it yet
};

inline Outcome look(ConstSlot slot, uint64_t k) {
    const uint64_t lock = load_acquire(slot.header, slot_at::lock);  // pairs with D
    return lock == 2 * k ? Outcome::whole : lock > 2 * k ? Outcome::overtaken : Outcome::not_yet;
}

/// After the last racing access: whether no byte came from another fill. If one did, its store comes
/// after fence B of that fill, so F synchronises with B and this load sees that fill's odd lock or
/// something later.
inline bool still_whole(const uint8_t* slot_header, uint64_t k) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);  // F: pairs with fence B in begin_fill
    return load_relaxed(slot_header, slot_at::lock) == 2 * k;
}

/// A frame's header as loaded; it may be torn until `still_whole` has said otherwise.
class RawHeader {
   public:
    explicit RawHeader(const uint8_t* slot_header) {
        load(slot_header, slot_at::publish_time_nanos, slot_at::frame_id - slot_at::publish_time_nanos);
        const uint8_t* const from = bytes();
        load(slot_header, slot_at::frame_id, from[slot_at::frame_id_bytes]);
        load(slot_header, slot_at::encoding,
             std::min<size_t>(from[slot_at::encoding_bytes], limits::pixel_encoding_bytes_max));
        // Only streams of points have room for fields; a count elsewhere is damage and found later.
        field_count_ = std::min<size_t>(from[slot_at::field_count], limits::point_fields_max);
    }

    /// Loads the table of fields: only in a stream whose slot headers are large enough for it.
    void load_fields(const uint8_t* slot_header) {
        load(slot_header, slot_at::fields, field_count_ * slot_at::field_stride);
    }

    uint64_t payload_bytes() const { return get<uint64_t>(bytes(), slot_at::payload_bytes); }

    /// Checks and decodes. Call after `still_whole`, so that an error means damage, not a torn frame.
    FrameHeader decode(uint64_t k, Kind kind, uint64_t payload_bytes_max) const {
        const uint8_t* const from = bytes();
        FrameHeader frame;
        frame.sequence = k;
        frame.publish_time_nanos = get<uint64_t>(from, slot_at::publish_time_nanos);
        frame.payload_bytes = payload_bytes();
        bound(k, "payload_bytes", frame.payload_bytes, payload_bytes_max);
        const auto flags = get<uint32_t>(from, slot_at::frame_flags);
        if (flags & 1u) frame.crc32c = get<uint32_t>(from, slot_at::crc32c);
        frame.frame_id = text(k, "frame_id", slot_at::frame_id, from[slot_at::frame_id_bytes]);
        if (kind == Kind::image) frame.layout = image(k, flags);
        if (kind == Kind::points) frame.layout = points(k, flags);
        return frame;
    }

   private:
    const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(words_); }

    void load(const uint8_t* slot_header, size_t offset, size_t count) {
        for (const size_t end = offset + count; offset < end; offset += 8)
            words_[offset / 8] = load_relaxed(slot_header, offset);
    }

    static void bound(uint64_t k, const char* field, uint64_t found, uint64_t expected) {
        if (found > expected)
            throw Error(Errc::damaged, "frame " + std::to_string(k) + " is damaged: its " + field + " is " +
                                           std::to_string(found) + ", at most " + std::to_string(expected) +
                                           " is possible");
    }

    std::string text(uint64_t k, const char* field, size_t at, size_t count) const {
        std::string made(reinterpret_cast<const char*>(bytes()) + at, count);
        if (!is_utf8(made))
            throw Error(Errc::damaged,
                        "frame " + std::to_string(k) + " is damaged: its " + field + " is not UTF-8 text");
        return made;
    }

    ImageLayout image(uint64_t k, uint32_t flags) const {
        const uint8_t* const from = bytes();
        bound(k, "encoding_bytes", from[slot_at::encoding_bytes], limits::pixel_encoding_bytes_max);
        ImageLayout made;
        made.height = get<uint32_t>(from, slot_at::height);
        made.width = get<uint32_t>(from, slot_at::width);
        made.step = get<uint32_t>(from, slot_at::step);
        made.encoding = text(k, "encoding", slot_at::encoding, from[slot_at::encoding_bytes]);
        made.is_bigendian = (flags & 2u) != 0;
        return made;
    }

    PointsLayout points(uint64_t k, uint32_t flags) const {
        const uint8_t* const from = bytes();
        bound(k, "field_count", from[slot_at::field_count], limits::point_fields_max);
        PointsLayout made;
        made.height = get<uint32_t>(from, slot_at::height);
        made.width = get<uint32_t>(from, slot_at::width);
        made.point_step = get<uint32_t>(from, slot_at::step);
        made.row_step = get<uint32_t>(from, slot_at::row_step);
        made.is_bigendian = (flags & 2u) != 0;
        made.is_dense = (flags & 4u) != 0;
        for (size_t i = 0; i < field_count_; ++i) {
            const size_t at = slot_at::fields + i * slot_at::field_stride;
            const size_t name_bytes = from[at + 41];
            bound(k, "field name", name_bytes, limits::point_field_name_bytes_max);
            PointField field;
            field.name = text(k, "field name", at, name_bytes);
            field.offset = get<uint32_t>(from, at + 32);
            field.count = get<uint32_t>(from, at + 36);
            field.datatype = from[at + 40];
            made.fields.push_back(std::move(field));
        }
        return made;
    }

    // Left as it is: every byte that is used was loaded first.
    uint64_t words_[slot_at::header_bytes_max / 8];
    size_t field_count_ = 0;
};

inline RawHeader load_header(ConstSlot slot, Kind kind) {
    RawHeader header(slot.header);
    if (kind == Kind::points) header.load_fields(slot.header);
    return header;
}

/// For callers that have nothing to do in the middle of a copy.
struct Nothing {
    void operator()() const {}
};

/// Section 3.2: copies frame `k` into a buffer. `between` is called in the middle of the copy.
/// `frame` is set when the outcome is `whole`.
template <class Between>
Outcome copy_frame(ConstSlot slot, uint64_t k, Kind kind, uint64_t payload_bytes_max, std::vector<uint8_t>& buffer,
                   FrameHeader& frame, Between& between) {
    if (const Outcome seen = look(slot, k); seen != Outcome::whole) return seen;
    const RawHeader header = load_header(slot, kind);
    const auto bytes = static_cast<size_t>(std::min(header.payload_bytes(), payload_bytes_max));
    buffer.resize(bytes);
    const size_t half = bytes / 2 & ~size_t{63};
    copy_from_shared(buffer.data(), slot.payload, half);
    between();
    copy_from_shared(buffer.data() + half, slot.payload + half, bytes - half);
    if (!still_whole(slot.header, k)) return Outcome::overtaken;
    frame = header.decode(k, kind, payload_bytes_max);
    return Outcome::whole;
}

/// Section 3.3: copies frame `k` behind a writer that is still filling the slot by copy. `not_yet`
/// means given up: wait for the frame to be complete.
template <class Between>
Outcome copy_along(ConstSlot slot, uint64_t k, Kind kind, uint64_t payload_bytes_max, std::vector<uint8_t>& buffer,
                   FrameHeader& frame, Between& between) {
    const uint64_t lock = load_acquire(slot.header, slot_at::lock);  // pairs with A and D
    if (lock != 2 * k - 1) return copy_frame(slot, k, kind, payload_bytes_max, buffer, frame, between);
    const uint64_t attempt = load_acquire(slot.header, slot_at::progress) >> 48;
    // A hint for the size of the buffer, no more: the header may still be that of another frame.
    const RawHeader early = load_header(slot, kind);
    buffer.resize(static_cast<size_t>(std::min(early.payload_bytes(), payload_bytes_max)));
    size_t done = 0;
    uint64_t moved_at = monotonic_nanos();
    for (bool first = true;; ) {
        const uint64_t progress = load_acquire(slot.header, slot_at::progress);  // pairs with C
        if (progress >> 48 != attempt) return Outcome::not_yet;
        const size_t there = std::min<uint64_t>({progress & progress_mask, payload_bytes_max, buffer.size()});
        if (there > done) {
            copy_from_shared(buffer.data() + done, slot.payload + done, there - done);
            done = there;
            if (first) between();
            first = false;
            moved_at = monotonic_nanos();
        }
        const uint64_t now_lock = load_acquire(slot.header, slot_at::lock);  // pairs with D
        if (now_lock == 2 * k) break;
        if (now_lock > 2 * k) return Outcome::overtaken;
        if (now_lock != 2 * k - 1) return Outcome::not_yet;
        if (there == done && monotonic_nanos() - moved_at > static_cast<uint64_t>(limits::copy_along_stall_nanos_max))
            return Outcome::not_yet;
        cpu_pause();
    }
    const RawHeader header = load_header(slot, kind);
    const auto bytes = static_cast<size_t>(std::min(header.payload_bytes(), payload_bytes_max));
    buffer.resize(bytes);
    if (done < bytes) copy_from_shared(buffer.data() + done, slot.payload + done, bytes - done);
    if (!still_whole(slot.header, k)) return Outcome::overtaken;
    if (load_relaxed(slot.header, slot_at::progress) >> 48 != attempt) return Outcome::not_yet;
    frame = header.decode(k, kind, payload_bytes_max);
    return Outcome::whole;
}

}  // namespace livebag::detail
