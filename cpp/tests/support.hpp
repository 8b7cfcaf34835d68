// What several tests need.

#pragma once

#include <gtest/gtest.h>
#include <livebag/stream.hpp>

#include <functional>
#include <string>
#include <vector>

namespace livebag::test {

using namespace std::chrono_literals;

/// Long enough that a machine under load does not fail a test; nothing waits for it when all is well.
constexpr auto patience = 20s;

/// A stream name of this test alone, whose objects are gone before and after it.
class StreamTest : public ::testing::Test {
   protected:
    StreamTest() {
        const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
        name = "test." + std::to_string(::getpid()) + "." + info->test_suite_name() + "." + info->name();
    }
    ~StreamTest() override {
        ::unlink(main_path().c_str());
        ::unlink(wake_path().c_str());
    }

    std::string main_path() const { return "/dev/shm/livebag." + name; }
    std::string wake_path() const { return main_path() + ".wake"; }

    std::string name;
};

/// The code of the error that a call throws.
inline Errc code_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        EXPECT_GT(std::string(error.what()).size(), 20u) << "an error says what was expected and found";
        return error.code();
    }
    ADD_FAILURE() << "expected an error";
    return Errc::system;
}

/// The bytes of frame `k`, as the conformance tools make them.
inline std::vector<uint8_t> pattern(uint64_t k, size_t bytes) {
    std::vector<uint8_t> data(bytes);
    for (size_t at = 0; at < bytes; at += 8) {
        const uint64_t word = k * 0x9E37'79B9'7F4A'7C15u + at / 8;
        std::memcpy(data.data() + at, &word, std::min<size_t>(8, bytes - at));
    }
    return data;
}

/// Overwrites bytes of an object, as damage or a dying writer would.
inline void poke(const std::string& path, uint64_t offset, const void* data, size_t bytes) {
    const detail::Descriptor object = detail::open_object(path, O_RDWR);
    ASSERT_TRUE(object) << path;
    ASSERT_EQ(::pwrite(object.number(), data, bytes, static_cast<off_t>(offset)), static_cast<ssize_t>(bytes));
}
inline void poke_word(const std::string& path, uint64_t offset, uint64_t value) { poke(path, offset, &value, 8); }

inline std::vector<uint8_t> bytes_of(const std::string& path) {
    const detail::Descriptor object = detail::open_object(path, O_RDONLY);
    std::vector<uint8_t> data(static_cast<size_t>(detail::status_of(object, path).st_size));
    EXPECT_EQ(::pread(object.number(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
    return data;
}

/// Puts a file in the place of an object.
inline void put_file(const std::string& path, const std::vector<uint8_t>& data) {
    ::unlink(path.c_str());
    const detail::Descriptor object = detail::open_object(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_TRUE(object) << path;
    ASSERT_EQ(::pwrite(object.number(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
}

}  // namespace livebag::test
