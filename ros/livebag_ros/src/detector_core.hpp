// The detector's use of livebag, without rclcpp: compiled and tested without ROS.

#pragma once

#include <livebag/stream.hpp>
#include <opencv2/core.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "stream_name.hpp"

namespace livebag_ros {

/// Settings of the detector. As parameters of a node give them, so unchecked.
struct DetectorSettings {
    std::string stream = "camera_front";
    double deadline = 0.5;    ///< seconds without a sign of life after which the driver counts as stalled
    int64_t threshold = 200;  ///< pixels whose channels all reach it belong to the spot
};

/// Throws livebag::Error with the setting, its bounds and the found value.
inline void check(const DetectorSettings& settings) {
    require_stream_name(settings.stream);
    const auto refuse = [](const std::string& text) { throw livebag::Error(livebag::Errc::bad_option, text); };
    if (!(settings.deadline >= 0.001 && settings.deadline <= 3600))
        refuse("deadline is " + std::to_string(settings.deadline) + "; expected 0.001 to 3600 seconds");
    if (settings.threshold < 1 || settings.threshold > 255)
        refuse("threshold is " + std::to_string(settings.threshold) + "; a channel of 8 bits has 1 to 255");
}

/// The bright pixels of a picture.
struct Spot {
    double x = 0;  ///< of their centre, in pixels from the left
    double y = 0;  ///< in pixels from the top
    uint64_t pixels = 0;
};

struct Detection {
    uint64_t sequence = 0;
    uint64_t publish_time_nanos = 0;  ///< since the epoch, from the driver
    std::string frame_id;
    double brightness = 0;  ///< mean of all channels, 0 to 255
    std::optional<Spot> spot;
};

/// Mean brightness and bright spot of a picture of 8-bit channels. Only reads the picture.
class Finder {
   public:
    /// Throws livebag::Errc::wrong_kind for pictures of other channels.
    void look(const cv::Mat& image, int threshold, Detection& found) {
        if (image.depth() != CV_8U || image.channels() > 4)
            throw livebag::Error(livebag::Errc::wrong_kind,
                                 "the detector reads pictures of 1 to 4 channels of 8 bits, not OpenCV's type " +
                                     std::to_string(image.type()) + "; publish mono8, bgr8, rgb8, bgra8 or rgba8");
        const cv::Scalar mean = cv::mean(image);
        double sum = 0;
        for (int channel = 0; channel < image.channels(); ++channel) sum += mean[channel];
        found.brightness = sum / image.channels();
        cv::inRange(image, cv::Scalar::all(threshold), cv::Scalar::all(255), mask_);
        cv::reduce(mask_, columns_, 0, cv::REDUCE_SUM, CV_32S);
        cv::reduce(mask_, rows_, 1, cv::REDUCE_SUM, CV_32S);
        double x = 0, y = 0, weight = 0;
        for (int at = 0; at < columns_.cols; ++at) {
            x += static_cast<double>(at) * columns_.at<int>(0, at);
            weight += columns_.at<int>(0, at);
        }
        for (int at = 0; at < rows_.rows; ++at) y += static_cast<double>(at) * rows_.at<int>(at, 0);
        found.spot.reset();
        if (weight > 0) found.spot = Spot{x / weight, y / weight, static_cast<uint64_t>(weight) / 255};
    }

   private:
    cv::Mat mask_, columns_, rows_;
};

/// How the stream is, for a log line whenever it changes.
enum class StreamState {
    absent,   ///< no stream of this name, or none that may be read
    live,     ///< its driver lives
    stalled,  ///< the driver is there, but gave no sign of life within the deadline
    gone,     ///< the driver ended or died; the stream stays and is watched
};

/// Everything that was not detected in, by cause.
struct DetectorCounts {
    uint64_t detected = 0;
    uint64_t skipped = 0;    ///< frames that were there before the newest was taken
    uint64_t overtaken = 0;  ///< results thrown away because the driver came round to the slot meanwhile
};

/// Finds things in the newest frame of one stream, in place. For one thread at a time.
class DetectorCore {
   public:
    explicit DetectorCore(DetectorSettings settings) : settings_(std::move(settings)) { check(settings_); }

    const DetectorSettings& settings() const { return settings_; }
    StreamState state() const { return state_; }
    const DetectorCounts& counts() const { return counts_; }
    /// Why there is no stream.
    const std::string& absence() const { return absence_; }

    /// Waits for a frame after the last one and looks at the newest; nothing after the timeout, when the
    /// stream is not there, or when the driver overwrote the frame meanwhile. Throws livebag::Error for a frame
    /// that the detector cannot read.
    std::optional<Detection> look(std::chrono::nanoseconds timeout) {
        if (!open(timeout)) return std::nullopt;
        if (!reader_->wait(timeout)) {                                           // 2: 1 is in `open`
            notice_silence();
            return std::nullopt;
        }
        state_ = StreamState::live;
        try {
            return detect();
        } catch (const livebag::Error& error) {
            if (error.code() != livebag::Errc::overtaken) throw;
            ++counts_.overtaken;
            return std::nullopt;
        }
    }

   private:
    std::optional<Detection> detect() {
        const uint64_t expected = reader_->next_sequence();
        const std::optional<livebag::FrameRef> frame = reader_->borrow_latest();  // 3: no copy
        if (!frame) return std::nullopt;
        if (frame->sequence() > expected) counts_.skipped += frame->sequence() - expected;
        Detection found;
        found.sequence = frame->sequence();
        found.publish_time_nanos = frame->header().publish_time_nanos;
        found.frame_id = frame->header().frame_id;
        finder_.look(livebag::cv_mat(*frame), static_cast<int>(settings_.threshold), found);
        if (!frame->validate()) {                                                 // 4: overtaken while we looked
            ++counts_.overtaken;
            return std::nullopt;
        }
        ++counts_.detected;
        return found;
    }

    bool open(std::chrono::nanoseconds timeout) {
        if (reader_ && reader_->replaced()) reader_.reset();
        if (reader_) return true;
        try {
            reader_.emplace(livebag::Reader::open(settings_.stream, timeout));    // 1
            // The frame that is there already is news for a detector that has seen none.
            reader_->seek(reader_->latest_sequence());
            state_ = StreamState::live;
            absence_.clear();
            return true;
        } catch (const livebag::Error& error) {
            state_ = StreamState::absent;
            absence_ = error.what();
            if (!error.is_transient()) std::this_thread::sleep_for(timeout);
            return false;
        }
    }

    void notice_silence() {
        const auto deadline = std::chrono::nanoseconds(static_cast<int64_t>(settings_.deadline * 1e9));
        switch (reader_->liveness(deadline)) {
            case livebag::Liveness::live: state_ = StreamState::live; return;
            case livebag::Liveness::stalled: state_ = StreamState::stalled; return;
            case livebag::Liveness::gone: state_ = StreamState::gone; break;
        }
        // The stream may have been removed and created anew: then this reader waits at an object without a writer.
        try {
            const livebag::Reader other = livebag::Reader::open(settings_.stream);
            if (other.info().instance != reader_->info().instance) reader_.reset();
        } catch (const livebag::Error&) {
        }
    }

    DetectorSettings settings_;
    std::optional<livebag::Reader> reader_;
    Finder finder_;
    StreamState state_ = StreamState::absent;
    std::string absence_ = "not looked yet";
    DetectorCounts counts_;
};

}  // namespace livebag_ros
