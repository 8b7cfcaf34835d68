// cv::Mat over a slot.

#include <livebag/stream.hpp>
#include <opencv2/core.hpp>

#include "support.hpp"

namespace livebag::test {
namespace {

class OpenCv : public StreamTest {
   protected:
    static bool equal(const cv::Mat& a, const cv::Mat& b) {
        return a.size() == b.size() && a.type() == b.type() && cv::norm(a, b, cv::NORM_INF) == 0;
    }
    static cv::Mat noise(int rows, int cols, int type) {
        cv::Mat made(rows, cols, type);
        cv::randu(made, 0, 200);
        return made;
    }
};

TEST_F(OpenCv, AMatrixOverALoanIsTheSlot) {
    auto writer = Writer::create(name, StreamOptions::image(641, 37, 3));
    auto reader = Reader::open(name);
    const auto layout = ImageLayout::of(641, 37, "bgr8");
    const cv::Mat wanted = noise(37, 641, CV_8UC3);
    auto loan = writer.loan();
    cv::Mat slot = cv_mat(loan, layout);
    EXPECT_EQ(slot.data, loan.data());
    wanted.copyTo(slot);
    EXPECT_EQ(slot.data, loan.data()) << "copyTo must not have moved the matrix";
    loan.publish({layout, "camera"});

    const auto frame = reader.next().frame;
    const cv::Mat view = cv_mat(*frame);
    EXPECT_EQ(view.data, frame->data());
    EXPECT_TRUE(equal(view, wanted));
    EXPECT_TRUE(frame->validate());
    cv::Mat copy;
    EXPECT_TRUE(copy_to(*frame, copy));
    EXPECT_TRUE(equal(copy, wanted));
}

TEST_F(OpenCv, EveryTypeGoesThere) {
    const struct {
        const char* encoding;
        int type;
    } cases[] = {{"mono8", CV_8UC1},  {"rgb8", CV_8UC3},   {"bgra8", CV_8UC4},   {"mono16", CV_16UC1},
                 {"16SC2", CV_16SC2}, {"32SC1", CV_32SC1}, {"32FC1", CV_32FC1},  {"64FC3", CV_64FC3},
                 {"8SC1", CV_8SC1},   {"8UC5", CV_8UC(5)}, {"bayer_rggb8", CV_8UC1}};
    for (const auto& one : cases) {
        EXPECT_EQ(cv_type(one.encoding), one.type) << one.encoding;
        auto writer = Writer::create(name, StreamOptions::image(33, 9, static_cast<uint32_t>(CV_ELEM_SIZE(one.type))));
        auto reader = Reader::open(name);
        reader.seek(1);
        const cv::Mat wanted = noise(9, 33, one.type);
        publish(writer, wanted, one.encoding, "camera");
        const auto frame = reader.next().frame;
        EXPECT_EQ(frame->header().image(), ImageLayout::of(33, 9, one.encoding));
        EXPECT_TRUE(equal(cv_mat(*frame), wanted)) << one.encoding;
        writer.close_and_remove();
    }
    for (const char* encoding : {"32UC1", "64SC1", "16FC1", "jpeg"})
        EXPECT_EQ(code_of([&] { cv_type(encoding); }), Errc::bad_option) << encoding;
}

TEST_F(OpenCv, RowsWithGaps) {
    auto writer = Writer::create(name, StreamOptions::image(100, 50, 3));
    auto reader = Reader::open(name);
    const cv::Mat whole = noise(50, 100, CV_8UC3);
    const cv::Mat part = whole(cv::Rect(3, 5, 31, 7));
    publish(writer, part, "rgb8", "camera");
    auto frame = reader.next().frame;
    EXPECT_EQ(frame->header().image().step, 93u);
    EXPECT_TRUE(equal(cv_mat(*frame), part));

    const ImageLayout padded{31, 7, 128, "rgb8", false};
    auto loan = writer.loan();
    part.copyTo(cv_mat(loan, padded));
    loan.publish({padded, "camera"});
    frame = reader.next().frame;
    cv::Mat copy;
    EXPECT_TRUE(copy_to(*frame, copy));
    EXPECT_TRUE(equal(copy, part));
}

TEST_F(OpenCv, AnImageThatLeavesItsPayloadIsRefused) {
    auto writer = Writer::create(name, StreamOptions::image(10, 10, 1));
    auto reader = Reader::open(name);
    {
        auto loan = writer.loan();
        EXPECT_EQ(code_of([&] { cv_mat(loan, ImageLayout::of(11, 10, "mono8")); }), Errc::too_large);
        EXPECT_EQ(code_of([&] { cv_mat(loan, ImageLayout{10, 10, 9, "mono8", false}); }), Errc::too_large);
    }
    const std::vector<uint8_t> data(100);
    writer.publish({ImageLayout::of(10, 11, "mono8"), ""}, data.data(), data.size());
    const auto frame = reader.next().frame;
    EXPECT_EQ(code_of([&] { cv_mat(*frame); }), Errc::too_large);
    EXPECT_EQ(code_of([&] { publish(writer, cv::Mat(5, 5, CV_8UC3), "mono8", ""); }), Errc::wrong_kind);
}

}  // namespace
}  // namespace livebag::test
