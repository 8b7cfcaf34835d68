// Uses of the installed headers that need nothing but the target that was linked.

#include <livebag/stream.hpp>
#include <unistd.h>

int main() {
    const std::string name = "ros_consumer." + std::to_string(::getpid());
#ifdef WITH_PCL
    auto writer = livebag::Writer::create(name, livebag::StreamOptions::points(10));
    livebag::publish(writer, pcl::PointCloud<pcl::PointXYZ>(5, 2));
#else
    auto writer = livebag::Writer::create(name, livebag::StreamOptions::image(8, 4, 1));
    auto loan = writer.loan();
    const auto layout = livebag::ImageLayout::of(8, 4, "mono8");
#ifdef WITH_OPENCV
    livebag::cv_mat(loan, layout).setTo(7);
#else
    std::memset(loan.data(), 7, layout.payload_bytes());
#endif
    loan.publish({layout, "camera"});
#endif
    const bool is_there = livebag::Reader::open(name).latest_sequence() == 1;
    writer.close_and_remove();
    return is_there ? 0 : 1;
}
