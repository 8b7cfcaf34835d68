// A camera driver that publishes its frames into shared memory. Four lines are livebag's.
//
//     camera_driver [STREAM [FRAMES]]

#include <livebag/stream.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace {

constexpr uint32_t width = 1920, height = 1080;

/// Simulates the camera: a driver that can write to a given buffer copies nothing.
void grab(uint8_t* pixels, uint64_t bytes, uint64_t count) {
    for (uint64_t at = 0; at < bytes; ++at) pixels[at] = static_cast<uint8_t>(at / (width * 3) + count);
}

int drive(const std::string& name, uint64_t frames) {
    const auto layout = livebag::ImageLayout::of(width, height, "bgr8");
    auto writer = livebag::Writer::create(name, livebag::StreamOptions::image(width, height, 3));  // 1
    for (uint64_t count = 0; count < frames; ++count) {
        auto loan = writer.loan();                                                                  // 2
#if __has_include(<opencv2/core.hpp>)
        cv::Mat image = livebag::cv_mat(loan, layout);                                              // 3
        grab(image.data, image.total() * image.elemSize(), count);
#else
        grab(loan.data(), layout.payload_bytes(), count);
#endif
        loan.publish({layout, "camera_front_optical"});                                            // 4
        std::this_thread::sleep_for(std::chrono::milliseconds(33));
    }
    std::printf("published %llu frames into %s\n", static_cast<unsigned long long>(frames), name.c_str());
    return 0;
}

}  // namespace

int main(int count, char** values) try {
    return drive(count > 1 ? values[1] : "camera_front", count > 2 ? std::stoull(values[2]) : 300);
} catch (const std::exception& error) {
    std::fprintf(stderr, "camera_driver: %s\n", error.what());
    return 1;
}
