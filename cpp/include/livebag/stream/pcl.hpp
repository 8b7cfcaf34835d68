// pcl::PointCloud<pcl::PointXYZ> into and out of a slot, one memcpy each. PCL's clouds own their
// points in a std::vector, so a cloud cannot be a view; `point_span` is the view.

#pragma once

#include <pcl/point_cloud.h>
#include <pcl/point_types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "points.hpp"

namespace livebag {

static_assert(sizeof(pcl::PointXYZ) == sizeof(PointXYZ), "livebag::PointXYZ has the layout of pcl::PointXYZ");

/// The layout of a cloud.
inline PointsLayout points_layout(const pcl::PointCloud<pcl::PointXYZ>& cloud) {
    const bool organised = cloud.height > 1 && uint64_t{cloud.width} * cloud.height == cloud.size();
    PointsLayout layout = PointsLayout::xyz(organised ? cloud.width : static_cast<uint32_t>(cloud.size()));
    layout.height = organised ? cloud.height : 1;
    layout.is_dense = cloud.is_dense;
    return layout;
}

/// Copies a cloud into the next slot; returns the frame's sequence. The stamp of a cloud is in
/// microseconds, and 0 is one.
inline uint64_t publish(Writer& writer, const pcl::PointCloud<pcl::PointXYZ>& cloud) {
    const FrameMeta meta{points_layout(cloud), cloud.header.frame_id, cloud.header.stamp * 1000};
    return writer.publish(meta, cloud.points.data(), cloud.size() * sizeof(pcl::PointXYZ));
}

/// Copies the frame into a cloud; false if it was overwritten meanwhile.
inline bool copy_to(const FrameRef& frame, pcl::PointCloud<pcl::PointXYZ>& cloud) {
    const size_t points = detail::require_xyz16(frame.header());
    const PointsLayout& layout = frame.header().points();
    cloud.points.resize(points);
    frame.copy_range(reinterpret_cast<uint8_t*>(cloud.points.data()), 0, points * sizeof(pcl::PointXYZ));
    cloud.width = layout.width;
    cloud.height = layout.height;
    cloud.is_dense = layout.is_dense;
    cloud.header.frame_id = frame.header().frame_id;
    cloud.header.stamp = frame.header().publish_time_nanos / 1000;
    cloud.header.seq = static_cast<uint32_t>(frame.sequence());
    return frame.validate();
}

/// The loaned slot as points of PCL, to be filled in place.
inline Span<pcl::PointXYZ> pcl_span(Loan& loan) {
    return {reinterpret_cast<pcl::PointXYZ*>(loan.data()),
            static_cast<size_t>(loan.capacity() / sizeof(pcl::PointXYZ))};
}

/// The points of a frame in place. `frame.validate()` after the work.
inline Span<const pcl::PointXYZ> pcl_span(const FrameRef& frame) {
    return {reinterpret_cast<const pcl::PointXYZ*>(frame.data()), detail::require_xyz16(frame.header())};
}

}  // namespace livebag
