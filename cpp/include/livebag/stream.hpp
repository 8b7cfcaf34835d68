// livebag streams in C++17: shared memory in native sensor layouts, one writer, any number of
// readers, no torn frame. Header-only; links nothing but libc and -pthread.
//
//     auto writer = livebag::Writer::create("camera_front", livebag::StreamOptions::image(1920, 1080, 3));
//     auto loan = writer.loan();
//     fill(loan.data());                                     // straight into shared memory
//     loan.publish({livebag::ImageLayout::of(1920, 1080, "bgr8"), "camera_front"});
//
//     auto reader = livebag::Reader::open("camera_front");
//     while (reader.wait(std::chrono::seconds(1)))
//         if (auto next = reader.next(); next.frame) use(*next.frame);
//
// The bytes are fixed by docs/stream-layout.md, which the Rust crate livebag-shm implements as well.
// In the order in which a frame visits them:

#pragma once

#include "stream/error.hpp"      // livebag::Error: what was expected, what was found, what to do
#include "stream/limits.hpp"     // every bound
#include "stream/frame.hpp"      // what a frame says about itself: image, points, bytes
#include "stream/options.hpp"    // what a writer asks for
#include "stream/layout.hpp"     // offsets; the static header, encoded and checked
#include "stream/crc32c.hpp"     // checksum, in hardware where there is one
#include "stream/system.hpp"     // names, descriptors, mappings, clocks, futex
#include "stream/placement.hpp"  // locked memory, huge pages, NUMA node, CPU, FIFO priority
#include "stream/slot.hpp"       // the slot protocol: fill, read, copy along
#include "stream/wake.hpp"       // sleeping and waking
#include "stream/seat.hpp"       // readers tell of themselves: ReaderInfo
#include "stream/claim.hpp"      // one writer per name: create, re-attach, take over
#include "stream/writer.hpp"     // Writer, Loan
#include "stream/reader.hpp"     // Reader, FrameRef, Event
#include "stream/streams.hpp"    // list, remove
#include "stream/points.hpp"     // PointXYZ spans over a slot

// Adapters, where the headers of the library are installed. Opt out with -DLIVEBAG_WITHOUT_OPENCV,
// -DLIVEBAG_WITHOUT_PCL.
#if __has_include(<opencv2/core.hpp>) && !defined(LIVEBAG_WITHOUT_OPENCV)
#include "stream/opencv.hpp"  // cv::Mat over a slot
#endif
#if __has_include(<pcl/point_cloud.h>) && __has_include(<pcl/point_types.h>) && !defined(LIVEBAG_WITHOUT_PCL)
#include "stream/pcl.hpp"  // pcl::PointCloud<pcl::PointXYZ> into and out of a slot
#endif
