// The slot protocol on plain memory: step by step, and with threads (the part that ThreadSanitizer sees).

#include <atomic>
#include <thread>

#include "support.hpp"

namespace livebag::test {
namespace {

using detail::ConstSlot;
using detail::Outcome;
using detail::Slot;

constexpr size_t payload_bytes_max = 3 * limits::piece_bytes;

/// Two slots in the memory of this process.
class Slots {
   public:
    Slot slot(uint64_t k) {
        return {headers_.data() + k % 2 * detail::slot_at::header_bytes_max, payloads_.data() + k % 2 * payload_bytes_max};
    }
    ConstSlot look(uint64_t k) {
        const Slot at = slot(k);
        return {at.header, at.payload};
    }
    /// The step of a fill before its payload.
    uint64_t begin(uint64_t k, size_t bytes) {
        const uint64_t attempt = detail::begin_fill(slot(k), k);
        header_.encode({}, Kind::bytes, bytes, k);
        header_.store(slot(k));
        return attempt;
    }
    void fill(uint64_t k, size_t bytes) {
        const std::vector<uint8_t> data = pattern(k, bytes);
        const uint64_t attempt = begin(k, bytes);
        detail::fill_by_copy(slot(k), attempt, data.data(), bytes, false);
        detail::finish_fill(slot(k), k);
    }

   private:
    struct alignas(64) Line {
        uint8_t bytes[64];
    };
    template <size_t Bytes>
    struct Area {
        uint8_t* data() { return lines[0].bytes; }
        std::vector<Line> lines = std::vector<Line>(Bytes / 64 + 1);
    };
    Area<2 * detail::slot_at::header_bytes_max> headers_;
    Area<2 * payload_bytes_max> payloads_;
    detail::HeaderImage header_;
};

struct Attempt {
    Outcome outcome;
    FrameHeader frame;
    std::vector<uint8_t> data;
};

template <class Between = detail::Nothing>
Attempt copy(Slots& slots, uint64_t k, Between between = {}) {
    Attempt made{};
    made.outcome =
        detail::copy_frame(slots.look(k), k, Kind::bytes, payload_bytes_max, made.data, made.frame, between);
    return made;
}

template <class Between = detail::Nothing>
Attempt along(Slots& slots, uint64_t k, Between between = {}) {
    Attempt made{};
    made.outcome =
        detail::copy_along(slots.look(k), k, Kind::bytes, payload_bytes_max, made.data, made.frame, between);
    return made;
}

TEST(Slot, ReadsWhatWasFilled) {
    Slots slots;
    EXPECT_EQ(copy(slots, 1).outcome, Outcome::not_yet);
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{65}, size_t{1000}, payload_bytes_max}) {
        Slots fresh;
        fresh.fill(1, bytes);
        const Attempt made = copy(fresh, 1);
        ASSERT_EQ(made.outcome, Outcome::whole);
        EXPECT_EQ(made.frame.sequence, 1u);
        EXPECT_EQ(made.frame.payload_bytes, bytes);
        EXPECT_EQ(made.data, pattern(1, bytes));
    }
}

TEST(Slot, IsNotThereWhileItIsFilled) {
    Slots slots;
    slots.fill(1, 100);
    slots.begin(3, 100);
    EXPECT_EQ(copy(slots, 3).outcome, Outcome::not_yet);
    EXPECT_EQ(copy(slots, 1).outcome, Outcome::overtaken);
}

TEST(Slot, ATornCopyIsNoticed) {
    Slots slots;
    slots.fill(1, 100'000);
    EXPECT_EQ(copy(slots, 1, [&] { slots.begin(3, 10); }).outcome, Outcome::overtaken);
    slots.fill(3, 100'000);
    EXPECT_EQ(copy(slots, 3, [&] { slots.fill(5, 100'000); }).outcome, Outcome::overtaken);
}

TEST(Slot, AFrameGivenUpIsFilledAgain) {
    Slots slots;
    slots.begin(1, 100);
    slots.fill(1, 200);
    EXPECT_EQ(copy(slots, 1).data, pattern(1, 200));
}

/// What the writer does while somebody copies along, after the first piece.
struct Filler {
    Slots& slots;
    size_t bytes;
    uint64_t attempt;
    std::vector<uint8_t> data;

    Filler(Slots& all, size_t count) : slots(all), bytes(count), attempt(all.begin(1, count)), data(pattern(1, count)) {
        move(0, limits::piece_bytes);
    }
    void move(size_t from, size_t to) {
        detail::copy_to_shared(slots.slot(1).payload + from, data.data() + from, to - from);
        detail::store_release(slots.slot(1).header, detail::slot_at::progress, attempt | to);
    }
};

TEST(CopyAlong, FollowsTheWriter) {
    for (const size_t bytes : {payload_bytes_max, limits::piece_bytes + 1, 2 * limits::piece_bytes - 3}) {
        Slots slots;
        Filler filler(slots, bytes);
        const Attempt made = along(slots, 1, [&] {
            filler.move(limits::piece_bytes, bytes);
            detail::finish_fill(slots.slot(1), 1);
        });
        ASSERT_EQ(made.outcome, Outcome::whole);
        EXPECT_EQ(made.data, pattern(1, bytes));
    }
}

TEST(CopyAlong, ReadsAFrameThatIsCompleteAlready) {
    Slots slots;
    slots.fill(1, 12'345);
    EXPECT_EQ(along(slots, 1).data, pattern(1, 12'345));
}

TEST(CopyAlong, GivesUpOnAWriterThatStops) {
    Slots slots;
    Filler filler(slots, payload_bytes_max);
    EXPECT_EQ(along(slots, 1).outcome, Outcome::not_yet);
}

TEST(CopyAlong, NoticesAFillThatWasDoneAgain) {
    Slots slots;
    Filler filler(slots, payload_bytes_max);
    EXPECT_EQ(along(slots, 1, [&] { slots.fill(1, payload_bytes_max); }).outcome, Outcome::not_yet);
}

TEST(CopyAlong, NoticesALaterFrame) {
    Slots slots;
    Filler filler(slots, payload_bytes_max);
    const Attempt made = along(slots, 1, [&] {
        filler.move(limits::piece_bytes, payload_bytes_max);
        detail::finish_fill(slots.slot(1), 1);
        detail::begin_fill(slots.slot(3), 3);
    });
    EXPECT_NE(made.outcome, Outcome::whole);
}

TEST(Slot, NoThreadEverSeesATornFrame) {
    constexpr uint64_t frames = 3000;
    constexpr size_t bytes = 20'001;
    Slots slots;
    std::atomic<uint64_t> latest{0};
    std::atomic<uint64_t> whole{0};
    std::atomic<uint64_t> torn{0};
    const auto read = [&](bool follow) {
        while (const uint64_t k = std::min(latest.load() + (follow ? 1 : 0), frames)) {
            const Attempt made = follow ? along(slots, k) : copy(slots, k);
            if (made.outcome == Outcome::whole) {
                ++whole;
                if (made.data != pattern(k, bytes)) ++torn;
            }
            if (latest.load() == frames) break;
        }
    };
    slots.fill(1, bytes);
    latest = 1;
    std::thread copying(read, false), following(read, true);
    for (uint64_t k = 2; k <= frames; ++k) {
        slots.fill(k, bytes);
        latest = k;
    }
    copying.join();
    following.join();
    EXPECT_EQ(copy(slots, frames).data, pattern(frames, bytes));
    EXPECT_EQ(torn, 0u);
}

}  // namespace
}  // namespace livebag::test
