// The detector as a component: the newest frame of a livebag stream, in place, to topics of ROS.
// Everything that is livebag's is in detector_core.hpp.

#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include <geometry_msgs/msg/point_stamped.hpp>
#include <rclcpp/rclcpp.hpp>
#include <rclcpp_components/register_node_macro.hpp>
#include <std_msgs/msg/float32.hpp>

#include "detector_core.hpp"
#include "parameters.hpp"

namespace livebag_ros {

class Detector : public rclcpp::Node {
   public:
    explicit Detector(const rclcpp::NodeOptions& options)
        : rclcpp::Node("detector", options), core_(declare_settings()) {
        brightness_ = create_publisher<std_msgs::msg::Float32>("brightness", rclcpp::QoS(10));
        spot_ = create_publisher<geometry_msgs::msg::PointStamped>("spot", rclcpp::QoS(10));
        // A separate thread sleeps on the stream's futex; an executor could only poll.
        thread_ = std::thread([this] { run(); });
    }

    ~Detector() override {
        stop_.store(true);
        if (thread_.joinable()) thread_.join();
        const auto& counts = core_.counts();
        RCLCPP_INFO(get_logger(), "detected in %llu frames, skipped %llu, overtaken in %llu",
                    static_cast<unsigned long long>(counts.detected), static_cast<unsigned long long>(counts.skipped),
                    static_cast<unsigned long long>(counts.overtaken));
    }

   private:
    /// Longest time until the end is noticed.
    static constexpr auto look_timeout = std::chrono::milliseconds(100);

    DetectorSettings declare_settings() {
        DetectorSettings it;
        it.stream = fixed_parameter(*this, "stream", it.stream, "name of the livebag stream");
        it.deadline = fixed_parameter(*this, "deadline", it.deadline,
                                      "seconds without a sign of life after which the driver counts as stalled");
        it.threshold = fixed_parameter(*this, "threshold", it.threshold, "pixels from here on belong to the spot");
        try {
            check(it);
        } catch (const livebag::Error& error) {
            RCLCPP_FATAL(get_logger(), "%s", error.what());
            throw;
        }
        return it;
    }

    void run() {
        const auto context = get_node_base_interface()->get_context();
        while (!stop_.load() && context->is_valid()) {
            try {
                if (const auto found = core_.look(look_timeout)) publish(*found);
            } catch (const std::exception& error) {
                // An interruption by a shutdown is no error.
                if (!context->is_valid()) return;
                RCLCPP_WARN_THROTTLE(get_logger(), steady_, 1000, "a frame was passed over: %s", error.what());
            }
            tell_state();
        }
    }

    void publish(const Detection& found) {
        std_msgs::msg::Float32 brightness;
        brightness.data = static_cast<float>(found.brightness);
        brightness_->publish(brightness);
        if (!found.spot) return;
        geometry_msgs::msg::PointStamped spot;
        spot.header.frame_id = found.frame_id;
        spot.header.stamp.sec = static_cast<int32_t>(found.publish_time_nanos / 1'000'000'000);
        spot.header.stamp.nanosec = static_cast<uint32_t>(found.publish_time_nanos % 1'000'000'000);
        spot.point.x = found.spot->x;
        spot.point.y = found.spot->y;
        spot_->publish(spot);
    }

    void tell_state() {
        if (told_ && *told_ == core_.state()) return;
        told_ = core_.state();
        const char* const stream = core_.settings().stream.c_str();
        switch (*told_) {
            case StreamState::absent: RCLCPP_INFO(get_logger(), "waiting: %s", core_.absence().c_str()); break;
            case StreamState::live: RCLCPP_INFO(get_logger(), "the driver of stream %s lives", stream); break;
            case StreamState::stalled:
                RCLCPP_WARN(get_logger(), "the driver of stream %s gave no sign of life for %.3f s", stream,
                            core_.settings().deadline);
                break;
            case StreamState::gone:
                RCLCPP_WARN(get_logger(), "the driver of stream %s is gone; waiting for the next one", stream);
                break;
        }
    }

    DetectorCore core_;  // used by the thread alone while it runs
    std::optional<StreamState> told_;
    rclcpp::Clock steady_{RCL_STEADY_TIME};
    rclcpp::Publisher<std_msgs::msg::Float32>::SharedPtr brightness_;
    rclcpp::Publisher<geometry_msgs::msg::PointStamped>::SharedPtr spot_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace livebag_ros

RCLCPP_COMPONENTS_REGISTER_NODE(livebag_ros::Detector)
