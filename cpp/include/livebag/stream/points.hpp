// Spans of PointXYZ over a slot: three floats in 16 bytes, the layout of pcl::PointXYZ, without PCL.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "reader.hpp"
#include "writer.hpp"

namespace livebag {

/// A point. The fourth float is PCL's padding, which PCL itself sets to 1.
struct alignas(16) PointXYZ {
    float x = 0;
    float y = 0;
    float z = 0;
    float padding = 1;
};
static_assert(sizeof(PointXYZ) == 16, "a point is 16 bytes, as in PCL");

/// Consecutive elements in borrowed memory (std::span comes with C++20).
template <class Element>
class Span {
   public:
    Span(Element* data, size_t size) : data_(data), size_(size) {}
    Element* data() const { return data_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    Element* begin() const { return data_; }
    Element* end() const { return data_ + size_; }
    Element& operator[](size_t index) const { return data_[index]; }

   private:
    Element* data_;
    size_t size_;
};

/// As many points as the loaned slot can hold, to be filled in place; then
/// `loan.publish({PointsLayout::xyz(count), "lidar"})`.
inline Span<PointXYZ> point_span(Loan& loan) {
    return {reinterpret_cast<PointXYZ*>(loan.data()), static_cast<size_t>(loan.capacity() / sizeof(PointXYZ))};
}

/// Whether the points of a frame lie as `PointXYZ` does: three floats first, 16 bytes each, no gaps.
inline bool is_xyz16(const PointsLayout& layout) {
    if (layout.point_step != sizeof(PointXYZ) || layout.is_bigendian || layout.fields.size() < 3) return false;
    if (layout.height > 1 && layout.row_step != uint64_t{layout.width} * layout.point_step) return false;
    const char* const names[] = {"x", "y", "z"};
    for (uint32_t i = 0; i < 3; ++i)
        if (!(layout.fields[i] == PointField{names[i], 4 * i, PointField::float32, 1})) return false;
    return true;
}

namespace detail {

/// The number of points of a frame whose points lie as `PointXYZ` does, checked against its payload.
inline size_t require_xyz16(const FrameHeader& header) {
    const PointsLayout& layout = header.points();
    if (!is_xyz16(layout))
        throw Error(Errc::wrong_kind, "the points of frame " + std::to_string(header.sequence) + " have a step of " +
                                          std::to_string(layout.point_step) +
                                          " bytes or other fields than x, y, z as float32 at 0, 4, 8 in 16 bytes; "
                                          "read them by their PointsLayout");
    const uint64_t points = uint64_t{layout.width} * layout.height;
    if (points > header.payload_bytes / sizeof(PointXYZ))
        throw Error(Errc::damaged, "frame " + std::to_string(header.sequence) + " says " + std::to_string(points) +
                                       " points of 16 bytes, its payload has " +
                                       std::to_string(header.payload_bytes) + " bytes");
    return static_cast<size_t>(points);
}

}  // namespace detail

/// The points of a frame in place. `frame.validate()` after the work.
inline Span<const PointXYZ> point_span(const FrameRef& frame) {
    return {reinterpret_cast<const PointXYZ*>(frame.data()), detail::require_xyz16(frame.header())};
}

}  // namespace livebag
