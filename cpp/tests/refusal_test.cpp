// Foreign and damaged objects, and access rights.

#include <random>

#include "support.hpp"

namespace livebag::test {
namespace {

namespace at = detail::header_at;

class Refusal : public StreamTest {
   protected:
    static StreamOptions options() {
        return StreamOptions::image(100, 100, 1).with_slots(2).with_schema("ros2msg", "schema");
    }

    /// The object of a stream with one frame, whose writer has ended.
    std::vector<uint8_t> sound() {
        auto writer = Writer::create(name, options());
        const std::vector<uint8_t> data(10'000, 7);
        writer.publish({ImageLayout::of(100, 100, "mono8"), "camera"}, data.data(), data.size());
        writer.close();
        return bytes_of(main_path());
    }

    static void sign(std::vector<uint8_t>& object) {
        const uint32_t crc = detail::crc32c(object.data() + 0x10, 0x1000 - 0x10);
        detail::put(object.data(), at::crc32c, detail::crc32c(object.data() + 0x2000, 6, crc));
    }

    Errc reading(const std::vector<uint8_t>& object) {
        put_file(main_path(), object);
        return code_of([&] { Reader::open(name); });
    }
};

TEST_F(Refusal, OfWhatIsNotThere) { EXPECT_EQ(code_of([&] { Reader::open(name); }), Errc::not_found); }

TEST_F(Refusal, OfForeignObjectsByBothSides) {
    std::vector<uint8_t> object = sound();
    object[3] ^= 1;
    EXPECT_EQ(reading(object), Errc::foreign);
    EXPECT_EQ(code_of([&] { Writer::create(name, options()); }), Errc::foreign);
    EXPECT_EQ(bytes_of(main_path()), object) << "what is not ours is left alone";
    put_file(main_path(), {'h', 'e', 'l', 'l', 'o'});
    EXPECT_EQ(code_of([&] { Reader::open(name); }), Errc::damaged);
    EXPECT_EQ(code_of([&] { Writer::create(name, options()); }), Errc::foreign);
    livebag::remove(name);
    ASSERT_EQ(::symlink("/etc/passwd", main_path().c_str()), 0);
    EXPECT_EQ(code_of([&] { Reader::open(name); }), Errc::system);
    EXPECT_EQ(code_of([&] { Writer::create(name, options()); }), Errc::foreign);
    ASSERT_EQ(::unlink(main_path().c_str()), 0);
    ASSERT_EQ(::mkdir(main_path().c_str(), 0700), 0);
    EXPECT_THROW(Reader::open(name), Error);
    EXPECT_THROW(Writer::create(name, options()), Error);
    ASSERT_EQ(::rmdir(main_path().c_str()), 0);
}

TEST_F(Refusal, OfEveryFlippedBitOfTheHeader) {
    const std::vector<uint8_t> object = sound();
    std::vector<size_t> places = {0x2000, 0x2005, 0x00C, 0x00F};
    for (size_t place = 0x010; place < 0x070; ++place) places.push_back(place);
    for (size_t place = 0x070; place < 0x1000; place += 37) places.push_back(place);
    for (const size_t place : places) {
        std::vector<uint8_t> damaged = object;
        damaged[place] ^= 0x10;
        ASSERT_EQ(reading(damaged), Errc::damaged) << place;
    }
    std::vector<uint8_t> version = object;
    detail::put(version.data(), at::version, uint32_t{2});
    EXPECT_EQ(reading(version), Errc::version);
}

TEST_F(Refusal, OfEveryRuleBrokenUnderAValidChecksum) {
    const std::vector<uint8_t> object = sound();
    const auto refused = [&](size_t place, auto value) {
        std::vector<uint8_t> damaged = object;
        detail::put(damaged.data(), place, value);
        sign(damaged);
        const Errc found = reading(damaged);
        EXPECT_EQ(found, Errc::damaged) << place << " = " << value;
    };
    for (const uint64_t value : {uint64_t{0}, uint64_t{object.size() + 1}, ~uint64_t{0}, uint64_t{0x4000}})
        refused(at::total_bytes, value);
    for (const uint32_t value : {3u, ~0u}) refused(at::kind, value);
    refused(at::flags, 4u);
    for (const uint32_t value : {0u, 1u, 1025u, 1000u, ~0u}) refused(at::slot_count, value);
    for (const uint32_t value : {0u, 320u, 500u, 0xFFFF'FFC0u}) refused(at::slot_header_stride, value);
    for (const uint64_t value : {uint64_t{0}, uint64_t{0x2000}, uint64_t{0x3001}, ~uint64_t{63}})
        refused(at::slot_headers_offset, value);
    for (const uint64_t value : {uint64_t{0}, uint64_t{0x3000}, uint64_t{0x4001}, ~uint64_t{4095}})
        refused(at::payloads_offset, value);
    for (const uint64_t value : {uint64_t{0}, uint64_t{4096}, uint64_t{10'001}, ~uint64_t{4095}, uint64_t{1} << 63})
        refused(at::payload_stride, value);
    for (const uint64_t value : {uint64_t{0}, uint64_t{12'289}, uint64_t{1} << 32, ~uint64_t{0}})
        refused(at::payload_bytes_max, value);
    refused(at::schema_offset, uint64_t{0x2008});
    for (const uint32_t value : {0x2000'0000u, ~0u}) refused(at::schema_bytes, value);
    for (const size_t place : {at::topic, at::type_name, at::message_encoding, at::schema_encoding}) {
        refused(place, 509u);
        refused(place, ~0u);
        std::vector<uint8_t> damaged = object;
        damaged[place] = 1;
        damaged[place + 4] = 0xFF;
        sign(damaged);
        EXPECT_EQ(reading(damaged), Errc::damaged);
    }
}

TEST_F(Refusal, OfTruncatedObjects) {
    const std::vector<uint8_t> object = sound();
    for (const size_t bytes : {size_t{1}, size_t{8}, size_t{0x1000}, size_t{0x2FFF}, size_t{0x3000}, object.size() - 1})
        EXPECT_EQ(reading(std::vector<uint8_t>(object.begin(), object.begin() + static_cast<ptrdiff_t>(bytes))),
                  Errc::damaged);
}

TEST_F(Refusal, NeverWorseThanAnErrorOnRandomHeaders) {
    const std::vector<uint8_t> object = sound();
    std::mt19937_64 random(1);
    for (int round = 0; round < 2000; ++round) {
        std::vector<uint8_t> damaged = object;
        for (uint64_t i = 0; i < 1 + random() % 4; ++i) {
            const size_t place = 0x10 + random() % 12 * 8;
            const uint64_t value = random() >> random() % 64;
            detail::put(damaged.data(), place, value);
        }
        sign(damaged);
        put_file(main_path(), damaged);
        try {
            auto reader = Reader::open(name);
            std::vector<uint8_t> data;
            reader.copy_latest(data);
        } catch (const Error&) {
        }
    }
}

TEST_F(Refusal, ADamagedStreamIsReplacedByItsWriter) {
    std::vector<uint8_t> object = sound();
    object[0x100] ^= 1;
    put_file(main_path(), object);
    auto writer = Writer::create(name, options());
    EXPECT_EQ(writer.latest_sequence(), 0u);
    EXPECT_EQ(Reader::open(name).info().topic, "/" + name);
}

TEST_F(Refusal, OfDamagedFrameHeaders) {
    const std::vector<uint8_t> object = sound();
    const size_t slot = detail::Geometry::plan(Kind::image, 2, 10'000, 6).slot_header_offset(1);
    const auto damaged = [&](size_t place, auto value) {
        std::vector<uint8_t> changed = object;
        detail::put(changed.data(), slot + place, value);
        put_file(main_path(), changed);
        auto reader = Reader::open(name);
        std::vector<uint8_t> data;
        EXPECT_EQ(code_of([&] { reader.copy_latest(data); }), Errc::damaged);
        EXPECT_EQ(code_of([&] { reader.borrow_latest(); }), Errc::damaged);
        reader.seek(1);
        EXPECT_EQ(code_of([&] { reader.next(); }), Errc::damaged);
    };
    damaged(detail::slot_at::payload_bytes, uint64_t{10'001});
    damaged(detail::slot_at::payload_bytes, ~uint64_t{0});
    damaged(detail::slot_at::encoding_bytes, uint8_t{33});
    damaged(detail::slot_at::encoding, uint8_t{0xFF});
    damaged(detail::slot_at::frame_id, uint8_t{0xFF});
    damaged(detail::slot_at::lock, uint64_t{0});
}

TEST_F(Refusal, OfDamagedPointFields) {
    StreamOptions options = StreamOptions::points(10).with_slots(2);
    auto writer = Writer::create(name, options);
    const std::vector<uint8_t> data(160);
    writer.publish({PointsLayout::xyz(10), "lidar"}, data.data(), data.size());
    auto reader = Reader::open(name);
    const size_t slot = detail::Geometry::plan(Kind::points, 2, 160, 0).slot_header_offset(1);
    const uint8_t bad = 33;
    poke(main_path(), slot + detail::slot_at::fields + 48 + 41, &bad, 1);
    EXPECT_EQ(code_of([&] { reader.borrow_latest(); }), Errc::damaged);
    poke(main_path(), slot + detail::slot_at::field_count, &bad, 1);
    EXPECT_EQ(code_of([&] { reader.borrow_latest(); }), Errc::damaged);
}

mode_t mode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
}

TEST_F(Refusal, RegionsBelongToTheirOwnerAlone) {
    const mode_t before = ::umask(0);
    const auto open_handed = Writer::create(name, options());
    EXPECT_EQ(mode_of(main_path()), 0600u);
    EXPECT_EQ(mode_of(wake_path()), 0600u);
    ::umask(before);
}

TEST_F(Refusal, AGroupMayReadAndNothingElse) {
    const mode_t before = ::umask(0777);
    const auto group = std::to_string(::getegid());
    auto writer = Writer::create(name, options().with_group(group));
    ::umask(before);
    EXPECT_EQ(mode_of(main_path()), 0640u);
    EXPECT_NE(::access(wake_path().c_str(), F_OK), 0) << "what a group may write, it may truncate";
    auto reader = Reader::open(name);
    EXPECT_FALSE(reader.wait(2ms));
    const std::vector<uint8_t> data(10'000, 7);
    writer.publish({ImageLayout::of(100, 100, "mono8"), "camera"}, data.data(), data.size());
    EXPECT_TRUE(reader.wait(patience));
    writer.close();
    auto again = Writer::create(name, options().with_group(group));
    EXPECT_EQ(again.epoch(), 2u);
    again.close();
    auto private_again = Writer::create(name, options());
    EXPECT_EQ(private_again.epoch(), 1u);
    EXPECT_EQ(mode_of(main_path()), 0600u);
    EXPECT_EQ(code_of([&] { Writer::create(name + "x", options().with_group("no such group")); }), Errc::bad_option);
}

TEST_F(Refusal, OfAnotherUsersObject) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to make another user's object";
    put_file(main_path(), sound());
    ASSERT_EQ(::chown(main_path().c_str(), 12'345, 12'345), 0);
    EXPECT_EQ(code_of([&] { Writer::create(name, options()); }), Errc::foreign_owner);
}

TEST_F(Refusal, AFullMachineIsAnErrorAtCreation) {
    StreamOptions options = StreamOptions::bytes(4'000'000'000).with_slots(1024);
    EXPECT_EQ(code_of([&] { Writer::create(name, options); }), Errc::no_space);
    EXPECT_NE(::access(main_path().c_str(), F_OK), 0);
    EXPECT_NE(::access(wake_path().c_str(), F_OK), 0);
}

}  // namespace
}  // namespace livebag::test
