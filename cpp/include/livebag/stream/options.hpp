// A writer's options.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frame.hpp"

namespace livebag {

/// Where memory and thread go. A request that the machine refuses becomes a sentence in `Writer::warnings()` with a
/// remedy; none of them makes creation fail.
struct Placement {
    bool lock_memory = false;          ///< mlock: never swapped out
    bool huge_pages = false;           ///< fewer TLB misses on large frames
    std::optional<uint32_t> numa_node; ///< memory of this node
    std::optional<uint32_t> cpu;       ///< the calling thread runs on this CPU only
    std::optional<int> fifo_priority;  ///< the calling thread runs under SCHED_FIFO, 1..99
};

/// Everything about a stream that its writer decides. A writer that asks for the same as last time
/// re-attaches; one that asks for something else replaces the stream.
struct StreamOptions {
    Kind kind = Kind::bytes;
    uint64_t payload_bytes_max = 0;
    uint32_t slots = 0;          ///< 0 = default: 4, up to 64 when a frame is small
    std::string topic;           ///< empty = "/" + name
    std::string type_name;       ///< e.g. `sensor_msgs/msg/Image`
    std::string message_encoding;///< e.g. `cdr`
    std::string schema_encoding; ///< e.g. `ros2msg`
    std::string schema;          ///< the message definition
    std::string group;           ///< name or number of a group that may read; empty = the owner alone
    bool checksum = false;       ///< every frame carries a CRC-32C that readers verify
    Placement placement;

    /// Frames of raw bytes.
    static StreamOptions bytes(uint64_t payload_bytes_max) {
        StreamOptions options;
        options.payload_bytes_max = payload_bytes_max;
        return options;
    }

    /// Images of at most this size; `pixel_bytes` is 3 for `bgr8`, 2 for `mono16`, …
    static StreamOptions image(uint32_t width, uint32_t height, uint32_t pixel_bytes) {
        StreamOptions options = bytes(uint64_t{width} * height * pixel_bytes);
        options.kind = Kind::image;
        options.type_name = "sensor_msgs/msg/Image";
        options.message_encoding = "cdr";
        options.schema_encoding = "ros2msg";
        return options;
    }

    /// Clouds of at most this many points of `point_step` bytes.
    static StreamOptions points(uint32_t points_max, uint32_t point_step = 16) {
        StreamOptions options = bytes(uint64_t{points_max} * point_step);
        options.kind = Kind::points;
        options.type_name = "sensor_msgs/msg/PointCloud2";
        options.message_encoding = "cdr";
        options.schema_encoding = "ros2msg";
        return options;
    }

    StreamOptions& with_slots(uint32_t value) { return set(slots, value); }
    StreamOptions& with_topic(std::string value) { return set(topic, std::move(value)); }
    StreamOptions& with_type(std::string type, std::string encoding) {
        message_encoding = std::move(encoding);
        return set(type_name, std::move(type));
    }
    StreamOptions& with_schema(std::string encoding, std::string text) {
        schema_encoding = std::move(encoding);
        return set(schema, std::move(text));
    }
    StreamOptions& with_group(std::string value) { return set(group, std::move(value)); }
    StreamOptions& with_checksum(bool value = true) { return set(checksum, value); }
    StreamOptions& with_placement(Placement value) { return set(placement, std::move(value)); }

   private:
    template <class Value>
    StreamOptions& set(Value& field, Value value) {
        field = std::move(value);
        return *this;
    }
};

}  // namespace livebag
