// Every bound of a stream, in one place.

#pragma once

#include <cstddef>
#include <cstdint>

namespace livebag::limits {

/// Longest stream name: leaves room for prefix and suffix in the 255 bytes of a file name.
constexpr size_t name_bytes_max = 200;
constexpr uint32_t slots_min = 2;  ///< the double buffer
constexpr uint32_t slots_max = 1024;
constexpr uint32_t slots_default_min = 4;
constexpr uint32_t slots_default_max = 64;
/// Memory that the default number of slots may take beyond `slots_default_min`.
constexpr uint64_t slots_default_bytes = 256 << 10;
/// Largest payload: the longest sequence in ROS 2.
constexpr uint64_t payload_bytes_max = 0xFFFF'FFFF;
constexpr uint32_t schema_bytes_max = 1 << 20;
constexpr uint32_t topic_bytes_max = 508;
constexpr uint32_t type_name_bytes_max = 252;
constexpr uint32_t encoding_name_bytes_max = 60;
constexpr uint32_t frame_id_bytes_max = 255;
constexpr uint32_t pixel_encoding_bytes_max = 32;
constexpr uint32_t point_fields_max = 32;
constexpr uint32_t point_field_name_bytes_max = 32;

/// Longest label of a reader; a longer one is cut.
constexpr size_t reader_label_bytes_max = 32;

/// A copy is published in pieces of this size to readers that copy along.
constexpr size_t piece_bytes = 64 << 10;
/// How often a reader of the newest frame starts again after being overtaken.
constexpr int read_attempts_max = 4;
/// How often creation restarts when other processes change the same name meanwhile.
constexpr int create_attempts_max = 64;
/// Longest single sleep: a lost wake-up costs at most this.
constexpr int64_t sleep_nanos_max = 100'000'000;
/// Longest nap of a reader that has no wake object to announce itself in.
constexpr int64_t nap_nanos_max = 1'000'000;
/// Longest time that a reader copies along behind a writer that makes no progress.
constexpr int64_t copy_along_stall_nanos_max = 200'000;

}  // namespace livebag::limits
