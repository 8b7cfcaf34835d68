// Names, texts, checksums, geometry.

#include "support.hpp"

namespace livebag::test {
namespace {

TEST(Name, AcceptsWhatTheLayoutAllows) {
    for (const std::string name : {"a", "camera_front", "A-Z.0", "x.wake.y", "wake", "-"})
        EXPECT_EQ(detail::Name(name).main_path(), "/dev/shm/livebag." + name);
    EXPECT_EQ(detail::Name(std::string(200, 'n')).text().size(), 200u);
}

TEST(Name, RefusesEverythingElse) {
    const std::string with_nul("a\0b", 3);
    for (const std::string& name : {std::string(), std::string(201, 'n'), std::string(".a"), std::string("a..b"),
                                   std::string("../a"), std::string("a/b"), std::string("a.wake"), std::string("é"),
                                   std::string("a b"), std::string("a\n"), with_nul, std::string("..")}) {
        EXPECT_EQ(code_of([&] { detail::Name{name}; }), Errc::bad_name) << name;
        EXPECT_FALSE(detail::Name::is_valid(name)) << name;
        EXPECT_EQ(code_of([&] { Writer::create(name, StreamOptions::bytes(1)); }), Errc::bad_name);
        EXPECT_EQ(code_of([&] { Reader::open(name); }), Errc::bad_name);
        EXPECT_EQ(code_of([&] { livebag::remove(name); }), Errc::bad_name);
    }
}

TEST(Utf8, TellsTextFromOtherBytes) {
    for (const char* text : {"", "plain", "é", "€", "\U0001F980", "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF"})
        EXPECT_TRUE(detail::is_utf8(text)) << text;
    for (const char* text : {"\x80", "\xC3", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF",
                             "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xE2\x82", "\xE2\x28\xA1"})
        EXPECT_FALSE(detail::is_utf8(text)) << text;
}

TEST(Crc32c, MatchesTheVectorsOfRfc3720) {
    EXPECT_EQ(detail::crc32c("123456789", 9), 0xE306'9283u);
    const std::vector<uint8_t> zeros(32, 0), ones(32, 0xFF);
    EXPECT_EQ(detail::crc32c(zeros.data(), 32), 0x8A91'36AAu);
    EXPECT_EQ(detail::crc32c(ones.data(), 32), 0x62A8'AB43u);
    EXPECT_EQ(detail::crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, IsTheSameInHardwareInTablesAndInParts) {
    const std::vector<uint8_t> data = pattern(3, 1000);
    for (size_t bytes = 0; bytes < 200; ++bytes) {
        const uint32_t tables = ~detail::crc_portable(~0u, data.data() + bytes % 7, bytes);
        EXPECT_EQ(detail::crc32c(data.data() + bytes % 7, bytes), tables);
    }
    const uint32_t first = detail::crc32c(data.data(), 333);
    EXPECT_EQ(detail::crc32c(data.data() + 333, 667, first), detail::crc32c(data.data(), 1000));
}

TEST(Geometry, ChoosesWhatTheLayoutPageSays) {
    using detail::Geometry;
    EXPECT_EQ(Geometry::default_slot_count(1), 64u);
    EXPECT_EQ(Geometry::default_slot_count(4096), 64u);
    EXPECT_EQ(Geometry::default_slot_count(4097), 32u);
    EXPECT_EQ(Geometry::default_slot_count(25'920), 9u);
    EXPECT_EQ(Geometry::default_slot_count(65'536), 4u);
    EXPECT_EQ(Geometry::default_slot_count(4'000'000'000), 4u);

    const Geometry small = Geometry::plan(Kind::image, 2, 5000, 1);
    EXPECT_EQ(small.slot_headers_offset, 0x3000u);
    EXPECT_EQ(small.slot_header_stride, 512u);
    EXPECT_EQ(small.payloads_offset, 0x4000u);
    EXPECT_EQ(small.payload_stride, 8192u);
    EXPECT_EQ(small.total_bytes, 0x8000u);

    const Geometry large = Geometry::plan(Kind::points, 4, 6'220'800, 0);
    EXPECT_EQ(large.slot_header_stride, 2048u);
    EXPECT_EQ(large.payloads_offset, 2u << 20);
    EXPECT_EQ(large.total_bytes % (2 << 20), 0u);
    large.check(Kind::points, large.total_bytes);
}

TEST(Options, AreBounded) {
    const auto refused = [](const StreamOptions& options) {
        return code_of([&] { detail::StaticHeader::from_options("a", options); }) == Errc::bad_option;
    };
    EXPECT_TRUE(refused(StreamOptions::bytes(0)));
    EXPECT_TRUE(refused(StreamOptions::bytes(uint64_t{1} << 32)));
    EXPECT_TRUE(refused(StreamOptions::bytes(1).with_slots(1)));
    EXPECT_TRUE(refused(StreamOptions::bytes(1).with_slots(1025)));
    EXPECT_TRUE(refused(StreamOptions::bytes(1).with_topic(std::string(509, 't'))));
    EXPECT_TRUE(refused(StreamOptions::bytes(1).with_topic("\xFF")));
    EXPECT_TRUE(refused(StreamOptions::bytes(1).with_type(std::string(253, 't'), "")));
    EXPECT_TRUE(refused(StreamOptions::bytes(1).with_type("", std::string(61, 'e'))));
    EXPECT_TRUE(refused(StreamOptions::bytes(1).with_schema(std::string(61, 'e'), "")));
    EXPECT_TRUE(refused(StreamOptions::bytes(1).with_schema("", std::string((1 << 20) + 1, 's'))));
    EXPECT_TRUE(refused(StreamOptions::image(70'000, 70'000, 3)));
}

TEST(PixelFormat, KnowsTheEncodingsOfRos) {
    EXPECT_EQ(ImageLayout::of(10, 2, "bgr8").step, 30u);
    EXPECT_EQ(ImageLayout::of(10, 2, "mono16").step, 20u);
    EXPECT_EQ(ImageLayout::of(10, 2, "32FC4").payload_bytes(), 320u);
    for (const char* encoding : {"", "8", "8UC", "8UC0", "8UC1x", "7UC1", "8XC1", "rgb", "8UC9999", "64"})
        EXPECT_EQ(code_of([&] { ImageLayout::of(10, 2, encoding); }), Errc::bad_option) << encoding;
    EXPECT_EQ(code_of([&] { ImageLayout::of(4'000'000'000, 1, "rgb8"); }), Errc::bad_option);
}

}  // namespace
}  // namespace livebag::test
