// Waiting, waking, liveness, the event descriptor.

#include <poll.h>

#include <thread>

#include "support.hpp"

namespace livebag::test {
namespace {

class Waiting : public StreamTest {
   protected:
    uint64_t publish(size_t bytes = 100) {
        const std::vector<uint8_t> data = pattern(writer.latest_sequence() + 1, bytes);
        return writer.publish({}, data.data(), data.size());
    }

    Writer writer = Writer::create(name, StreamOptions::bytes(1 << 20).with_slots(2));
    Reader reader = Reader::open(name);
};

TEST_F(Waiting, EndsAtTheTimeout) {
    EXPECT_FALSE(reader.wait(0s));
    EXPECT_FALSE(reader.wait(-5s));
    EXPECT_FALSE(reader.wait(2ms));
    EXPECT_FALSE(reader.wait(1ms, Wait::spin));
    std::vector<uint8_t> data;
    EXPECT_FALSE(reader.receive(data, 2ms));
}

TEST_F(Waiting, ReturnsAtOnceForAFrameThatIsThere) {
    publish();
    EXPECT_TRUE(reader.wait(0s));
    EXPECT_TRUE(reader.wait_after(0, 0s));
    EXPECT_FALSE(reader.wait_after(1, 0s));
    reader.next();
    EXPECT_FALSE(reader.wait(0s));
}

TEST_F(Waiting, AWriterWakesSleepers) {
    for (const Wait way : {Wait::futex, Wait::spin}) {
        for (int i = 0; i < 50; ++i) {
            const uint64_t after = writer.latest_sequence();
            std::thread other([&] { publish(); });
            EXPECT_TRUE(reader.wait_after(after, std::chrono::nanoseconds::max(), way));
            other.join();
        }
    }
}

TEST_F(Waiting, ASleeperRaisesTheWordThatTheWriterLooksAt) {
    reader.wait(1ms);
    const auto page = bytes_of(wake_path());
    EXPECT_EQ(detail::get<uint64_t>(page.data(), detail::wake_at::wanted_latest), 1u);
    EXPECT_EQ(detail::get<uint64_t>(page.data(), detail::wake_at::wanted_begun), 0u);
    std::vector<uint8_t> data;
    reader.receive(data, 1ms);
    EXPECT_EQ(detail::get<uint64_t>(bytes_of(wake_path()).data(), detail::wake_at::wanted_begun), 1u);
}

TEST_F(Waiting, WithoutAWakeObjectAReaderPolls) {
    ASSERT_EQ(::unlink(wake_path().c_str()), 0);
    Reader napping = Reader::open(name);
    std::thread other([&] { publish(); });
    EXPECT_TRUE(napping.wait(patience));
    other.join();
}

TEST_F(Waiting, ANewWakeObjectIsFoundAfterAReattachment) {
    ASSERT_EQ(::unlink(wake_path().c_str()), 0);
    Reader early = Reader::open(name);
    writer.close();
    writer = Writer::create(name, StreamOptions::bytes(1 << 20).with_slots(2));
    early.wait(1ms);
    EXPECT_EQ(detail::get<uint64_t>(bytes_of(wake_path()).data(), detail::wake_at::wanted_latest), 1u);
}

TEST_F(Waiting, ReceiveCopiesAlong) {
    constexpr uint64_t frames = 200;
    std::thread other([&] {
        for (uint64_t k = 1; k <= frames; ++k) publish((1 << 20) - k);
    });
    std::vector<uint8_t> data;
    uint64_t last = 0;
    while (last < frames) {
        const auto frame = reader.receive(data, patience);
        ASSERT_TRUE(frame);
        EXPECT_GT(frame->sequence, last);
        last = frame->sequence;
        ASSERT_EQ(data, pattern(last, (1 << 20) - last));
    }
    other.join();
    EXPECT_FALSE(reader.receive(data, 0s));
}

TEST_F(Waiting, ReceiveTakesLoansToo) {
    auto loan = writer.loan();
    std::thread other([&] { loan.publish({}, 5); });
    std::vector<uint8_t> data;
    const auto frame = reader.receive(data, patience);
    other.join();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->payload_bytes, 5u);
}

TEST_F(Waiting, OpenWaitsForAStreamThatIsNotThereYet) {
    const std::string later = name + ".later";
    EXPECT_EQ(code_of([&] { Reader::open(later, 2ms); }), Errc::not_found);
    std::optional<Writer> made;
    std::thread other([&] { made = Writer::create(later, StreamOptions::bytes(1)); });
    EXPECT_EQ(Reader::open(later, patience).info().name, later);
    other.join();
    made->close_and_remove();
}

bool readable(const Event& event, std::chrono::milliseconds timeout) {
    struct pollfd wish {event.descriptor(), POLLIN, 0};
    return ::poll(&wish, 1, static_cast<int>(timeout.count())) == 1;
}

TEST_F(Waiting, AnEventLoopCanHoldIt) {
    const auto event = reader.event();
    EXPECT_FALSE(readable(*event, 0ms));
    for (uint64_t k = 1; k <= 3; ++k) {
        publish();
        ASSERT_TRUE(readable(*event, patience));
        event->clear();
        EXPECT_EQ(reader.next().frame->sequence(), k);
    }
    event->clear();
    EXPECT_FALSE(readable(*event, 0ms));
}

TEST_F(Waiting, ReadersKnowHowTheirWriterIs) {
    publish();
    EXPECT_EQ(reader.liveness(patience), Liveness::live);
    EXPECT_EQ(reader.liveness(0s), Liveness::stalled);
    writer.heartbeat();
    EXPECT_EQ(reader.liveness(patience), Liveness::live);
    writer.close();
    EXPECT_EQ(reader.liveness(patience), Liveness::gone);
    std::vector<uint8_t> data;
    EXPECT_EQ(reader.copy_latest(data)->sequence, 1u) << "the last frames of a writer that ended stay readable";
}

TEST_F(Waiting, AReplacedStreamEndsTheWait) {
    writer.close();
    std::thread other([&] { writer = Writer::create(name, StreamOptions::bytes(5)); });
    EXPECT_FALSE(reader.wait(std::chrono::nanoseconds::max()));
    other.join();
    EXPECT_TRUE(reader.replaced());
    EXPECT_EQ(reader.liveness(patience), Liveness::gone);
    EXPECT_EQ(Reader::open(name).info().payload_bytes_max, 5u);
}

}  // namespace
}  // namespace livebag::test
