// A frame's properties.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "error.hpp"

namespace livebag {

/// The type of a stream's frames.
enum class Kind : uint32_t { bytes = 0, image = 1, points = 2 };

inline const char* to_string(Kind kind) {
    switch (kind) {
        case Kind::bytes: return "bytes";
        case Kind::image: return "image";
        case Kind::points: return "points";
    }
    return "unknown";
}

/// An opaque payload.
struct BytesLayout {
    friend bool operator==(const BytesLayout&, const BytesLayout&) { return true; }
};

/// Pixels, as `sensor_msgs/msg/Image` describes them.
struct ImageLayout {
    uint32_t width = 0;
    uint32_t height = 0;
    uint32_t step = 0;     ///< bytes from one row to the next
    std::string encoding;  ///< `rgb8`, `mono16`, `32FC1`, … as in ROS
    bool is_bigendian = false;

    /// Rows without gaps of an encoding that this header knows. Throws Errc::bad_option otherwise.
    static ImageLayout of(uint32_t width, uint32_t height, const std::string& encoding);

    /// Bytes of the whole image.
    uint64_t payload_bytes() const { return uint64_t{step} * height; }

    friend bool operator==(const ImageLayout& a, const ImageLayout& b) {
        return a.width == b.width && a.height == b.height && a.step == b.step && a.encoding == b.encoding &&
               a.is_bigendian == b.is_bigendian;
    }
};

/// One field of a point, as `sensor_msgs/msg/PointField`.
struct PointField {
    std::string name;
    uint32_t offset = 0;   ///< bytes from the start of the point
    uint8_t datatype = 0;  ///< 1..8: int8, uint8, int16, uint16, int32, uint32, float32, float64
    uint32_t count = 1;    ///< elements

    static constexpr uint8_t float32 = 7;

    friend bool operator==(const PointField& a, const PointField& b) {
        return a.name == b.name && a.offset == b.offset && a.datatype == b.datatype && a.count == b.count;
    }
};

/// Points, as `sensor_msgs/msg/PointCloud2` describes them.
struct PointsLayout {
    uint32_t width = 0;  ///< points in a row; all of them when `height` is 1
    uint32_t height = 1;
    uint32_t point_step = 0;  ///< bytes of a point
    uint32_t row_step = 0;    ///< bytes of a row
    std::vector<PointField> fields;
    bool is_bigendian = false;
    bool is_dense = true;  ///< no invalid points

    /// `points` points of three floats in 16 bytes each: PCL's own layout of `pcl::PointXYZ`.
    static PointsLayout xyz(uint32_t points);

    uint64_t payload_bytes() const { return uint64_t{row_step} * height; }

    friend bool operator==(const PointsLayout& a, const PointsLayout& b) {
        return a.width == b.width && a.height == b.height && a.point_step == b.point_step &&
               a.row_step == b.row_step && a.fields == b.fields && a.is_bigendian == b.is_bigendian &&
               a.is_dense == b.is_dense;
    }
};

using FrameLayout = std::variant<BytesLayout, ImageLayout, PointsLayout>;

inline Kind kind_of(const FrameLayout& layout) { return static_cast<Kind>(layout.index()); }

/// A frame's properties from its writer.
struct FrameMeta {
    FrameLayout layout;
    std::string frame_id = {};        ///< as in `std_msgs/msg/Header`
    std::optional<uint64_t> publish_time_nanos = std::nullopt;  ///< CLOCK_REALTIME; nullopt = now. 0 is a time
};

/// A frame's properties for a reader.
struct FrameHeader {
    uint64_t sequence = 0;  ///< 1 for the first frame of a stream
    uint64_t publish_time_nanos = 0;
    uint64_t payload_bytes = 0;
    FrameLayout layout;
    std::string frame_id;
    std::optional<uint32_t> crc32c;

    /// The image's layout. Throws Errc::wrong_kind for other frames.
    const ImageLayout& image() const { return as<ImageLayout>(Kind::image); }
    /// The points' layout. Throws Errc::wrong_kind for other frames.
    const PointsLayout& points() const { return as<PointsLayout>(Kind::points); }

   private:
    template <class Layout>
    const Layout& as(Kind kind) const {
        if (const auto* found = std::get_if<Layout>(&layout)) return *found;
        throw Error(Errc::wrong_kind, std::string("the frame is of kind ") + to_string(kind_of(layout)) +
                                          ", not of kind " + to_string(kind));
    }
};

namespace detail {

/// The memory layout of a ROS pixel encoding (sensor_msgs/image_encodings.hpp).
struct PixelFormat {
    uint32_t channels;
    uint32_t channel_bytes;
    char number;  ///< 'U' unsigned, 'S' signed, 'F' floating point
};

/// `8UC1` … `64FC4`.
inline std::optional<PixelFormat> generic_pixel_format(const std::string& encoding) {
    size_t at = 0;
    uint32_t bits = 0;
    while (at < encoding.size() && at < 2 && encoding[at] >= '0' && encoding[at] <= '9')
        bits = bits * 10 + static_cast<uint32_t>(encoding[at++] - '0');
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64) return std::nullopt;
    if (at >= encoding.size()) return std::nullopt;
    const char number = encoding[at++];
    if (number != 'U' && number != 'S' && number != 'F') return std::nullopt;
    uint32_t channels = 1;
    if (at < encoding.size()) {
        if (encoding[at++] != 'C' || at == encoding.size() || encoding.size() - at > 3) return std::nullopt;
        channels = 0;
        for (; at < encoding.size(); ++at) {
            if (encoding[at] < '0' || encoding[at] > '9') return std::nullopt;
            channels = channels * 10 + static_cast<uint32_t>(encoding[at] - '0');
        }
    }
    if (channels == 0 || channels > 512) return std::nullopt;
    return PixelFormat{channels, bits / 8, number};
}

inline std::optional<PixelFormat> pixel_format(const std::string& encoding) {
    struct Named {
        const char* name;
        PixelFormat format;
    };
    static constexpr Named named[] = {
        {"mono8", {1, 1, 'U'}},        {"mono16", {1, 2, 'U'}},       {"rgb8", {3, 1, 'U'}},
        {"bgr8", {3, 1, 'U'}},         {"rgba8", {4, 1, 'U'}},        {"bgra8", {4, 1, 'U'}},
        {"rgb16", {3, 2, 'U'}},        {"bgr16", {3, 2, 'U'}},        {"rgba16", {4, 2, 'U'}},
        {"bgra16", {4, 2, 'U'}},       {"bayer_rggb8", {1, 1, 'U'}},  {"bayer_bggr8", {1, 1, 'U'}},
        {"bayer_gbrg8", {1, 1, 'U'}},  {"bayer_grbg8", {1, 1, 'U'}},  {"bayer_rggb16", {1, 2, 'U'}},
        {"bayer_bggr16", {1, 2, 'U'}}, {"bayer_gbrg16", {1, 2, 'U'}}, {"bayer_grbg16", {1, 2, 'U'}},
        {"yuv422", {2, 1, 'U'}},       {"yuv422_yuy2", {2, 1, 'U'}},  {"uyvy", {2, 1, 'U'}},
        {"yuyv", {2, 1, 'U'}},
    };
    for (const auto& entry : named)
        if (encoding == entry.name) return entry.format;
    return generic_pixel_format(encoding);
}

}  // namespace detail

inline ImageLayout ImageLayout::of(uint32_t width, uint32_t height, const std::string& encoding) {
    const auto format = detail::pixel_format(encoding);
    if (!format)
        throw Error(Errc::bad_option, "the pixel encoding \"" + encoding +
                                          "\" is not known here; fill in ImageLayout with the step yourself");
    const uint64_t step = uint64_t{width} * format->channels * format->channel_bytes;
    if (step > UINT32_MAX)
        throw Error(Errc::bad_option, "a row of " + std::to_string(step) + " bytes is larger than 4294967295");
    return ImageLayout{width, height, static_cast<uint32_t>(step), encoding, false};
}

inline PointsLayout PointsLayout::xyz(uint32_t points) {
    constexpr uint32_t step = 16;
    if (points > UINT32_MAX / step)
        throw Error(Errc::bad_option, std::to_string(points) + " points of 16 bytes do not fit into one row");
    PointsLayout layout;
    layout.width = points;
    layout.point_step = step;
    layout.row_step = points * step;
    layout.fields = {{"x", 0, PointField::float32, 1},
                     {"y", 4, PointField::float32, 1},
                     {"z", 8, PointField::float32, 1}};
    return layout;
}

}  // namespace livebag
