// cv::Mat over a slot. Needs opencv2/core.hpp and, to link, libopencv_core.

#pragma once

#include <opencv2/core.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "reader.hpp"
#include "writer.hpp"

namespace livebag {

/// OpenCV's type of a pixel encoding, e.g. CV_8UC3 of `bgr8`. Throws Errc::bad_option where OpenCV has none.
inline int cv_type(const std::string& encoding) {
    if (const auto format = detail::pixel_format(encoding); format && format->channels <= CV_CN_MAX) {
        const int channels = static_cast<int>(format->channels);
        const std::string depth = format->number + std::to_string(8 * format->channel_bytes);
        if (depth == "U8") return CV_8UC(channels);
        if (depth == "S8") return CV_8SC(channels);
        if (depth == "U16") return CV_16UC(channels);
        if (depth == "S16") return CV_16SC(channels);
        if (depth == "S32") return CV_32SC(channels);
        if (depth == "F32") return CV_32FC(channels);
        if (depth == "F64") return CV_64FC(channels);
    }
    throw Error(Errc::bad_option, "OpenCV has no type for the pixel encoding \"" + encoding + "\"");
}

/// The layout of a matrix whose channels mean what `encoding` says.
inline ImageLayout image_layout(const cv::Mat& image, const std::string& encoding) {
    if (image.dims != 2 || image.type() != cv_type(encoding))
        throw Error(Errc::wrong_kind, "the matrix has OpenCV type " + std::to_string(image.type()) + " and " +
                                          std::to_string(image.dims) + " dimensions, expected type " +
                                          std::to_string(cv_type(encoding)) + " (" + encoding + ") and 2");
    return ImageLayout{static_cast<uint32_t>(image.cols), static_cast<uint32_t>(image.rows),
                       static_cast<uint32_t>(image.step[0]), encoding, false};
}

namespace detail {

/// A matrix header over memory of at least `bytes` bytes, after checking that the image stays inside.
inline cv::Mat matrix_over(uint8_t* data, uint64_t bytes, const ImageLayout& layout) {
    const int type = cv_type(layout.encoding);
    const uint64_t row = uint64_t{layout.width} * CV_ELEM_SIZE(type);
    if (layout.width > INT32_MAX || layout.height > INT32_MAX || layout.step < row || layout.payload_bytes() > bytes ||
        layout.step % CV_ELEM_SIZE1(type) != 0)
        throw Error(Errc::too_large, "an image of " + std::to_string(layout.width) + " × " +
                                         std::to_string(layout.height) + " " + layout.encoding + " with a step of " +
                                         std::to_string(layout.step) + " bytes does not fit into " +
                                         std::to_string(bytes) + " bytes");
    return cv::Mat(static_cast<int>(layout.height), static_cast<int>(layout.width), type, data, layout.step);
}

}  // namespace detail

/// The loaned slot as a matrix, to be filled in place; then `loan.publish({layout, "camera"})`.
/// Valid until the loan is published or given back.
inline cv::Mat cv_mat(Loan& loan, const ImageLayout& layout) {
    return detail::matrix_over(loan.data(), loan.capacity(), layout);
}

/// The frame in place as a matrix that must not be written to: its memory is mapped read-only.
/// Valid while `frame` lives; `frame.validate()` after the work.
inline const cv::Mat cv_mat(const FrameRef& frame) {
    return detail::matrix_over(const_cast<uint8_t*>(frame.data()), frame.size(), frame.header().image());
}

/// Copies the frame into a separate matrix; false if it was overwritten meanwhile.
inline bool copy_to(const FrameRef& frame, cv::Mat& image) {
    const ImageLayout& layout = frame.header().image();
    const cv::Mat view = cv_mat(frame);
    image.create(view.rows, view.cols, view.type());
    const size_t row = image.elemSize() * static_cast<size_t>(image.cols);
    if (image.isContinuous() && row == layout.step)
        frame.copy_range(image.data, 0, layout.payload_bytes());
    else
        for (int y = 0; y < image.rows; ++y) frame.copy_range(image.ptr(y), uint64_t{layout.step} * y, row);
    return frame.validate();
}

/// Copies a matrix into the next slot; returns the frame's sequence.
inline uint64_t publish(Writer& writer, const cv::Mat& image, const std::string& encoding,
                        const std::string& frame_id, std::optional<uint64_t> publish_time_nanos = std::nullopt) {
    FrameMeta meta;
    meta.frame_id = frame_id;
    meta.publish_time_nanos = publish_time_nanos;
    if (image.isContinuous()) {
        const ImageLayout layout = image_layout(image, encoding);
        meta.layout = layout;
        return writer.publish(meta, image.data, layout.payload_bytes());
    }
    // A region of interest: the rows move together in the slot itself.
    ImageLayout layout = image_layout(image, encoding);
    layout.step = static_cast<uint32_t>(image.elemSize() * static_cast<size_t>(image.cols));
    meta.layout = layout;
    Loan loan = writer.loan();
    image.copyTo(cv_mat(loan, layout));
    return loan.publish(meta);
}

}  // namespace livebag
