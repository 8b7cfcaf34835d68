// Spans of points over a slot.

#include "support.hpp"

namespace livebag::test {
namespace {

class Points : public StreamTest {};

TEST_F(Points, AreFilledAndReadInPlace) {
    auto writer = Writer::create(name, StreamOptions::points(1000));
    auto reader = Reader::open(name);
    auto loan = writer.loan();
    const Span<PointXYZ> points = point_span(loan);
    ASSERT_EQ(points.size(), 1000u);
    EXPECT_EQ(static_cast<void*>(points.data()), loan.data());
    for (size_t i = 0; i < 300; ++i) points[i] = {static_cast<float>(i), 2, 3};
    loan.publish({PointsLayout::xyz(300), "lidar"});
    const auto frame = reader.next().frame;
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->size(), 4800u);
    const Span<const PointXYZ> seen = point_span(*frame);
    ASSERT_EQ(seen.size(), 300u);
    EXPECT_EQ(seen[299].x, 299.0f);
    EXPECT_EQ(seen[299].z, 3.0f);
    EXPECT_EQ(seen[299].padding, 1.0f);
    EXPECT_TRUE(frame->validate());
}

TEST_F(Points, OfAnotherLayoutAreRefused) {
    auto writer = Writer::create(name, StreamOptions::points(1000));
    auto reader = Reader::open(name);
    const std::vector<uint8_t> data(1600);
    PointsLayout packed = PointsLayout::xyz(100);
    packed.point_step = 12;
    packed.row_step = 1200;
    PointsLayout renamed = PointsLayout::xyz(100);
    renamed.fields[1].name = "b";
    PointsLayout swapped = PointsLayout::xyz(100);
    swapped.is_bigendian = true;
    for (const PointsLayout& layout : {packed, renamed, swapped}) {
        writer.publish({layout, "lidar"}, data.data(), data.size());
        const auto frame = reader.next().frame;
        EXPECT_EQ(code_of([&] { point_span(*frame); }), Errc::wrong_kind);
    }
    writer.publish({PointsLayout::xyz(101), "lidar"}, data.data(), data.size());
    const auto frame = reader.next().frame;
    EXPECT_EQ(code_of([&] { point_span(*frame); }), Errc::damaged) << "more points than the payload has";
    EXPECT_EQ(code_of([&] { frame->header().image(); }), Errc::wrong_kind);
    EXPECT_EQ(code_of([&] { PointsLayout::xyz(1u << 28); }), Errc::bad_option);
}

}  // namespace
}  // namespace livebag::test
