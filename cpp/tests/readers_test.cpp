// The table of readers, whose contents can do no harm.

#include <fcntl.h>

#include "support.hpp"

namespace livebag::test {
namespace {

class Readers : public StreamTest {
   protected:
    void publish(int frames) {
        for (int i = 0; i < frames; ++i) {
            const std::vector<uint8_t> data = pattern(writer.latest_sequence() + 1, 64);
            writer.publish({}, data.data(), data.size());
        }
    }
    std::vector<ReaderInfo> shown() const { return Reader::open(name).readers().value(); }

    Writer writer = Writer::create(name, StreamOptions::bytes(64).with_slots(4));
};

TEST_F(Readers, AreShownFromTheirFirstLookUntilTheyEnd) {
    {
        Reader reader = Reader::open(name);
        reader.labelled("detector");
        EXPECT_TRUE(shown().empty());
        EXPECT_FALSE(reader.next().frame);
        ASSERT_EQ(shown().size(), 1u);
        EXPECT_EQ(shown()[0].label, "detector");
        EXPECT_EQ(shown()[0].pid, static_cast<uint32_t>(::getpid()));
        EXPECT_GT(shown()[0].start_ticks, 0u);
        EXPECT_FALSE(shown()[0].idle_nanos);
        publish(10);
        EXPECT_EQ(shown()[0].behind, 10u);
        while (reader.next().frame) {
        }
        const ReaderInfo seen = shown()[0];
        EXPECT_EQ(seen.taken, 4u);
        EXPECT_EQ(seen.lapped, 6u);
        EXPECT_EQ(seen.last_sequence, 10u);
        EXPECT_EQ(seen.behind, 0u);
        EXPECT_TRUE(seen.idle_nanos);
    }
    EXPECT_TRUE(shown().empty());
}

TEST_F(Readers, CountAFrameOnceInEveryWay) {
    publish(1);
    Reader copies = Reader::open(name), borrows = Reader::open(name), receives = Reader::open(name);
    Reader orders = Reader::open(name);
    for (Reader* reader : {&receives, &orders}) reader->seek(1);
    std::vector<uint8_t> data;
    for (int round = 0; round < 3; ++round) {
        // The first frame is one from before they came.
        if (round > 0) publish(1);
        for (int again = 0; again < 2; ++again) {
            copies.copy_latest(data);
            borrows.borrow_latest();
            receives.receive(data, 0s);
            orders.copy_next(data);
        }
    }
    ASSERT_EQ(shown().size(), 4u);
    for (const ReaderInfo& reader : shown()) {
        EXPECT_EQ(reader.taken, 3u);
        EXPECT_EQ(reader.last_sequence, 3u);
        EXPECT_EQ(reader.lapped, 0u);
    }
}

TEST_F(Readers, HaveNamesCopiesAndTheRightNotToBeShown) {
    Reader reader = Reader::open(name);
    reader.next();
    EXPECT_FALSE(shown()[0].label.empty());
    reader.labelled("ein sehr langer Name, viel zu l\u00e4nger").next();
    ASSERT_EQ(shown().size(), 1u);
    EXPECT_EQ(shown()[0].label, "ein sehr langer Name, viel zu l");
    Reader copy = reader;
    EXPECT_EQ(shown().size(), 1u);
    copy.next();
    EXPECT_EQ(shown().size(), 2u);
    const auto event = reader.event();
    Reader hidden = Reader::open(name);
    hidden.unlisted().next();
    EXPECT_EQ(shown().size(), 2u);
    Reader moved = std::move(copy);
    EXPECT_EQ(shown().size(), 2u);
}

TEST_F(Readers, AreServedWhenTheTableIsFull) {
    std::vector<Reader> readers(33, Reader::open(name));
    publish(1);
    for (Reader& reader : readers) EXPECT_TRUE((reader.seek(1), reader.next().frame));
    EXPECT_EQ(shown().size(), 30u);
    readers.erase(readers.begin() + 1, readers.end());
    EXPECT_EQ(shown().size(), 1u);
}

TEST_F(Readers, AreNotHarmedByNonsenseInTheTable) {
    Reader reader = Reader::open(name);
    reader.next();
    for (int round = 0; round < 50; ++round) {
        std::vector<uint8_t> noise(30 * 128, static_cast<uint8_t>(round % 2 == 0 ? 0xFF : 37 * round));
        poke(wake_path(), 0x100, noise.data(), noise.size());
        for (const ReaderInfo& seen : shown()) EXPECT_LE(seen.label.size(), 32u);
        publish(1);
        const Next next = reader.next();
        EXPECT_EQ(next.lapped, 0u);
        EXPECT_EQ(next.frame->sequence(), static_cast<uint64_t>(round) + 1);
    }
}

}  // namespace
}  // namespace livebag::test
