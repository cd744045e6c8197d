// Vectors of 32 bytes (4 doubles or 8 floats), dot products at a fixed number of topics, and a logarithm the compiler can vectorise.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

namespace unmix {

template <class T> struct Simd {
    typedef T Vec __attribute__((vector_size(32)));
    static constexpr int width = 32 / sizeof(T);
};
template <class T> using Vec = typename Simd<T>::Vec;

template <class T> inline Vec<T> load(const T* p) { return *reinterpret_cast<const Vec<T>*>(p); }
template <class T> inline void store(T* p, Vec<T> v) { *reinterpret_cast<Vec<T>*>(p) = v; }

// Elements of a and b, counted through, in this order.
template <int... at, class V> inline V shuffled(V a, V b) {
#if defined(__clang__) || __GNUC__ >= 12
    return __builtin_shufflevector(a, b, at...);
#else
    return __builtin_shuffle(a, b, decltype(a < b){at...});
#endif
}

inline double sum(Vec<double> v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline float sum(Vec<float> v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

// The sum of n numbers, in eight chains of additions.
inline double sum(const double* x, int64_t n) {
    double total[8] = {};
    int64_t p = 0;
    for (; p + 8 <= n; p += 8)
        for (int q = 0; q < 8; ++q) total[q] += x[p + q];
    for (int q = 0; p < n; ++p, ++q) total[q] += x[p];
    return ((total[0] + total[4]) + (total[1] + total[5])) + ((total[2] + total[6]) + (total[3] + total[7]));
}

// The sums of four vectors, as one vector.
inline Vec<double> sums(Vec<double> a, Vec<double> b, Vec<double> c, Vec<double> d) {
    const Vec<double> ab = shuffled<0, 4, 2, 6>(a, b) + shuffled<1, 5, 3, 7>(a, b);
    const Vec<double> cd = shuffled<0, 4, 2, 6>(c, d) + shuffled<1, 5, 3, 7>(c, d);
    return shuffled<0, 1, 4, 5>(ab, cd) + shuffled<2, 3, 6, 7>(ab, cd);
}

// The sums of eight vectors, as one vector.
inline Vec<float> sums(const Vec<float> (&v)[8]) {
    Vec<float> twos[4], fours[2];
    for (int i = 0; i < 4; ++i)
        twos[i] = shuffled<0, 8, 2, 10, 4, 12, 6, 14>(v[2 * i], v[2 * i + 1]) +
                  shuffled<1, 9, 3, 11, 5, 13, 7, 15>(v[2 * i], v[2 * i + 1]);
    for (int i = 0; i < 2; ++i)
        fours[i] = shuffled<0, 1, 8, 9, 4, 5, 12, 13>(twos[2 * i], twos[2 * i + 1]) +
                   shuffled<2, 3, 10, 11, 6, 7, 14, 15>(twos[2 * i], twos[2 * i + 1]);
    return shuffled<0, 1, 2, 3, 8, 9, 10, 11>(fours[0], fours[1]) +
           shuffled<4, 5, 6, 7, 12, 13, 14, 15>(fours[0], fours[1]);
}

inline constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// 64-byte aligned scratch space that only grows.
template <class T> class Buffer {
  public:
    T* data() { return memory_.get(); }
    const T* data() const { return memory_.get(); }
    T& operator[](std::size_t i) { return memory_.get()[i]; }
    void reserve(std::size_t n) {
        if (n <= size_) return;
        if (n > std::size_t(1) << 48) throw std::bad_alloc();
        n = (n + 63) / 64 * 64;
        memory_.reset(static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(64))));
        size_ = n;
    }

  private:
    struct Free { void operator()(T* p) const { ::operator delete(p, std::align_val_t(64)); } };
    std::unique_ptr<T[], Free> memory_;
    std::size_t size_ = 0;
};

// log x for finite x >= 0:  x = 2^e m,  m in [1/sqrt 2, sqrt 2),  log m = 2 atanh((m-1)/(m+1)).  Relative error below 4e-16.
inline double fast_log(double x) {
    constexpr double tiny = std::numeric_limits<double>::min();
    const bool subnormal = x < tiny;
    x = subnormal ? x * 0x1p54 : x;
    const auto bits = std::bit_cast<uint64_t>(x);                 // unsigned, lest what is no logarithm overflow
    const int64_t exponent = static_cast<int64_t>(bits - 0x3fe6a09e667f3bcd) >> 52;      // bits of 1/sqrt 2
    const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(exponent) << 52));
    // int64 -> double by the 2^52 trick: plain conversions of 64-bit integers do not vectorise before AVX-512
    const double e = std::bit_cast<double>(exponent + 0x4338000000000000LL) - 0x1.8p52 - (subnormal ? 54.0 : 0.0);
    const double s = (m - 1.0) / (m + 1.0), q = s * s;
    double p = 1.0 / 21;
    p = p * q + 1.0 / 19; p = p * q + 1.0 / 17; p = p * q + 1.0 / 15; p = p * q + 1.0 / 13; p = p * q + 1.0 / 11;
    p = p * q + 1.0 / 9;  p = p * q + 1.0 / 7;  p = p * q + 1.0 / 5;  p = p * q + 1.0 / 3;
    constexpr double ln2_hi = 0x1.62e42fefap-1, ln2_lo = 0x1.cf79abc9e3b3ap-40;
    const double log = e * ln2_hi + (e * ln2_lo + (2.0 * s * q * p + 2.0 * s));
    return x > 0 ? log : -std::numeric_limits<double>::infinity();
}

}  // namespace unmix
