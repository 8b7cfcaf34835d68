// Driver and detector over real streams, without rclcpp.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <vector>

#include "../src/detector_core.hpp"
#include "../src/driver_core.hpp"

namespace livebag_ros {
namespace {

using namespace std::chrono_literals;

/// Long enough that a machine under load fails no test; nothing waits for it when all is well.
constexpr auto patience = 20s;

class Core : public ::testing::Test {
   protected:
    Core() {
        const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
        name = "ros_test." + std::to_string(::getpid()) + "." + info->name();
    }
    ~Core() override {
        ::unlink(("/dev/shm/livebag." + name).c_str());
        ::unlink(("/dev/shm/livebag." + name + ".wake").c_str());
    }

    DriverSettings small() const {
        DriverSettings settings;
        settings.stream = name;
        settings.width = 320;
        settings.height = 160;
        return settings;
    }
    DetectorSettings watching() const {
        DetectorSettings settings;
        settings.stream = name;
        return settings;
    }
    /// Looks until the condition holds.
    static bool look_until(DetectorCore& detector, const std::function<bool()>& holds) {
        for (const auto end = std::chrono::steady_clock::now() + patience; std::chrono::steady_clock::now() < end;) {
            detector.look(1ms);
            if (holds()) return true;
        }
        return false;
    }

    std::string name;
};

std::string refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const livebag::Error& error) {
        return error.what();
    }
    ADD_FAILURE() << "expected an error";
    return "";
}

TEST_F(Core, EachTestPictureIsFoundWhereItWasDrawn) {
    DriverCore driver(small());
    driver.open_for_test_pictures();
    DetectorCore detector(watching());
    for (uint64_t count = 0; count < 300; ++count) {
        const uint64_t sequence = driver.publish_test_picture();
        ASSERT_EQ(sequence, count + 1);
        const auto found = detector.look(patience);
        ASSERT_TRUE(found && found->spot) << "picture " << count;
        EXPECT_EQ(found->sequence, sequence);
        EXPECT_EQ(found->frame_id, "camera_front_optical");
        const cv::Point drawn = test_square_centre(320, 160, count);
        EXPECT_NEAR(found->spot->x, drawn.x, 1e-9);
        EXPECT_NEAR(found->spot->y, drawn.y, 1e-9);
        EXPECT_EQ(found->spot->pixels, 21u * 21u);
        const double share = 21.0 * 21.0 / (320.0 * 160.0);
        EXPECT_NEAR(found->brightness, 255 * share + 40 * (1 - share), 1e-9);
    }
    EXPECT_EQ(detector.counts().detected, 300u);
    EXPECT_EQ(detector.counts().skipped + detector.counts().overtaken, 0u);
    EXPECT_EQ(detector.state(), StreamState::live);
}

TEST_F(Core, TheNewestIsTakenAndTheSkippedAreCounted) {
    DriverCore driver(small());
    driver.publish_test_picture();
    DetectorCore detector(watching());
    const auto first = detector.look(patience);
    ASSERT_TRUE(first) << "the picture that is there already is the first";
    for (int i = 0; i < 3; ++i) driver.publish_test_picture();
    const auto found = detector.look(patience);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->sequence, 4u);
    EXPECT_EQ(detector.counts().skipped, 2u);
    EXPECT_FALSE(detector.look(1ms)) << "nothing is detected twice";
}

TEST_F(Core, AForeignPictureKeepsItsStampFrameAndPadding) {
    DriverCore driver(small());
    std::vector<uint8_t> pixels(6 * 128, 255);  // the padding is bright, the picture is not
    for (int y = 0; y < 6; ++y) std::fill_n(pixels.begin() + 128 * y, 100, uint8_t{10});
    pixels[2 * 128 + 30] = 250;
    const livebag::ImageLayout layout{100, 6, 128, "mono8", false};
    driver.publish({layout, "other_frame", 1'700'000'000'000'000'123, pixels.data(), pixels.size()});
    DetectorCore detector(watching());
    const auto found = detector.look(patience);
    ASSERT_TRUE(found && found->spot);
    EXPECT_EQ(found->publish_time_nanos, 1'700'000'000'000'000'123u);
    EXPECT_EQ(found->frame_id, "other_frame");
    EXPECT_EQ(found->spot->pixels, 1u);
    EXPECT_EQ(found->spot->x, 30);
    EXPECT_EQ(found->spot->y, 2);
    EXPECT_NEAR(found->brightness, (599 * 10 + 250) / 600.0, 1e-9);
}

TEST_F(Core, ALargerPictureReplacesTheStreamAndTheDetectorFollows) {
    DriverCore driver(small());
    DetectorCore detector(watching());
    const std::vector<uint8_t> pixels(64 * 64, 20);
    const auto publish = [&](uint32_t side) {
        return driver.publish({livebag::ImageLayout::of(side, side, "mono8"), "", 0, pixels.data(), pixels.size()});
    };
    EXPECT_EQ(publish(32), 1u);
    ASSERT_TRUE(detector.look(patience));
    EXPECT_EQ(publish(16), 2u) << "a smaller one fits";
    ASSERT_TRUE(detector.look(patience));
    EXPECT_EQ(publish(64), 1u) << "a larger one begins a new stream";
    EXPECT_TRUE(look_until(detector, [&] { return detector.counts().detected == 3; }));
    EXPECT_EQ(detector.state(), StreamState::live);
}

TEST_F(Core, ADescriptionThatPromisesMoreThanThereIsIsRefused) {
    DriverCore driver(small());
    const std::vector<uint8_t> pixels(99);
    const auto layout = livebag::ImageLayout::of(10, 10, "mono8");
    EXPECT_NE(refusal([&] { driver.publish({layout, "", 0, pixels.data(), pixels.size()}); }).find("99 bytes"),
              std::string::npos);
    EXPECT_NE(refusal([&] { driver.publish({{}, "", 0, nullptr, 0}); }), "");
}

TEST_F(Core, ADriverThatComesDiesAndComesAgain) {
    DetectorCore detector(watching());
    EXPECT_FALSE(detector.look(1ms));
    EXPECT_EQ(detector.state(), StreamState::absent);
    EXPECT_NE(detector.absence().find(name), std::string::npos);

    const pid_t child = ::fork();
    if (child == 0) {
        DriverCore driver(small());
        driver.publish_test_picture();
        for (;;) ::pause();
    }
    ASSERT_GT(child, 0);
    EXPECT_TRUE(look_until(detector, [&] { return detector.counts().detected == 1; }));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(look_until(detector, [&] { return detector.state() == StreamState::gone; }));

    DriverCore again(small());
    EXPECT_EQ(again.publish_test_picture(), 2u) << "the sequence goes on";
    EXPECT_TRUE(look_until(detector, [&] { return detector.counts().detected == 2; }));
    EXPECT_EQ(detector.state(), StreamState::live);
}

TEST_F(Core, AStreamThatWasRemovedAndMadeAnewIsFound) {
    auto driver = std::make_unique<DriverCore>(small());
    driver->publish_test_picture();
    DetectorCore detector(watching());
    ASSERT_TRUE(detector.look(patience));
    driver.reset();
    livebag::remove(name);
    driver = std::make_unique<DriverCore>(small());
    driver->publish_test_picture();
    EXPECT_TRUE(look_until(detector, [&] { return detector.counts().detected == 2; }));
}

TEST_F(Core, ASilentDriverIsStalledUntilItsHeartbeat) {
    DriverCore driver(small());
    driver.publish_test_picture();
    DetectorSettings settings = watching();
    settings.deadline = 0.001;
    DetectorCore strict(settings);
    ASSERT_TRUE(strict.look(patience));
    EXPECT_TRUE(look_until(strict, [&] { return strict.state() == StreamState::stalled; }));

    settings.deadline = 3600;
    DetectorCore patient(settings);
    ASSERT_TRUE(patient.look(patience));
    driver.heartbeat();
    EXPECT_FALSE(patient.look(1ms));
    EXPECT_EQ(patient.state(), StreamState::live);
}

TEST_F(Core, PicturesThatItCannotReadAreToldAndPassedOver) {
    DriverCore driver(small());
    const std::vector<uint8_t> pixels(64 * 64 * 4, 20);
    driver.publish({livebag::ImageLayout::of(64, 64, "32FC1"), "", 0, pixels.data(), pixels.size()});
    DetectorCore detector(watching());
    EXPECT_NE(refusal([&] { detector.look(patience); }).find("8 bits"), std::string::npos);
    driver.publish({livebag::ImageLayout::of(64, 64, "bgra8"), "", 0, pixels.data(), pixels.size()});
    const auto found = detector.look(patience);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->brightness, 20);
    EXPECT_FALSE(found->spot) << "nothing is bright";
}

TEST_F(Core, SettingsOutOfBoundsAreRefusedByName) {
    const auto driver = [&](auto change) {
        DriverSettings settings = small();
        change(settings);
        return refusal([&] { DriverCore made(settings); });
    };
    EXPECT_NE(driver([](auto& it) { it.width = -1; }).find("width is -1"), std::string::npos);
    EXPECT_NE(driver([](auto& it) { it.height = side_max + 1; }).find("height"), std::string::npos);
    EXPECT_NE(driver([](auto& it) { it.rate = 0; }).find("rate"), std::string::npos);
    EXPECT_NE(driver([](auto& it) { it.rate = std::nan(""); }).find("rate"), std::string::npos);
    EXPECT_NE(driver([](auto& it) { it.stream = "/camera/front"; }).find("camera.front"), std::string::npos);
    const auto detector = [&](auto change) {
        DetectorSettings settings = watching();
        change(settings);
        return refusal([&] { DetectorCore made(settings); });
    };
    EXPECT_NE(detector([](auto& it) { it.deadline = 0; }).find("deadline"), std::string::npos);
    EXPECT_NE(detector([](auto& it) { it.threshold = 256; }).find("threshold"), std::string::npos);
    EXPECT_NE(detector([](auto& it) { it.stream = "/camera/front"; }).find("camera.front"), std::string::npos);
}

TEST_F(Core, ASecondDriverOfTheSameStreamIsRefusedAtTheStart) {
    DriverCore one(small());
    one.open_for_test_pictures();
    DriverCore two(small());
    EXPECT_NE(refusal([&] { two.open_for_test_pictures(); }), "");
}

}  // namespace
}  // namespace livebag_ros
