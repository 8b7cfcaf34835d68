// A writer and its readers.

#include "support.hpp"

namespace livebag::test {
namespace {

class Stream : public StreamTest {};

StreamOptions small() { return StreamOptions::bytes(1000).with_slots(3); }

uint64_t publish(Writer& writer, size_t bytes = 777) {
    const std::vector<uint8_t> data = pattern(writer.latest_sequence() + 1, bytes);
    return writer.publish({}, data.data(), data.size());
}

TEST_F(Stream, CarriesWhatTheWriterSaysAboutIt) {
    auto options = StreamOptions::image(64, 48, 3).with_topic("/camera").with_schema("ros2msg", "# schéma").with_checksum();
    const auto writer = Writer::create(name, options);
    const auto reader = Reader::open(name);
    const StreamInfo& info = reader.info();
    EXPECT_EQ(info.name, name);
    EXPECT_EQ(info.kind, Kind::image);
    EXPECT_EQ(info.slots, 21u);
    EXPECT_EQ(info.payload_bytes_max, 64u * 48 * 3);
    EXPECT_TRUE(info.checksum);
    EXPECT_EQ(info.topic, "/camera");
    EXPECT_EQ(info.type_name, "sensor_msgs/msg/Image");
    EXPECT_EQ(info.message_encoding, "cdr");
    EXPECT_EQ(info.schema_encoding, "ros2msg");
    EXPECT_EQ(info.schema, "# schéma");
    EXPECT_EQ(info.instance, writer.info().instance);
    EXPECT_NE(info.instance, 0u);
    EXPECT_EQ(writer.epoch(), 1u);
    EXPECT_EQ(reader.writer_pid(), static_cast<uint64_t>(::getpid()));
    EXPECT_TRUE(writer.warnings().empty());
}

TEST_F(Stream, TakesItsTopicFromItsName) {
    Writer::create(name, small());
    EXPECT_EQ(Reader::open(name).info().topic, "/" + name);
}

TEST_F(Stream, DeliversFramesByCopyAndByLoan) {
    auto writer = Writer::create(name, small());
    auto reader = Reader::open(name);
    std::vector<uint8_t> data;
    EXPECT_FALSE(reader.copy_latest(data));
    EXPECT_FALSE(reader.borrow_latest());
    EXPECT_FALSE(reader.next().frame);
    EXPECT_EQ(publish(writer), 1u);
    auto frame = reader.copy_latest(data);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->sequence, 1u);
    EXPECT_EQ(data, pattern(1, 777));

    auto loan = writer.loan();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(loan.data()) % 4096, 0u);
    EXPECT_EQ(loan.capacity(), 1000u);
    const std::vector<uint8_t> second = pattern(2, 1000);
    std::copy(second.begin(), second.end(), loan.data());
    EXPECT_EQ(reader.latest_sequence(), 1u);
    EXPECT_EQ(loan.publish({}, 1000), 2u);
    EXPECT_EQ(code_of([&] { loan.publish({}, 1000); }), Errc::misuse);
    const auto borrowed = reader.borrow_latest();
    ASSERT_TRUE(borrowed);
    EXPECT_EQ(std::vector<uint8_t>(borrowed->data(), borrowed->data() + borrowed->size()), second);
    EXPECT_TRUE(borrowed->validate());
    EXPECT_EQ(writer.publish({}, nullptr, 0), 3u);
    EXPECT_EQ(reader.copy_latest(data)->payload_bytes, 0u);
    EXPECT_TRUE(data.empty());
}

TEST_F(Stream, DeliversEveryFieldOfAFrameHeader) {
    FrameMeta image{ImageLayout{4, 3, 17, "16UC1_and_up_to_thirty_two_bytes", true}, std::string(255, 'f'), 42};
    PointsLayout cloud{2, 2, 26, 60, {}, true, false};
    for (uint8_t i = 0; i < 32; ++i) cloud.fields.push_back({"field_" + std::to_string(i), 3u * i, i, i + 1u});
    const FrameMeta points{cloud, "é", 43};
    for (const FrameMeta& meta : {FrameMeta{{}, "bytes", 41}, image, points}) {
        StreamOptions options = small();
        options.kind = kind_of(meta.layout);
        auto writer = Writer::create(name, options);
        const std::vector<uint8_t> data = pattern(1, 101);
        writer.publish(meta, data.data(), data.size());
        auto reader = Reader::open(name);
        const auto frame = reader.borrow_latest();
        ASSERT_TRUE(frame);
        EXPECT_EQ(frame->header().layout, meta.layout);
        EXPECT_EQ(frame->header().frame_id, meta.frame_id);
        EXPECT_EQ(frame->header().publish_time_nanos, meta.publish_time_nanos);
        EXPECT_EQ(frame->header().payload_bytes, 101u);
        EXPECT_FALSE(frame->header().crc32c);
    }
}

TEST_F(Stream, StampsAFrameThatHasNoTime) {
    auto writer = Writer::create(name, small());
    auto reader = Reader::open(name);
    const uint64_t before = detail::realtime_nanos();
    publish(writer);
    const auto frame = reader.borrow_latest();
    EXPECT_GE(frame->header().publish_time_nanos, before);
    EXPECT_LE(frame->header().publish_time_nanos, detail::realtime_nanos());
}

TEST_F(Stream, TakesTimeZeroForATime) {
    auto writer = Writer::create(name, small());
    auto reader = Reader::open(name);
    FrameMeta meta;
    meta.publish_time_nanos = 0;
    writer.publish(meta, "x", size_t{1});
    EXPECT_EQ(reader.borrow_latest()->header().publish_time_nanos, 0u);
}

TEST_F(Stream, ALoanGivenBackIsNoFrame) {
    auto writer = Writer::create(name, small());
    auto reader = Reader::open(name);
    publish(writer);
    {
        auto loan = writer.loan();
        EXPECT_EQ(code_of([&] { publish(writer); }), Errc::misuse);
        EXPECT_EQ(code_of([&] { writer.loan(); }), Errc::misuse);
    }
    EXPECT_EQ(reader.latest_sequence(), 1u);
    EXPECT_EQ(reader.counters().abandoned, 1u);
    EXPECT_EQ(publish(writer), 2u);
    std::vector<uint8_t> data;
    EXPECT_EQ(reader.copy_latest(data)->sequence, 2u);
}

TEST_F(Stream, ALoanOutlivesItsWriterSafely) {
    auto writer = std::make_unique<Writer>(Writer::create(name, small()));
    auto loan = writer->loan();
    writer->close();
    writer.reset();
    std::optional<Loan> last = std::move(loan);
    last->data()[0] = 1;
    EXPECT_EQ(code_of([&] { last->publish({}, 1); }), Errc::misuse);
    EXPECT_EQ(code_of([&] { Writer::create(name, small()); }), Errc::live_writer) << "the slot is still lent";
    last.reset();
    EXPECT_EQ(Writer::create(name, small()).epoch(), 2u);
}

TEST_F(Stream, RefusesFramesThatDoNotFit) {
    auto writer = Writer::create(name, small());
    auto reader = Reader::open(name);
    const std::vector<uint8_t> data(1001);
    EXPECT_EQ(code_of([&] { writer.publish({}, data.data(), 1001); }), Errc::too_large);
    EXPECT_EQ(code_of([&] { writer.publish({{}, std::string(256, 'f')}, data.data(), 1); }), Errc::too_large);
    EXPECT_EQ(code_of([&] { writer.publish({{}, "\xFF"}, data.data(), 1); }), Errc::too_large);
    EXPECT_EQ(code_of([&] { writer.publish({ImageLayout{}}, data.data(), 1); }), Errc::wrong_kind);
    auto loan = writer.loan();
    EXPECT_EQ(code_of([&] { loan.publish({}, 1001); }), Errc::too_large);
    EXPECT_EQ(code_of([&] { loan.publish({}); }), Errc::misuse);
    EXPECT_EQ(loan.publish({}, 1000), 1u);
    writer.count_dropped(10);
    EXPECT_EQ(reader.counters().dropped, 15u);
}

TEST_F(Stream, NextDeliversInOrderAndCountsTheLapped) {
    auto writer = Writer::create(name, small());
    auto reader = Reader::open(name);
    for (int i = 0; i < 2; ++i) publish(writer);
    EXPECT_EQ(reader.next().frame->sequence(), 1u);
    for (int i = 0; i < 8; ++i) publish(writer);
    Next next = reader.next();
    EXPECT_EQ(next.lapped, 6u);
    EXPECT_EQ(next.frame->sequence(), 8u);
    EXPECT_EQ(reader.next().frame->sequence(), 9u);
    std::vector<uint8_t> data;
    NextCopy copied = reader.copy_next(data);
    EXPECT_EQ(copied.frame->sequence, 10u);
    EXPECT_EQ(data, pattern(10, 777));
    next = reader.next();
    EXPECT_EQ(next.lapped, 0u);
    EXPECT_FALSE(next.frame);
    EXPECT_EQ(reader.lapped(), 6u);
    reader.seek(1);
    EXPECT_EQ(reader.next().lapped, 7u);
    reader.seek_oldest();
    EXPECT_EQ(reader.next_sequence(), 8u);
    EXPECT_EQ(reader.next().lapped, 0u);
}

TEST_F(Stream, NextSkipsAFrameThatIsBeingOverwritten) {
    auto writer = Writer::create(name, small());
    auto reader = Reader::open(name);
    for (int i = 0; i < 3; ++i) publish(writer);
    const auto loan = writer.loan();
    const Next next = reader.next();
    EXPECT_EQ(next.lapped, 1u);
    EXPECT_EQ(next.frame->sequence(), 2u);
}

TEST_F(Stream, AFrameInPlaceKnowsWhenItIsOverwritten) {
    auto writer = Writer::create(name, small());
    auto reader = std::make_unique<Reader>(Reader::open(name));
    publish(writer);
    const auto frame = reader->next().frame;
    reader.reset();
    std::vector<uint8_t> data;
    EXPECT_TRUE(frame->copy_to(data));
    EXPECT_EQ(data, pattern(1, 777));
    EXPECT_EQ(frame->frames_left(), 2u);
    publish(writer), publish(writer);
    EXPECT_EQ(frame->frames_left(), 0u);
    EXPECT_TRUE(frame->validate());
    const auto loan = writer.loan();
    EXPECT_FALSE(frame->validate());
    EXPECT_FALSE(frame->copy_to(data));
    EXPECT_EQ(code_of([&] { frame->copy_range(data.data(), 700, 78); }), Errc::misuse);
}

TEST_F(Stream, ACopyThatIsOvertakenStartsAgain) {
    auto writer = Writer::create(name, small());
    auto reader = Reader::open(name);
    publish(writer);
    std::vector<uint8_t> data;
    int calls = 0;
    const auto frame = reader.copy_latest(data, [&] {
        if (calls++ == 0)
            for (int i = 0; i < 4; ++i) publish(writer);
    });
    EXPECT_EQ(frame->sequence, 5u);
    EXPECT_EQ(data, pattern(5, 777));
    const auto always = [&] {
        for (int i = 0; i < 4; ++i) publish(writer);
    };
    EXPECT_EQ(code_of([&] { reader.copy_latest(data, always); }), Errc::overtaken);
}

TEST_F(Stream, ChecksumsTellDamage) {
    auto writer = Writer::create(name, small().with_checksum());
    auto reader = Reader::open(name);
    const auto by_loan = [&] {
        auto loan = writer.loan();
        const std::vector<uint8_t> data = pattern(writer.latest_sequence() + 1, 777);
        std::copy(data.begin(), data.end(), loan.data());
        loan.publish({}, 777);
    };
    std::vector<uint8_t> data;
    for (int round = 0; round < 2; ++round) {
        round == 0 ? static_cast<void>(publish(writer)) : by_loan();
        const auto frame = reader.next().frame;
        ASSERT_TRUE(frame->header().crc32c);
        EXPECT_EQ(*frame->header().crc32c, detail::crc32c(frame->data(), 777));
        EXPECT_TRUE(frame->checksum_matches());
        EXPECT_TRUE(reader.copy_latest(data));
        const uint64_t at = detail::Geometry::plan(Kind::bytes, 3, 1000, 0).payload_offset(frame->sequence());
        poke_word(main_path(), at + 96, 7);
        EXPECT_FALSE(frame->checksum_matches());
        EXPECT_EQ(code_of([&] { frame->copy_to(data); }), Errc::checksum);
        EXPECT_EQ(code_of([&] { reader.copy_latest(data); }), Errc::checksum);
        EXPECT_EQ(code_of([&] { reader.receive(data, 1ms), reader.seek(1), reader.receive(data, 1ms); }), Errc::checksum);
        reader.seek(writer.latest_sequence() + 1);
    }
}

TEST_F(Stream, CountsWhatItDoes) {
    auto writer = Writer::create(name, small());
    const auto reader = Reader::open(name);
    for (int i = 0; i < 3; ++i) publish(writer, 100);
    writer.heartbeat();
    const Counters counters = reader.counters();
    EXPECT_EQ(counters.published, 3u);
    EXPECT_EQ(counters.payload_bytes_published, 300u);
    EXPECT_EQ(counters.heartbeats, 4u);
    EXPECT_EQ(counters.epoch, 1u);
    EXPECT_GT(counters.publish_gap_max_nanos, 0u);
}

TEST_F(Stream, IsListedAndRemoved) {
    const auto there = [&] {
        const auto names = livebag::list();
        EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
        return std::count(names.begin(), names.end(), name);
    };
    EXPECT_EQ(there(), 0);
    EXPECT_EQ(code_of([&] { livebag::remove(name); }), Errc::not_found);
    auto writer = Writer::create(name, small());
    const auto reader = Reader::open(name);
    EXPECT_EQ(there(), 1);
    EXPECT_EQ(code_of([&] { livebag::remove(name); }), Errc::live_writer);
    writer.close();
    EXPECT_EQ(there(), 1);
    livebag::remove(name);
    EXPECT_EQ(there(), 0);
    EXPECT_NE(::access(wake_path().c_str(), F_OK), 0);
    EXPECT_TRUE(reader.replaced());
    auto again = Writer::create(name, small());
    again.close_and_remove();
    EXPECT_EQ(there(), 0);
    EXPECT_EQ(code_of([&] { again.close_and_remove(); }), Errc::misuse);
    EXPECT_EQ(code_of([&] { publish(again); }), Errc::misuse);
}

TEST_F(Stream, PlacementThatIsNotPossibleIsAWarningWithItsCure) {
    Placement placement;
    placement.numa_node = 1023;
    placement.cpu = 4'000'000;
    placement.fifo_priority = 1000;
    placement.huge_pages = true;
    auto writer = Writer::create(name, small().with_placement(placement));
    ASSERT_EQ(writer.warnings().size(), 4u);
    EXPECT_EQ(publish(writer), 1u);
}

}  // namespace
}  // namespace livebag::test
