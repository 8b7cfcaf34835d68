// Named offsets of docs/stream-layout.md, the static header, and the arithmetic of where areas lie.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "crc32c.hpp"
#include "error.hpp"
#include "frame.hpp"
#include "limits.hpp"
#include "options.hpp"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "livebag streams are for little-endian hosts"
#endif
static_assert(sizeof(void*) == 8, "livebag streams are for 64-bit hosts");
static_assert(__atomic_always_lock_free(8, nullptr), "livebag streams need lock-free 8-byte words");

namespace livebag {

/// A stream's own description, copied once when it was opened.
struct StreamInfo {
    std::string name;
    Kind kind = Kind::bytes;
    uint32_t slots = 0;
    uint64_t payload_bytes_max = 0;
    bool checksum = false;
    std::string topic;
    std::string type_name;
    std::string message_encoding;
    std::string schema_encoding;
    std::string schema;
    uint64_t created_realtime_nanos = 0;
    uint64_t instance = 0;  ///< random; another value is another stream, with sequences from 1
};

namespace detail {

constexpr uint64_t page_bytes = 4096;
/// A huge page on x86-64, and on aarch64 with 4 KiB pages.
constexpr uint64_t huge_page_bytes = 2 << 20;
/// From this sum of payloads on, the payload area is laid out for huge pages.
constexpr uint64_t huge_area_bytes_min = 4 << 20;
constexpr uint32_t layout_version = 1;
constexpr uint64_t magic_main = 0x5347'4142'4556'494C;  // "LIVEBAGS"
constexpr uint64_t magic_wake = 0x5747'4142'4556'494C;  // "LIVEBAGW"
constexpr uint64_t main_bytes_min = 0x3000;
constexpr uint64_t wake_bytes = 4096;
constexpr uint64_t static_bytes = 4096;
constexpr uint64_t schema_offset = 0x2000;
constexpr uint32_t flag_checksum = 1;
constexpr uint32_t flag_always_wake = 2;

namespace header_at {
constexpr size_t magic = 0x000, version = 0x008, crc32c = 0x00C, checked_from = 0x010, total_bytes = 0x010,
                 kind = 0x018, flags = 0x01C, slot_count = 0x020, slot_header_stride = 0x024,
                 slot_headers_offset = 0x028, payloads_offset = 0x030, payload_stride = 0x038,
                 payload_bytes_max = 0x040, schema_offset = 0x048, schema_bytes = 0x050,
                 created_realtime_nanos = 0x058, instance = 0x060, topic = 0x100, type_name = 0x300,
                 message_encoding = 0x400, schema_encoding = 0x440;
}

namespace live_at {
constexpr size_t latest = 0x1000, begun = 0x1080, heartbeat_monotonic_nanos = 0x1100, heartbeat_count = 0x1108,
                 state = 0x1180, writer_pid = 0x1188, writer_start_ticks = 0x1190, epoch = 0x1198,
                 attached_realtime_nanos = 0x11A0, published = 0x1200, abandoned = 0x1208, dropped = 0x1210,
                 publish_gap_max_nanos = 0x1218, payload_bytes_published = 0x1220;
}

namespace state_is {
constexpr uint64_t live = 1, closed = 2, replaced = 3;
}

namespace slot_at {
constexpr size_t lock = 0x000, progress = 0x008, publish_time_nanos = 0x010, payload_bytes = 0x018, crc32c = 0x020,
                 frame_flags = 0x024, height = 0x028, width = 0x02C, step = 0x030, row_step = 0x034,
                 frame_id_bytes = 0x038, encoding_bytes = 0x039, field_count = 0x03A, frame_id = 0x040,
                 encoding = 0x140, fields = 0x180;
constexpr size_t field_stride = 48;
constexpr size_t header_bytes_max = fields + limits::point_fields_max * field_stride;
}

namespace wake_at {
constexpr size_t magic = 0x000, instance = 0x008, wanted_latest = 0x040, wanted_begun = 0x080;
}

/// The table of readers in the wake object; an entry has two cache lines.
namespace reader_at {
constexpr size_t table_offset = 0x100, count = 30, stride = 128;
constexpr size_t turn = 0x00, pid = 0x08, start_ticks = 0x10, label_bytes = 0x18, label = 0x20, taken = 0x40,
                 lapped = 0x48, last_sequence = 0x50, taken_monotonic_nanos = 0x58;
static_assert(table_offset + count * stride <= wake_bytes, "the table fits the page");
}  // namespace reader_at

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

template <class Number>
Number get(const uint8_t* bytes, size_t at) {
    Number value;
    std::memcpy(&value, bytes + at, sizeof value);
    return value;
}

template <class Number>
void put(uint8_t* bytes, size_t at, Number value) {
    std::memcpy(bytes + at, &value, sizeof value);
}

/// Whether the bytes are UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
inline bool is_utf8(const char* text, size_t bytes) {
    const auto* at = reinterpret_cast<const uint8_t*>(text);
    const uint8_t* const end = at + bytes;
    while (at < end) {
        const uint8_t lead = *at++;
        if (lead < 0x80) continue;
        const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if (lead < 0xC2 || lead > 0xF4 || end - at < more) return false;
        const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if (*at < low || *at > high) return false;
        for (int k = 1; k < more; ++k)
            if ((at[k] & 0xC0) != 0x80) return false;
        at += more;
    }
    return true;
}
inline bool is_utf8(const std::string& text) { return is_utf8(text.data(), text.size()); }

/// Where everything of a stream lies. A value from `plan` or one that passed `check` lies wholly
/// inside `total_bytes`; all later address arithmetic relies on that.
struct Geometry {
    uint64_t total_bytes = 0;
    uint64_t slot_headers_offset = 0;
    uint64_t payloads_offset = 0;
    uint64_t payload_stride = 0;
    uint64_t payload_bytes_max = 0;
    uint32_t slot_count = 0;
    uint32_t slot_header_stride = 0;
    uint32_t schema_bytes = 0;

    static uint32_t default_slot_count(uint64_t payload_bytes_max) {
        const uint64_t fitting = limits::slots_default_bytes / round_up(payload_bytes_max, page_bytes);
        return static_cast<uint32_t>(
            std::clamp<uint64_t>(fitting, limits::slots_default_min, limits::slots_default_max));
    }

    static Geometry plan(Kind kind, uint32_t slot_count, uint64_t payload_bytes_max, uint32_t schema_bytes) {
        Geometry made;
        made.slot_count = slot_count;
        made.payload_bytes_max = payload_bytes_max;
        made.schema_bytes = schema_bytes;
        made.slot_header_stride = kind == Kind::points ? 2048 : 512;
        made.slot_headers_offset = round_up(detail::schema_offset + schema_bytes, page_bytes);
        made.payload_stride = round_up(payload_bytes_max, page_bytes);
        const uint64_t payloads = made.payload_stride * slot_count;
        const uint64_t alignment = payloads >= huge_area_bytes_min ? huge_page_bytes : page_bytes;
        const uint64_t headers_end = made.slot_headers_offset + uint64_t{made.slot_header_stride} * slot_count;
        made.payloads_offset = round_up(headers_end, alignment);
        made.total_bytes = round_up(made.payloads_offset + payloads, alignment);
        return made;
    }

    /// Checks every rule of the layout page. Each product is below 2^32 × 2^10 or is checked first.
    void check(Kind kind, uint64_t object_bytes) const {
        rule(total_bytes <= object_bytes, "total_bytes", total_bytes, "at most the size of the object");
        rule(slot_count >= limits::slots_min && slot_count <= limits::slots_max, "slot_count", slot_count, "2 to 1024");
        const uint64_t stride_min = kind == Kind::points ? slot_at::header_bytes_max : slot_at::fields;
        rule(slot_header_stride % 64 == 0 && slot_header_stride >= stride_min, "slot_header_stride_bytes",
             slot_header_stride, "a multiple of 64, large enough");
        rule(payload_bytes_max >= 1 && payload_bytes_max <= limits::payload_bytes_max, "payload_bytes_max",
             payload_bytes_max, "1 to 4294967295");
        rule(payload_stride % page_bytes == 0 && payload_stride >= payload_bytes_max, "payload_stride_bytes",
             payload_stride, "a multiple of 4096, at least payload_bytes_max");
        rule(schema_bytes <= limits::schema_bytes_max, "schema_bytes", schema_bytes, "at most 1 MiB");
        rule(slot_headers_offset % 64 == 0 && slot_headers_offset >= detail::schema_offset + schema_bytes,
             "slot_headers_offset", slot_headers_offset, "a multiple of 64 after the schema");
        const uint64_t headers = uint64_t{slot_header_stride} * slot_count;
        rule(slot_headers_offset <= total_bytes && headers <= total_bytes - slot_headers_offset,
             "slot_headers_offset", slot_headers_offset, "slot headers that end before total_bytes");
        rule(payloads_offset % page_bytes == 0 && payloads_offset >= slot_headers_offset + headers &&
                 payloads_offset <= total_bytes,
             "payloads_offset", payloads_offset, "a multiple of 4096 after the slot headers");
        rule(payload_stride <= (total_bytes - payloads_offset) / slot_count, "payload_stride_bytes", payload_stride,
             "payloads that end before total_bytes");
    }

    uint64_t slot_header_offset(uint64_t sequence) const {
        return slot_headers_offset + (sequence % slot_count) * slot_header_stride;
    }
    uint64_t payload_offset(uint64_t sequence) const {
        return payloads_offset + (sequence % slot_count) * payload_stride;
    }

   private:
    static void rule(bool holds, const char* field, uint64_t found, const char* expected) {
        if (!holds)
            throw Error(Errc::damaged, std::string("the region is damaged: ") + field + " is " +
                                           std::to_string(found) + ", expected " + expected);
    }
};

/// The static header in the reader's or writer's own memory.
struct StaticHeader {
    StreamInfo info;
    Geometry geometry;
    bool always_wake = false;

    /// The properties that a re-attaching writer must find: all but the time and the instance.
    bool same_stream(const StaticHeader& other) const {
        const StreamInfo& a = info;
        const StreamInfo& b = other.info;
        return a.kind == b.kind && a.slots == b.slots && a.payload_bytes_max == b.payload_bytes_max &&
               a.checksum == b.checksum && always_wake == other.always_wake && a.topic == b.topic &&
               a.type_name == b.type_name && a.message_encoding == b.message_encoding &&
               a.schema_encoding == b.schema_encoding && a.schema == b.schema;
    }

    static StaticHeader from_options(const std::string& name, const StreamOptions& options);
    std::vector<uint8_t> encode() const;
    static StaticHeader decode(const std::string& name, const uint8_t* object, uint64_t object_bytes);
};

inline void require_option(bool holds, const char* option, const std::string& found, const char* expected) {
    if (!holds)
        throw Error(Errc::bad_option,
                    std::string("the stream option ") + option + " is " + found + ", expected " + expected);
}

inline void require_text(const char* option, const std::string& text, uint32_t bytes_max) {
    require_option(text.size() <= bytes_max, option, std::to_string(text.size()) + " bytes long",
                   ("at most " + std::to_string(bytes_max)).c_str());
    require_option(is_utf8(text), option, "not UTF-8", "UTF-8 text");
}

inline StaticHeader StaticHeader::from_options(const std::string& name, const StreamOptions& options) {
    require_option(options.kind <= Kind::points, "kind", std::to_string(static_cast<uint32_t>(options.kind)),
                   "bytes, image or points");
    require_option(options.payload_bytes_max >= 1 && options.payload_bytes_max <= limits::payload_bytes_max,
                   "payload_bytes_max", std::to_string(options.payload_bytes_max), "1 to 4294967295");
    require_option(options.slots == 0 || (options.slots >= limits::slots_min && options.slots <= limits::slots_max),
                   "slots", std::to_string(options.slots), "2 to 1024, or 0 for the default");
    require_text("topic", options.topic, limits::topic_bytes_max);
    require_text("type_name", options.type_name, limits::type_name_bytes_max);
    require_text("message_encoding", options.message_encoding, limits::encoding_name_bytes_max);
    require_text("schema_encoding", options.schema_encoding, limits::encoding_name_bytes_max);
    require_option(options.schema.size() <= limits::schema_bytes_max, "schema",
                   std::to_string(options.schema.size()) + " bytes long", "at most 1 MiB");
    StaticHeader made;
    made.info.name = name;
    made.info.kind = options.kind;
    made.info.slots = options.slots ? options.slots : Geometry::default_slot_count(options.payload_bytes_max);
    made.info.payload_bytes_max = options.payload_bytes_max;
    made.info.checksum = options.checksum;
    made.info.topic = options.topic.empty() ? "/" + name : options.topic;
    made.info.type_name = options.type_name;
    made.info.message_encoding = options.message_encoding;
    made.info.schema_encoding = options.schema_encoding;
    made.info.schema = options.schema;
    made.always_wake = !options.group.empty();
    made.geometry = Geometry::plan(made.info.kind, made.info.slots, made.info.payload_bytes_max,
                                   static_cast<uint32_t>(options.schema.size()));
    return made;
}

inline void put_text(uint8_t* bytes, size_t at, const std::string& text) {
    put(bytes, at, static_cast<uint32_t>(text.size()));
    std::memcpy(bytes + at + 4, text.data(), text.size());
}

/// The page as it goes into the object, with the magic left 0: it is stored last, by itself.
inline std::vector<uint8_t> StaticHeader::encode() const {
    std::vector<uint8_t> page(static_bytes, 0);
    uint8_t* const to = page.data();
    put(to, header_at::version, layout_version);
    put(to, header_at::total_bytes, geometry.total_bytes);
    put(to, header_at::kind, static_cast<uint32_t>(info.kind));
    put(to, header_at::flags, (info.checksum ? flag_checksum : 0u) | (always_wake ? flag_always_wake : 0u));
    put(to, header_at::slot_count, geometry.slot_count);
    put(to, header_at::slot_header_stride, geometry.slot_header_stride);
    put(to, header_at::slot_headers_offset, geometry.slot_headers_offset);
    put(to, header_at::payloads_offset, geometry.payloads_offset);
    put(to, header_at::payload_stride, geometry.payload_stride);
    put(to, header_at::payload_bytes_max, geometry.payload_bytes_max);
    put(to, header_at::schema_offset, schema_offset);
    put(to, header_at::schema_bytes, geometry.schema_bytes);
    put(to, header_at::created_realtime_nanos, info.created_realtime_nanos);
    put(to, header_at::instance, info.instance);
    put_text(to, header_at::topic, info.topic);
    put_text(to, header_at::type_name, info.type_name);
    put_text(to, header_at::message_encoding, info.message_encoding);
    put_text(to, header_at::schema_encoding, info.schema_encoding);
    const uint32_t crc = crc32c(to + header_at::checked_from, static_bytes - header_at::checked_from);
    put(to, header_at::crc32c, crc32c(info.schema.data(), info.schema.size(), crc));
    return page;
}

inline std::string get_text(const uint8_t* page, size_t at, uint32_t bytes_max, const char* field) {
    const auto bytes = get<uint32_t>(page, at);
    if (bytes > bytes_max)
        throw Error(Errc::damaged, std::string("the region is damaged: ") + field + " has " + std::to_string(bytes) +
                                       " bytes, expected at most " + std::to_string(bytes_max));
    std::string text(reinterpret_cast<const char*>(page) + at + 4, bytes);
    if (!is_utf8(text))
        throw Error(Errc::damaged, std::string("the region is damaged: ") + field + " is not UTF-8 text");
    return text;
}

/// Reads the magic with the Acquire that pairs with the creator's Release: earlier stores are visible afterwards.
inline uint64_t load_magic(const uint8_t* object) {
    return __atomic_load_n(reinterpret_cast<const uint64_t*>(object), __ATOMIC_ACQUIRE);
}

/// Copies the header out of a mapped object once, then believes only the copy, and that only after
/// every rule of the layout page. `object` has at least `object_bytes` mapped bytes.
inline StaticHeader StaticHeader::decode(const std::string& name, const uint8_t* object, uint64_t object_bytes) {
    if (object_bytes == 0) throw Error(Errc::being_made, "the region is still being made; try again in a moment");
    if (object_bytes < main_bytes_min)
        throw Error(Errc::damaged, "a region has at least 12288 bytes, this object has " +
                                       std::to_string(object_bytes) + ": it is truncated or foreign");
    const uint64_t magic = load_magic(object);
    if (magic == 0) throw Error(Errc::being_made, "the region is still being made; try again in a moment");
    if (magic != magic_main)
        throw Error(Errc::foreign, "the region starts with " + hex(magic, 16) +
                                       " instead of \"LIVEBAGS\": not a livebag stream");
    std::vector<uint8_t> copy(object, object + static_bytes);
    const uint8_t* const page = copy.data();
    if (const auto found = get<uint32_t>(page, header_at::version); found != layout_version)
        throw Error(Errc::version, "the region has layout version " + std::to_string(found) +
                                       ", this program reads version 1; use programs of one livebag version");
    StaticHeader read;
    StreamInfo& info = read.info;
    Geometry& geometry = read.geometry;
    geometry.total_bytes = get<uint64_t>(page, header_at::total_bytes);
    geometry.slot_count = get<uint32_t>(page, header_at::slot_count);
    geometry.slot_header_stride = get<uint32_t>(page, header_at::slot_header_stride);
    geometry.slot_headers_offset = get<uint64_t>(page, header_at::slot_headers_offset);
    geometry.payloads_offset = get<uint64_t>(page, header_at::payloads_offset);
    geometry.payload_stride = get<uint64_t>(page, header_at::payload_stride);
    geometry.payload_bytes_max = get<uint64_t>(page, header_at::payload_bytes_max);
    geometry.schema_bytes = get<uint32_t>(page, header_at::schema_bytes);
    if (geometry.schema_bytes > limits::schema_bytes_max || geometry.schema_bytes > object_bytes - schema_offset ||
        get<uint64_t>(page, header_at::schema_offset) != schema_offset)
        throw Error(Errc::damaged, "the region is damaged: its schema of " + std::to_string(geometry.schema_bytes) +
                                       " bytes does not lie at 0x2000 within the object");
    info.schema.assign(reinterpret_cast<const char*>(object) + schema_offset, geometry.schema_bytes);
    const uint32_t header_crc = crc32c(page + header_at::checked_from, static_bytes - header_at::checked_from);
    const uint32_t crc = crc32c(info.schema.data(), info.schema.size(), header_crc);
    if (const auto stored = get<uint32_t>(page, header_at::crc32c); stored != crc)
        throw Error(Errc::damaged, "the region is damaged: its header has CRC-32C " + hex(crc, 8) + ", expected " +
                                       hex(stored, 8));
    const auto kind = get<uint32_t>(page, header_at::kind);
    const auto flags = get<uint32_t>(page, header_at::flags);
    if (kind > static_cast<uint32_t>(Kind::points) || (flags & ~(flag_checksum | flag_always_wake)) != 0)
        throw Error(Errc::damaged, "the region is damaged: kind " + std::to_string(kind) + " with flags " +
                                       hex(flags, 8) + " does not exist in layout version 1");
    info.kind = static_cast<Kind>(kind);
    info.checksum = (flags & flag_checksum) != 0;
    read.always_wake = (flags & flag_always_wake) != 0;
    geometry.check(info.kind, object_bytes);
    info.name = name;
    info.slots = geometry.slot_count;
    info.payload_bytes_max = geometry.payload_bytes_max;
    info.created_realtime_nanos = get<uint64_t>(page, header_at::created_realtime_nanos);
    info.instance = get<uint64_t>(page, header_at::instance);
    info.topic = get_text(page, header_at::topic, limits::topic_bytes_max, "topic");
    info.type_name = get_text(page, header_at::type_name, limits::type_name_bytes_max, "type_name");
    info.message_encoding =
        get_text(page, header_at::message_encoding, limits::encoding_name_bytes_max, "message_encoding");
    info.schema_encoding =
        get_text(page, header_at::schema_encoding, limits::encoding_name_bytes_max, "schema_encoding");
    return read;
}

}  // namespace detail
}  // namespace livebag
