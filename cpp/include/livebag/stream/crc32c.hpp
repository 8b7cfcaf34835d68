// CRC-32C (Castagnoli): SSE4.2 or ARMv8 instructions where the CPU has them, tables elsewhere.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace livebag::detail {

inline uint64_t load_u64(const void* from) {
    uint64_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

/// Slicing by 8 (Kounavis and Berry, 2005): table k advances a byte over k more zero bytes.
inline const CrcTables& crc_tables() {
    static const CrcTables tables = [] {
        CrcTables made{};
        for (uint32_t byte = 0; byte < 256; ++byte) {
            uint32_t value = byte;
            for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (0x82F63B78u & (0u - (value & 1u)));
            made[0][byte] = value;
        }
        for (size_t k = 1; k < 8; ++k)
            for (size_t byte = 0; byte < 256; ++byte)
                made[k][byte] = (made[k - 1][byte] >> 8) ^ made[0][made[k - 1][byte] & 0xFF];
        return made;
    }();
    return tables;
}

inline uint32_t crc_portable(uint32_t crc, const uint8_t* data, size_t bytes) {
    const CrcTables& table = crc_tables();
    for (; bytes >= 8; data += 8, bytes -= 8) {
        const uint64_t word = load_u64(data) ^ crc;
        crc = 0;
        for (size_t k = 0; k < 8; ++k) crc ^= table[7 - k][(word >> (8 * k)) & 0xFF];
    }
    for (; bytes > 0; ++data, --bytes) crc = (crc >> 8) ^ table[0][(crc ^ *data) & 0xFF];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) inline uint32_t crc_hardware(uint32_t crc, const uint8_t* data, size_t bytes) {
    uint64_t wide = crc;
    for (; bytes >= 8; data += 8, bytes -= 8) wide = _mm_crc32_u64(wide, load_u64(data));
    auto narrow = static_cast<uint32_t>(wide);
    for (; bytes > 0; ++data, --bytes) narrow = _mm_crc32_u8(narrow, *data);
    return narrow;
}
inline bool crc_in_hardware() {
    static const bool available = __builtin_cpu_supports("sse4.2") != 0;
    return available;
}
#elif defined(__aarch64__)
// Written as assembly because <arm_acle.h> of clang before 16 hides the intrinsics from functions
// that enable the extension for themselves.
inline uint32_t crc_hardware(uint32_t crc, const uint8_t* data, size_t bytes) {
    for (; bytes >= 8; data += 8, bytes -= 8)
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(load_u64(data)));
    for (; bytes > 0; ++data, --bytes)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(uint32_t{*data}));
    return crc;
}
inline bool crc_in_hardware() {
    static const bool available = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
    return available;
}
#else
inline uint32_t crc_hardware(uint32_t crc, const uint8_t* data, size_t bytes) {
    return crc_portable(crc, data, bytes);
}
inline bool crc_in_hardware() { return false; }
#endif

/// CRC-32C of bytes that follow those of which `so_far` is the CRC (0 for none).
inline uint32_t crc32c(const void* data, size_t bytes, uint32_t so_far = 0) {
    const auto* at = static_cast<const uint8_t*>(data);
    const uint32_t crc = ~so_far;
    return ~(crc_in_hardware() ? crc_hardware(crc, at, bytes) : crc_portable(crc, at, bytes));
}

}  // namespace livebag::detail
