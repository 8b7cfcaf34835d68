// The camera driver's use of livebag, without rclcpp: compiled and tested without ROS.

#pragma once

#include <livebag/stream.hpp>
#include <opencv2/core.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "stream_name.hpp"

namespace livebag_ros {

/// Largest picture that a driver makes room for, in pixels on a side.
constexpr int64_t side_max = 16384;
/// Highest rate of test pictures, in hertz.
constexpr double rate_max = 10000;

/// Settings of the driver. As parameters of a node give them, so unchecked.
struct DriverSettings {
    std::string stream = "camera_front";
    std::string frame_id = "camera_front_optical";
    std::string recorded_topic;  ///< the topic in recordings and on bridges; empty = "/" + stream
    int64_t width = 1280;        ///< of test pictures
    int64_t height = 720;        ///< of test pictures
    double rate = 30;            ///< of test pictures, in hertz
};

/// Throws livebag::Error with the setting, its bounds and the found value.
inline void check(const DriverSettings& settings) {
    require_stream_name(settings.stream);
    const auto refuse = [](const std::string& text) { throw livebag::Error(livebag::Errc::bad_option, text); };
    for (const auto& [name, side] : {std::pair{"width", settings.width}, std::pair{"height", settings.height}})
        if (side < 16 || side > side_max)
            refuse(std::string(name) + " is " + std::to_string(side) + "; a picture has 16 to " +
                   std::to_string(side_max) + " pixels on a side");
    if (!(settings.rate > 0 && settings.rate <= rate_max))
        refuse("rate is " + std::to_string(settings.rate) + "; expected hertz above 0, up to " +
               std::to_string(static_cast<int64_t>(rate_max)));
}

/// An image that lies somewhere else, as a message of sensor_msgs/msg/Image describes it.
struct PictureView {
    livebag::ImageLayout layout;
    std::string frame_id;
    std::optional<uint64_t> publish_time_nanos = std::nullopt;  ///< since the epoch; nullopt = now
    const uint8_t* data = nullptr;
    uint64_t bytes = 0;  ///< that are there; at least `layout.payload_bytes()`
};

/// Where the square of test picture `count` has its centre: once round in 240 pictures.
inline cv::Point test_square_centre(int width, int height, uint64_t count) {
    const double angle = static_cast<double>(count % 240) / 240 * 2 * CV_PI;
    return {static_cast<int>(std::lround(width * (0.5 + 0.3 * std::cos(angle)))),
            static_cast<int>(std::lround(height * (0.5 + 0.3 * std::sin(angle))))};
}

/// Draws a white square, an eighth of the height on a side, on dark grey.
inline void draw_test_picture(cv::Mat& image, uint64_t count) {
    const int half = image.rows / 16;
    const cv::Point centre = test_square_centre(image.cols, image.rows, count);
    image.setTo(cv::Scalar::all(40));
    const cv::Rect square(centre.x - half, centre.y - half, 2 * half + 1, 2 * half + 1);
    image(square & cv::Rect(0, 0, image.cols, image.rows)).setTo(cv::Scalar::all(255));
}

/// Publishes pictures into one stream. For one thread at a time.
class DriverCore {
   public:
    /// Creates nothing yet: the first picture determines the size of a slot. Throws livebag::Error if the settings are
    /// out of bounds.
    explicit DriverCore(DriverSettings settings) : settings_(std::move(settings)) { check(settings_); }

    const DriverSettings& settings() const { return settings_; }

    /// Makes the stream for test pictures, so that a wrong name or a second writer is known at the start.
    void open_for_test_pictures() { make_room(test_layout().payload_bytes()); }

    /// Draws the next test picture straight into shared memory; its sequence.
    uint64_t publish_test_picture() {
        const livebag::ImageLayout layout = test_layout();
        livebag::Writer& writer = make_room(layout.payload_bytes());             // 1: Writer::create
        livebag::Loan loan = writer.loan();                                      // 2
        cv::Mat image = livebag::cv_mat(loan, layout);                           // 3
        draw_test_picture(image, writer.latest_sequence());
        return loan.publish({layout, settings_.frame_id});                       // 4
    }

    /// Copies a picture from elsewhere into the stream, once; its sequence. A picture that is larger than the
    /// stream's slots replaces the stream by one with larger slots, which readers notice. Throws livebag::Error,
    /// and counts the picture as dropped, when its description does not fit the bytes that are there.
    uint64_t publish(const PictureView& picture) {
        const uint64_t bytes = picture.layout.payload_bytes();
        if (bytes == 0 || picture.data == nullptr || bytes > picture.bytes) {
            if (writer_) writer_->count_dropped(1);
            throw livebag::Error(livebag::Errc::too_large,
                                 "an image of " + std::to_string(picture.layout.height) + " rows of " +
                                     std::to_string(picture.layout.step) + " bytes came with " +
                                     std::to_string(picture.bytes) + " bytes; look at the node that publishes it");
        }
        const std::string& frame_id = picture.frame_id.empty() ? settings_.frame_id : picture.frame_id;
        return make_room(bytes).publish({picture.layout, frame_id, picture.publish_time_nanos}, picture.data, bytes);
    }

    /// Tells readers that the driver lives although no picture comes.
    void heartbeat() {
        if (writer_) writer_->heartbeat();
    }

    /// Of the newest picture in the stream; 0 before the first.
    uint64_t latest_sequence() const { return writer_ ? writer_->latest_sequence() : 0; }

   private:
    livebag::ImageLayout test_layout() const {
        return livebag::ImageLayout::of(static_cast<uint32_t>(settings_.width),
                                        static_cast<uint32_t>(settings_.height), "bgr8");
    }

    livebag::Writer& make_room(uint64_t bytes) {
        if (writer_ && bytes <= writer_->info().payload_bytes_max) return *writer_;
        auto options = livebag::StreamOptions::image(1, 1, 1).with_topic(settings_.recorded_topic);
        options.payload_bytes_max = bytes;
        writer_.reset();  // a live writer owns the name, also one of this process
        writer_.emplace(livebag::Writer::create(settings_.stream, options));
        return *writer_;
    }

    DriverSettings settings_;
    std::optional<livebag::Writer> writer_;
};

}  // namespace livebag_ros
