// The camera driver as a component: test pictures, or those of an image topic, into a livebag stream.
// Everything that is livebag's is in driver_core.hpp.

#include <chrono>
#include <string>

#include <rclcpp/rclcpp.hpp>
#include <rclcpp_components/register_node_macro.hpp>
#include <sensor_msgs/msg/image.hpp>

#include "driver_core.hpp"
#include "parameters.hpp"

namespace livebag_ros {

class CameraDriver : public rclcpp::Node {
   public:
    explicit CameraDriver(const rclcpp::NodeOptions& options)
        : rclcpp::Node("camera_driver", options), core_(declare_settings()) {
        const auto topic = fixed_parameter<std::string>(
            *this, "image_topic", "", "sensor_msgs/msg/Image to publish into the stream; empty: test pictures");
        try {
            topic.empty() ? make_test_pictures() : follow(topic);
        } catch (const livebag::Error& error) {
            RCLCPP_FATAL(get_logger(), "%s", error.what());
            throw;
        }
        // Readers then know that a driver without pictures is not a driver that hangs.
        heartbeat_ = create_wall_timer(std::chrono::milliseconds(100), [this] { core_.heartbeat(); });
    }

   private:
    DriverSettings declare_settings() {
        DriverSettings it;
        it.stream = fixed_parameter(*this, "stream", it.stream, "name of the livebag stream");
        it.frame_id = fixed_parameter(*this, "frame_id", it.frame_id, "frame of pictures that name none");
        it.recorded_topic = fixed_parameter(*this, "recorded_topic", it.recorded_topic,
                                            "topic in recordings and on bridges; empty: / and the stream's name");
        it.width = fixed_parameter(*this, "width", it.width, "pixels, of test pictures");
        it.height = fixed_parameter(*this, "height", it.height, "pixels, of test pictures");
        it.rate = fixed_parameter(*this, "rate", it.rate, "hertz, of test pictures");
        try {
            check(it);
        } catch (const livebag::Error& error) {
            RCLCPP_FATAL(get_logger(), "%s", error.what());
            throw;
        }
        return it;
    }

    void make_test_pictures() {
        core_.open_for_test_pictures();
        const auto period = std::chrono::duration<double>(1 / core_.settings().rate);
        pictures_ = create_wall_timer(std::chrono::duration_cast<std::chrono::nanoseconds>(period), [this] {
            publish([this] { core_.publish_test_picture(); });
        });
        RCLCPP_INFO(get_logger(), "test pictures of %ld x %ld at %.1f Hz go into the stream %s",
                    static_cast<long>(core_.settings().width), static_cast<long>(core_.settings().height),
                    core_.settings().rate, core_.settings().stream.c_str());
    }

    void follow(const std::string& topic) {
        images_ = create_subscription<sensor_msgs::msg::Image>(
            topic, rclcpp::SensorDataQoS(),
            [this](sensor_msgs::msg::Image::ConstSharedPtr message) { publish([&] { core_.publish(view(*message)); }); });
        RCLCPP_INFO(get_logger(), "images of %s go into the stream %s", images_->get_topic_name(),
                    core_.settings().stream.c_str());
    }

    static PictureView view(const sensor_msgs::msg::Image& message) {
        PictureView it;
        it.layout = {message.width, message.height, message.step, message.encoding, message.is_bigendian != 0};
        it.frame_id = message.header.frame_id;
        const auto& stamp = message.header.stamp;
        if (stamp.sec >= 0) it.publish_time_nanos = static_cast<uint64_t>(stamp.sec) * 1'000'000'000 + stamp.nanosec;
        it.data = message.data.data();
        it.bytes = message.data.size();
        return it;
    }

    /// A picture that cannot be published is counted in the stream and reported; the driver continues.
    template <class Publish>
    void publish(Publish one) {
        try {
            one();
        } catch (const livebag::Error& error) {
            RCLCPP_ERROR_THROTTLE(get_logger(), steady_, 1000, "a picture was lost: %s", error.what());
        }
    }

    // All callbacks are in the node's default group, which is mutually exclusive: one thread at a time.
    DriverCore core_;
    rclcpp::Clock steady_{RCL_STEADY_TIME};
    rclcpp::TimerBase::SharedPtr pictures_, heartbeat_;
    rclcpp::Subscription<sensor_msgs::msg::Image>::SharedPtr images_;
};

}  // namespace livebag_ros

RCLCPP_COMPONENTS_REGISTER_NODE(livebag_ros::CameraDriver)
