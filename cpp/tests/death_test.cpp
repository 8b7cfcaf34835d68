// Re-attachment, and death at every step.

#include <signal.h>
#include <sys/wait.h>

#include "support.hpp"

namespace livebag::test {
namespace {

class Death : public StreamTest {
   protected:
    static StreamOptions options() { return StreamOptions::bytes(100'000).with_slots(2); }

    static uint64_t publish(Writer& writer) {
        const std::vector<uint8_t> data = pattern(writer.latest_sequence() + 1, 100'000);
        return writer.publish({}, data.data(), data.size());
    }

    /// Runs a process that kills itself at the end of `act`.
    static void die_after(const std::function<void()>& act) {
        const pid_t child = ::fork();
        if (child == 0) {
            act();
            ::kill(::getpid(), SIGKILL);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }

    uint64_t slot_word(uint64_t k, size_t at) const {
        const auto geometry = detail::Geometry::plan(Kind::bytes, 2, 100'000, 0);
        return detail::get<uint64_t>(bytes_of(main_path()).data(), geometry.slot_header_offset(k) + at);
    }

    /// After a death with frames 1 to `latest` complete: everything but the frame in flight goes on.
    void expect_goes_on(uint64_t latest) {
        auto reader = Reader::open(name);
        EXPECT_EQ(reader.liveness(patience), Liveness::gone);
        std::vector<uint8_t> data;
        auto writer = Writer::create(name, options());
        EXPECT_EQ(writer.epoch(), 2u);
        EXPECT_EQ(reader.latest_sequence(), latest);
        if (latest > 0) {
            ASSERT_EQ(reader.copy_latest(data)->sequence, latest);
            EXPECT_EQ(data, pattern(latest, 100'000));
        }
        EXPECT_EQ(reader.liveness(patience), Liveness::live);
        for (uint64_t k = latest + 1; k <= latest + 3; ++k) {
            EXPECT_EQ(publish(writer), k);
            ASSERT_EQ(reader.copy_latest(data)->sequence, k);
            EXPECT_EQ(data, pattern(k, 100'000));
        }
        EXPECT_FALSE(reader.replaced());
    }
};

TEST_F(Death, AWriterThatEndsIsFollowedByTheNext) {
    auto first = Writer::create(name, options());
    for (int i = 0; i < 3; ++i) publish(first);
    const uint64_t instance = first.info().instance;
    first.close();
    expect_goes_on(3);
    EXPECT_EQ(Reader::open(name).info().instance, instance);
}

TEST_F(Death, OtherOptionsReplaceTheStream) {
    using Change = std::function<void(StreamOptions&)>;
    const Change changes[] = {
        [](StreamOptions& o) { o.slots = 3; },
        [](StreamOptions& o) { o.payload_bytes_max = 99'999; },
        [](StreamOptions& o) { o.kind = Kind::image; },
        [](StreamOptions& o) { o.topic = "/other"; },
        [](StreamOptions& o) { o.type_name = "other"; },
        [](StreamOptions& o) { o.message_encoding = "other"; },
        [](StreamOptions& o) { o.schema_encoding = "other"; },
        [](StreamOptions& o) { o.schema = "other"; },
        [](StreamOptions& o) { o.checksum = true; },
    };
    for (const Change& change : changes) {
        auto first = Writer::create(name, options());
        publish(first);
        first.close();
        auto reader = Reader::open(name);
        StreamOptions other = options();
        change(other);
        auto second = Writer::create(name, other);
        EXPECT_TRUE(reader.replaced());
        EXPECT_NE(second.info().instance, first.info().instance);
        EXPECT_EQ(second.latest_sequence(), 0u);
        std::vector<uint8_t> data;
        EXPECT_EQ(reader.copy_latest(data)->sequence, 1u) << "the old mapping stays readable";
        second.close_and_remove();
    }
}

TEST_F(Death, OneLiveWriterPerName) {
    const auto writer = Writer::create(name, options());
    try {
        Writer::create(name, options());
        FAIL() << "expected an error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::live_writer);
        EXPECT_NE(std::string(error.what()).find(std::to_string(::getpid())), std::string::npos) << error.what();
    }
}

TEST_F(Death, InsideALoan) {
    die_after([&] {
        auto writer = Writer::create(name, options());
        for (int i = 0; i < 3; ++i) publish(writer);
        auto loan = writer.loan();
        std::memset(loan.data(), 0xEE, 50'000);
        ::kill(::getpid(), SIGKILL);
    });
    EXPECT_EQ(slot_word(4, detail::slot_at::lock), 7u);
    expect_goes_on(3);
}

TEST_F(Death, InsideACopy) {
    die_after([&] {
        auto writer = Writer::create(name, options());
        publish(writer);
        // The second half of the source is not mapped: the copy dies in the middle.
        void* const half = ::mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ::mprotect(half, 80 << 10, PROT_READ | PROT_WRITE);
        ::signal(SIGSEGV, [](int) { ::kill(::getpid(), SIGKILL); });
        writer.publish({}, half, 100'000);
    });
    EXPECT_EQ(slot_word(2, detail::slot_at::lock), 3u);
    EXPECT_EQ(slot_word(2, detail::slot_at::progress) & detail::progress_mask, limits::piece_bytes);
    expect_goes_on(1);
}

TEST_F(Death, BetweenTheSlotAndTheAnnouncement) {
    die_after([&] {
        auto writer = Writer::create(name, options());
        for (int i = 0; i < 5; ++i) publish(writer);
        poke_word(main_path(), detail::live_at::latest, 4);
        poke_word(main_path(), detail::live_at::begun, 4);
    });
    expect_goes_on(5);
}

TEST_F(Death, BeforeTheFirstFrame) {
    die_after([&] { Writer::create(name, options()); });
    expect_goes_on(0);
}

TEST_F(Death, WhileTheStreamIsBeingMade) {
    for (const size_t bytes : {size_t{0}, size_t{100}, size_t{4096}, size_t{1} << 20}) {
        put_file(main_path(), std::vector<uint8_t>(bytes));
        if (bytes == 0 || bytes >= 0x3000) {
            EXPECT_EQ(code_of([&] { Reader::open(name); }), Errc::being_made);
        }
        auto writer = Writer::create(name, options());
        EXPECT_EQ(publish(writer), 1u);
        writer.close_and_remove();
    }
}

TEST_F(Death, AReaderThatDiesCostsNothing) {
    auto writer = Writer::create(name, options());
    publish(writer);
    die_after([&] {
        auto reader = Reader::open(name);
        const auto frame = reader.borrow_latest();
        reader.wait_after(5, 1ms);
        ::kill(::getpid(), SIGKILL);
    });
    for (uint64_t k = 2; k < 10; ++k) EXPECT_EQ(publish(writer), k);
}

TEST_F(Death, ContradictorySlotsAreReplaced) {
    auto first = Writer::create(name, options());
    for (int i = 0; i < 3; ++i) publish(first);
    first.close();
    poke_word(main_path(), detail::Geometry::plan(Kind::bytes, 2, 100'000, 0).slot_header_offset(1), 2000);
    auto reader = Reader::open(name);
    auto second = Writer::create(name, options());
    EXPECT_EQ(second.epoch(), 1u);
    EXPECT_EQ(publish(second), 1u);
    EXPECT_TRUE(reader.replaced());
}

}  // namespace
}  // namespace livebag::test
