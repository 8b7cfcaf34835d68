// The engine from C++: recording, and asking a recording while it is written.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "livebag/recording.hpp"
#include "livebag/stream.hpp"

using namespace std::chrono_literals;

namespace {

class RecordingTest : public testing::Test {
   protected:
    RecordingTest() {
        std::string name = (std::filesystem::temp_directory_path() / "livebag-cpp-XXXXXX").string();
        folder_ = ::mkdtemp(name.data());
    }
    ~RecordingTest() override { std::filesystem::remove_all(folder_); }

    std::string path(const char* name = "run") const { return (folder_ / name).string(); }

    std::filesystem::path folder_;
};

livebag_record_options blocking() {
    livebag_record_options options = livebag_record_options_default();
    options.when_full = LIVEBAG_WHEN_FULL_BLOCK;
    return options;
}

livebag_status status_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const livebag::RecordingError& error) {
        EXPECT_STRNE(error.what(), "");
        return error.status();
    }
    return LIVEBAG_STATUS_OK;
}

}  // namespace

TEST_F(RecordingTest, TheLibraryIsThatOfTheHeader) {
    EXPECT_EQ(livebag_abi_version(), static_cast<uint32_t>(LIVEBAG_ABI_VERSION));
    EXPECT_STRNE(livebag_version(), "");
}

TEST_F(RecordingTest, WhatIsWrittenIsReadBackWithTimeZero) {
    livebag::Recorder recorder(path(), blocking());
    const livebag::TopicWriter writer = recorder.topic({"/imu", "sensor_msgs/msg/Imu"});
    for (uint64_t k = 0; k < 100; ++k) EXPECT_TRUE(writer.write(&k, sizeof k, k + 1, k, k));
    const livebag::Report report = recorder.finish();
    ASSERT_EQ(report.topics.size(), 1u);
    EXPECT_EQ(report.topics[0].messages, 100u);
    EXPECT_EQ(report.lost(), 0u);
    EXPECT_FALSE(report.failure);

    const livebag::Recording recording(path());
    EXPECT_FALSE(recording.is_live());
    const std::vector<livebag::RecordedTopic> topics = recording.topics();
    ASSERT_EQ(topics.size(), 1u);
    EXPECT_EQ(topics[0].name, "/imu");
    EXPECT_EQ(topics[0].schema_encoding, "ros2msg");
    EXPECT_NE(topics[0].schema.find("angular_velocity"), std::string::npos);
    EXPECT_EQ(topics[0].message_count, 100u);
    uint64_t count = 0;
    livebag::Messages messages = recording.history();
    for (const livebag::Message& message : messages) {
        EXPECT_EQ(message.log_time_nanos, count);
        EXPECT_EQ(message.publish_time_nanos, count);
        EXPECT_EQ(message.sequence, count + 1);
        EXPECT_EQ(message.text(), std::string_view(reinterpret_cast<const char*>(&count), sizeof count));
        ++count;
    }
    EXPECT_EQ(count, 100u);
    EXPECT_EQ(messages.damaged(), 0u);
    livebag::Messages some = recording.history({"/imu"}, 10, 19);
    EXPECT_EQ(std::distance(some.begin(), some.end()), 10);
    livebag::Messages latest = recording.latest(4ns, {"/imu"});
    EXPECT_EQ(std::distance(latest.begin(), latest.end()), 5);
}

TEST_F(RecordingTest, EventsAreKeptInTheRecording) {
    livebag::Recorder recorder(path(), blocking());
    recorder.event("now", "a few words");
    recorder.event("then", "", 5, 7);
    EXPECT_EQ(status_of([&] { recorder.event(""); }), LIVEBAG_STATUS_INVALID);
    EXPECT_EQ(status_of([&] { recorder.event("backwards", "", 7, 5); }), LIVEBAG_STATUS_INVALID);
    // They are on the disk when the call returns.
    std::ifstream file(path() + "/container.events");
    const std::string kept{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(kept.find("a few words"), std::string::npos) << kept;
    EXPECT_NE(kept.find("then"), std::string::npos) << kept;
    EXPECT_EQ(kept.find("backwards"), std::string::npos) << kept;
    recorder.finish();
    EXPECT_EQ(status_of([&] { recorder.event("late"); }), LIVEBAG_STATUS_CLOSED);
}

TEST_F(RecordingTest, ANodeAsksForTheLastSecondWhileItIsBeingRecorded) {
    livebag::Recorder recorder(path(), blocking());
    const livebag::TopicWriter writer = recorder.topic({"/imu", "sensor_msgs/msg/Imu"});
    std::atomic<bool> ends{false};
    std::thread sensor([&] {
        for (uint64_t k = 1; !ends; ++k) {
            writer.write(&k, sizeof k, k);
            std::this_thread::sleep_for(1ms);
        }
    });
    uint64_t newest = 0;
    for (int asked = 0; asked < 3;) {
        const livebag::Recording recording(path());
        if (recording.topics().empty() || recording.topics()[0].message_count == 0) continue;
        EXPECT_TRUE(recording.is_live());
        uint64_t count = 0, last = 0;
        livebag::Messages messages = recording.latest(1s, {"/imu"});
        for (const livebag::Message& message : messages) {
            EXPECT_EQ(message.data_bytes, sizeof(uint64_t));
            EXPECT_GT(message.sequence, last);
            last = message.sequence;
            ++count;
        }
        EXPECT_GT(count, 0u);
        if (last > newest) ++asked;
        newest = std::max(newest, last);
    }
    ends = true;
    sensor.join();
    const livebag::Report report = recorder.finish();
    EXPECT_EQ(report.lost(), 0u);
    EXPECT_GE(report.topics.at(0).messages, newest);
}

TEST_F(RecordingTest, ANodeFollowsUntilTheRecordingEnds) {
    livebag::Recorder recorder(path(), blocking());
    const livebag::TopicWriter imu = recorder.topic({"/imu", "sensor_msgs/msg/Imu"});
    constexpr uint64_t before = 5, all = 300;
    for (uint64_t k = 1; k <= before; ++k) imu.write(&k, sizeof k, k);
    livebag::Recording recording(path());
    while (recording.topics().empty() || recording.topics()[0].message_count < before) {
        std::this_thread::sleep_for(1ms);
        recording = livebag::Recording(path());
    }
    livebag::Messages whole = recording.follow({}, 1h);
    livebag::Messages news = recording.follow({"/imu", "/later"});
    EXPECT_FALSE(news.next(0s));
    EXPECT_FALSE(news.ended());
    std::thread sensor([&] {
        const livebag::TopicWriter later = recorder.topic({"/later", "", "raw"});
        for (uint64_t k = before + 1; k <= all; ++k) {
            imu.write(&k, sizeof k, k);
            later.write("x", 1, k);
        }
    });
    // Some of it while it is being recorded.
    const std::optional<livebag::Message> first = news.next(1h);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->sequence, before + 1);
    sensor.join();
    recorder.finish();
    uint64_t imus = first->topic == 0 ? 1 : 0, laters = 1 - imus, last = 0;
    while (const std::optional<livebag::Message> message = news.next(1h)) {
        const bool is_imu = news.topic(message->topic).name == "/imu";
        ++(is_imu ? imus : laters);
        if (!is_imu) continue;
        EXPECT_GT(message->sequence, last);
        last = message->sequence;
    }
    EXPECT_TRUE(news.ended());
    EXPECT_FALSE(news.next(1h));
    EXPECT_EQ(imus, all - before);
    EXPECT_EQ(laters, all - before);
    EXPECT_EQ(std::distance(whole.begin(), whole.end()), static_cast<std::ptrdiff_t>(2 * all - before));
    EXPECT_EQ(whole.damaged(), 0u);
    EXPECT_EQ(whole.topic(1).name, "/later");
    EXPECT_EQ(status_of([&] { whole.topic(2); }), LIVEBAG_STATUS_INVALID);
    EXPECT_EQ(status_of([&] { recording.follow({"/none"}); }), LIVEBAG_STATUS_NO_TOPIC);
}

TEST_F(RecordingTest, ABagOfAnotherMakeIsToldHowItBecomesOne) {
    std::ofstream(path("drive.mcap")) << "\x89MCAP0\r\n";
    try {
        livebag::Recording recording(path("drive.mcap"));
        FAIL();
    } catch (const livebag::RecordingError& error) {
        EXPECT_EQ(error.status(), LIVEBAG_STATUS_NOT_FOUND);
        EXPECT_NE(std::string(error.what()).find("livebag convert"), std::string::npos) << error.what();
    }
}

TEST_F(RecordingTest, StreamsOfThisMachineAreRecorded) {
    const std::string name = "cpp-recorded-" + std::to_string(::getpid());
    const auto layout = livebag::ImageLayout::of(4, 2, "rgb8");
    auto stream = livebag::Writer::create(name, livebag::StreamOptions::image(4, 2, 3));
    livebag::Recorder recorder(path(), blocking());
    recorder.follow({name});
    const auto has = [&](uint64_t count) {
        const livebag::Report report = recorder.report();
        return !report.topics.empty() && report.topics[0].messages >= count;
    };
    const std::vector<uint8_t> pixels(24, 7);
    while (recorder.report().topics.empty()) std::this_thread::sleep_for(1ms);
    for (int k = 0; k < 3; ++k) stream.publish({layout, "camera"}, pixels.data(), pixels.size());
    while (!has(3)) std::this_thread::sleep_for(1ms);
    recorder.finish();
    stream.close_and_remove();
    const livebag::Recording recording(path());
    ASSERT_EQ(recording.topics().size(), 1u);
    EXPECT_EQ(recording.topics()[0].type_name, "sensor_msgs/msg/Image");
}

TEST_F(RecordingTest, WhatIsPausedIsSkippedAndWhatHasNoRoomIsCounted) {
    livebag_record_options options = livebag_record_options_default();
    options.start_paused = true;
    livebag::Recorder recorder(path(), options);
    const livebag::TopicWriter writer = recorder.topic({"/raw", "", "raw"});
    EXPECT_TRUE(writer.write("a", 1));
    recorder.resume();
    EXPECT_TRUE(writer.write("b", 1));
    const livebag::Report report = recorder.finish();
    EXPECT_EQ(report.topics.at(0).messages, 1u);
    EXPECT_EQ(report.topics.at(0).skipped, 1u);
}

TEST_F(RecordingTest, ErrorsNameTheirCause) {
    EXPECT_EQ(status_of([&] { livebag::Recording{path("none")}; }), LIVEBAG_STATUS_NOT_FOUND);
    EXPECT_EQ(status_of([&] { livebag::Recorder{"/proc/none/run"}; }), LIVEBAG_STATUS_IO);
    livebag::Recorder recorder(path(), blocking());
    const livebag::TopicWriter writer = recorder.topic({"/raw", "", "raw"});
    writer.write("a", 1);
    recorder.finish();
    EXPECT_EQ(status_of([&] { recorder.finish(); }), LIVEBAG_STATUS_CLOSED);
    EXPECT_EQ(status_of([&] { recorder.report(); }), LIVEBAG_STATUS_CLOSED);
    EXPECT_EQ(status_of([&] { writer.write("a", 1); }), LIVEBAG_STATUS_CLOSED);
    const livebag::Recording recording(path());
    EXPECT_EQ(status_of([&] { recording.history({"/none"}); }), LIVEBAG_STATUS_NO_TOPIC);
    try {
        recording.latest(1s, {"/none"});
        FAIL();
    } catch (const livebag::Error& error) {
        EXPECT_EQ(error.code(), livebag::Errc::not_found);
        EXPECT_NE(std::string(error.what()).find("/raw"), std::string::npos) << error.what();
    }
}

TEST_F(RecordingTest, NothingThatIsNullIsFollowed) {
    EXPECT_EQ(livebag_open(nullptr, nullptr), LIVEBAG_STATUS_INVALID);
    livebag_recording* recording = nullptr;
    EXPECT_EQ(livebag_open("\xff", &recording), LIVEBAG_STATUS_INVALID);
    EXPECT_EQ(livebag_record(path().c_str(), nullptr, nullptr), LIVEBAG_STATUS_INVALID);
    EXPECT_FALSE(std::filesystem::exists(path()));
    EXPECT_EQ(livebag_next(nullptr, nullptr), LIVEBAG_STATUS_INVALID);
    EXPECT_EQ(livebag_next_within(nullptr, 0, nullptr), LIVEBAG_STATUS_INVALID);
    EXPECT_EQ(livebag_follow(nullptr, nullptr, 0, nullptr, nullptr), LIVEBAG_STATUS_INVALID);
    EXPECT_EQ(livebag_cursor_topic_at(nullptr, 0, nullptr), LIVEBAG_STATUS_INVALID);
    EXPECT_EQ(livebag_write(nullptr, nullptr, 0, nullptr, 0), LIVEBAG_STATUS_INVALID);
    EXPECT_EQ(livebag_topic_count(nullptr), 0u);
    EXPECT_FALSE(livebag_is_live(nullptr));
    EXPECT_EQ(livebag_report_failure(nullptr), nullptr);
    livebag_close(nullptr);
    livebag_cursor_free(nullptr);
    livebag_recorder_free(nullptr);
    livebag_writer_free(nullptr);
    livebag_report_free(nullptr);
}
