// The driver or the detector as a program without ROS, for the package's checks: the same cores as in the
// nodes, with printf in the place of topics.
//
//     without_ros drive STREAM RATE            until SIGINT or SIGTERM
//     without_ros detect STREAM FRAMES

#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "../src/detector_core.hpp"
#include "../src/driver_core.hpp"

namespace {

volatile std::sig_atomic_t is_stopped = 0;

int drive(const std::string& stream, double rate) {
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { is_stopped = 1; });
    livebag_ros::DriverSettings settings;
    settings.stream = stream;
    settings.rate = rate;
    livebag_ros::DriverCore driver(settings);
    while (!is_stopped) {
        driver.publish_test_picture();
        std::this_thread::sleep_for(std::chrono::duration<double>(1 / rate));
    }
    std::printf("published %llu frames into %s\n", static_cast<unsigned long long>(driver.latest_sequence()),
                stream.c_str());
    return 0;
}

int detect(const std::string& stream, uint64_t frames) {
    livebag_ros::DetectorSettings settings;
    settings.stream = stream;
    livebag_ros::DetectorCore detector(settings);
    std::optional<livebag_ros::Detection> last;
    while (detector.counts().detected < frames) {
        if (auto found = detector.look(std::chrono::seconds(20)))
            last = std::move(found);
        else if (detector.state() != livebag_ros::StreamState::live)
            break;
    }
    if (!last || !last->spot) return 1;
    const auto& counts = detector.counts();
    std::printf("detected in %llu frames of %s, skipped %llu, overtaken %llu; the last spot at %.0f, %.0f\n",
                static_cast<unsigned long long>(counts.detected), stream.c_str(),
                static_cast<unsigned long long>(counts.skipped), static_cast<unsigned long long>(counts.overtaken),
                last->spot->x, last->spot->y);
    return 0;
}

}  // namespace

int main(int count, char** values) try {
    if (count == 4 && std::strcmp(values[1], "drive") == 0) return drive(values[2], std::stod(values[3]));
    if (count == 4 && std::strcmp(values[1], "detect") == 0) return detect(values[2], std::stoull(values[3]));
    std::fprintf(stderr, "usage: without_ros drive STREAM RATE | detect STREAM FRAMES\n");
    return 2;
} catch (const std::exception& error) {
    std::fprintf(stderr, "without_ros: %s\n", error.what());
    return 1;
}
