// The cycle word: what an application stores (docs/cycle-layout.md).

#include <gtest/gtest.h>
#include <livebag/cycle.hpp>

#include <memory>
#include <optional>
#include <string>

#include "support.hpp"

namespace livebag::test {
namespace {

namespace at = detail::cycle_at;

/// A board of this test alone.
class CycleWord : public ::testing::Test {
   protected:
    CycleWord() {
        const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
        board = "test." + std::to_string(::getpid()) + "." + info->name();
        path = "/dev/shm/livebag-cycles." + std::to_string(::geteuid()) + "." + board;
    }
    ~CycleWord() override { ::unlink(path.c_str()); }

    uint64_t word(size_t slot, size_t offset) const {
        const auto bytes = bytes_of(path);
        return detail::load_u64(bytes.data() + at::slots_offset + slot * at::slot_stride + offset);
    }

    std::string board;
    std::string path;
};

TEST_F(CycleWord, CountsBeginsAndEndsInOneWord) {
    auto cycle = Cycle::join("planner", board);
    EXPECT_EQ(word(0, at::epoch) % 4, 2u);
    EXPECT_EQ(word(0, at::name_bytes), 7u);
    cycle.end();
    EXPECT_EQ(word(0, at::transitions), word(0, at::base)) << "nothing had begun";
    for (int i = 0; i < 20; ++i) {
        cycle.begin(3);
        cycle.end();
    }
    cycle.begin(4);
    cycle.begin(5);
    const uint64_t transitions = word(0, at::transitions);
    EXPECT_EQ(transitions - word(0, at::base), 43u) << "21 ends, and a begin that goes on";
    const size_t entry = at::ring + transitions % at::ring_entries * at::entry_bytes;
    EXPECT_EQ(word(0, entry + at::entry_weight), 5u);
    EXPECT_LE(word(0, entry + at::entry_nanos), detail::monotonic_nanos());
}

TEST_F(CycleWord, APlaceIsGivenBackAndTakenAgain) {
    uint64_t epoch = 0;
    {
        auto first = Cycle::join("first", board);
        auto moved = std::move(first);
        moved.begin();
        epoch = word(0, at::epoch);
    }
    EXPECT_EQ(word(0, at::epoch) % 4, 0u);
    auto second = Cycle::join("second", board);
    EXPECT_EQ(word(0, at::epoch) % 4, 2u);
    EXPECT_GT(word(0, at::epoch), epoch);
    EXPECT_EQ(word(0, at::transitions) % 2, 0u);
}

TEST_F(CycleWord, AFullBoardSaysSoAndHasRoomAgain) {
    std::vector<std::optional<Cycle>> all;
    for (size_t i = 0; i < cycle_limits::slots; ++i) all.emplace_back(Cycle::join("one of many", board));
    EXPECT_EQ(code_of([&] { Cycle::join("one too many", board); }), Errc::contended);
    all[20].reset();
    Cycle::join("late", board);
}

TEST_F(CycleWord, RefusesBadNamesAndForeignBoards) {
    EXPECT_EQ(code_of([&] { Cycle::join("", board); }), Errc::bad_name);
    EXPECT_EQ(code_of([&] { Cycle::join(std::string(129, 'x'), board); }), Errc::bad_name);
    EXPECT_EQ(code_of([&] { Cycle::join("planner", "../up"); }), Errc::bad_name);
    put_file(path, std::vector<uint8_t>(20, 'x'));
    EXPECT_EQ(code_of([&] { Cycle::join("planner", board); }), Errc::foreign);
    put_file(path, std::vector<uint8_t>(at::board_bytes, 'x'));
    EXPECT_EQ(code_of([&] { Cycle::join("planner", board); }), Errc::foreign);
    for (const size_t bytes : {size_t{0}, at::board_bytes}) {
        put_file(path, std::vector<uint8_t>(bytes));
        EXPECT_NO_THROW(Cycle::join("planner", board)) << "its maker died before it was done";
    }
    poke_word(path, at::slots_and_stride, 63);
    EXPECT_EQ(code_of([&] { Cycle::join("planner", board); }), Errc::damaged);
}

}  // namespace
}  // namespace livebag::test
