// The exported target alone: the header needs nothing but threads, and one frame goes through it.

#include <gtest/gtest.h>
#include <livebag/cycle.hpp>
#include <livebag/stream.hpp>

#include <string>
#include <vector>

TEST(Header, OneFrame) {
    const std::string name = "ros_test." + std::to_string(::getpid()) + ".header";
    auto writer = livebag::Writer::create(name, livebag::StreamOptions::image(8, 4, 1));
    auto reader = livebag::Reader::open(name);
    const std::vector<uint8_t> pixels(32, 7);
    writer.publish({livebag::ImageLayout::of(8, 4, "mono8"), "camera"}, pixels.data(), pixels.size());
    std::vector<uint8_t> found;
    const auto frame = reader.copy_latest(found);
    ASSERT_TRUE(frame);
    EXPECT_EQ(found, pixels);
    EXPECT_EQ(frame->frame_id, "camera");
    writer.close_and_remove();
}
