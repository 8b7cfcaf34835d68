// A detector that works on every frame of a camera in place. Four lines are livebag's.
//
//     detector [STREAM [FRAMES]]

#include <livebag/stream.hpp>

#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>

namespace {

double brightness(const uint8_t* pixels, uint64_t bytes) {
    return static_cast<double>(std::accumulate(pixels, pixels + bytes, uint64_t{0})) / static_cast<double>(bytes);
}

int detect(const std::string& name, uint64_t frames) {
    auto reader = livebag::Reader::open(name, std::chrono::seconds(10));  // 1
    uint64_t seen = 0, missed = 0;
    while (seen < frames && reader.wait(std::chrono::seconds(2))) {       // 2
        const livebag::Next next = reader.next();                         // 3
        missed += next.lapped;
        if (!next.frame) continue;
        const double mean = brightness(next.frame->data(), next.frame->size());
        if (!next.frame->validate()) {                                    // 4: overtaken while we looked
            ++missed;
            continue;
        }
        if (++seen % 30 == 0)
            std::printf("frame %llu of %s: brightness %.1f\n",
                        static_cast<unsigned long long>(next.frame->sequence()),
                        next.frame->header().frame_id.c_str(), mean);
    }
    std::printf("seen %llu, missed %llu\n", static_cast<unsigned long long>(seen),
                static_cast<unsigned long long>(missed));
    return seen > 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** values) try {
    return detect(count > 1 ? values[1] : "camera_front", count > 2 ? std::stoull(values[2]) : 300);
} catch (const std::exception& error) {
    std::fprintf(stderr, "detector: %s\n", error.what());
    return 1;
}
