// Clouds of PCL into and out of a slot.

#include <pcl/point_cloud.h>
#include <pcl/point_types.h>

#include "support.hpp"

namespace livebag::test {
namespace {

using Cloud = pcl::PointCloud<pcl::PointXYZ>;

class Pcl : public StreamTest {
   protected:
    static Cloud cloud(uint32_t width, uint32_t height) {
        Cloud made(width, height);
        for (size_t i = 0; i < made.size(); ++i) made[i] = pcl::PointXYZ(static_cast<float>(i), 0.5f, -1);
        made.header.frame_id = "lidar";
        made.header.stamp = 1'700'000'000'123'456;
        return made;
    }
    static bool same_points(const Cloud& a, const Cloud& b) {
        return a.size() == b.size() &&
               std::memcmp(a.points.data(), b.points.data(), a.size() * sizeof(pcl::PointXYZ)) == 0;
    }
};

TEST_F(Pcl, AllBytesOfACloudReturn) {
    auto writer = Writer::create(name, StreamOptions::points(1000));
    auto reader = Reader::open(name);
    for (const auto& [width, height] : {std::pair<uint32_t, uint32_t>{1000, 1}, {31, 17}, {1, 1}, {0, 1}}) {
        Cloud sent = cloud(width, height);
        sent.is_dense = height == 1;
        livebag::publish(writer, sent);
        const auto frame = reader.next().frame;
        ASSERT_TRUE(frame);
        EXPECT_EQ(frame->header().publish_time_nanos, 1'700'000'000'123'456'000u);
        Cloud received;
        EXPECT_TRUE(copy_to(*frame, received));
        EXPECT_TRUE(same_points(received, sent));
        EXPECT_EQ(received.width, sent.width);
        EXPECT_EQ(received.height, sent.height);
        EXPECT_EQ(received.is_dense, sent.is_dense);
        EXPECT_EQ(received.header.frame_id, "lidar");
        EXPECT_EQ(received.header.stamp, sent.header.stamp);
        EXPECT_EQ(received.header.seq, frame->sequence());
    }
}

TEST_F(Pcl, PointsAreFilledAndReadInPlace) {
    auto writer = Writer::create(name, StreamOptions::points(100));
    auto reader = Reader::open(name);
    auto loan = writer.loan();
    const auto points = pcl_span(loan);
    ASSERT_EQ(points.size(), 100u);
    for (size_t i = 0; i < 40; ++i) points[i] = pcl::PointXYZ(1, static_cast<float>(i), 3);
    loan.publish({PointsLayout::xyz(40), "lidar"});
    const auto frame = reader.next().frame;
    ASSERT_EQ(pcl_span(*frame).size(), 40u);
    EXPECT_EQ(pcl_span(*frame)[39].y, 39.0f);
    EXPECT_EQ(point_span(*frame)[39].y, 39.0f) << "the same bytes without PCL";
    EXPECT_TRUE(frame->validate());
}

TEST_F(Pcl, ACloudThatIsTooLargeIsRefused) {
    auto writer = Writer::create(name, StreamOptions::points(10));
    EXPECT_EQ(code_of([&] { livebag::publish(writer, cloud(11, 1)); }), Errc::too_large);
}

}  // namespace
}  // namespace livebag::test
