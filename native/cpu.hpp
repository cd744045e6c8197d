// Which instruction sets this CPU, and the operating system on it, can run.
#pragma once
#include <string_view>

#if defined(_MSC_VER)                  // clang-cl has no run-time library in which __builtin_cpu_supports could look
#include <intrin.h>
#endif

namespace unmix {

#if defined(_MSC_VER) && defined(_M_X64)
inline bool has_bits(unsigned value, unsigned bits) { return (value & bits) == bits; }

inline bool has_avx2() {
    int leaf[4];
    __cpuid(leaf, 0);
    if (leaf[0] < 7) return false;
    __cpuid(leaf, 1);                                      // FMA, XSAVE enabled by the system, AVX
    if (!has_bits(leaf[2], 1u << 12 | 1u << 27 | 1u << 28) || !has_bits(static_cast<unsigned>(_xgetbv(0)), 0x6)) return false;
    __cpuidex(leaf, 7, 0);
    return has_bits(leaf[1], 1u << 5);
}
inline bool has_avx512() {
    if (!has_avx2() || !has_bits(static_cast<unsigned>(_xgetbv(0)), 0xe6)) return false;
    int leaf[4];
    __cpuidex(leaf, 7, 0);                                 // F, DQ, VL
    return has_bits(leaf[1], 1u << 16 | 1u << 17 | 1u << 31);
}
#elif defined(__x86_64__)
inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
inline bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#else
inline bool has_avx2() { return false; }
inline bool has_avx512() { return false; }
#endif

inline bool cpu_supports(std::string_view isa) {
    return isa == "baseline" || (isa == "avx2" && has_avx2()) || (isa == "avx512" && has_avx512());
}

}  // namespace unmix
