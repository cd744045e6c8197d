// Random numbers: a generator, its seed, and Poisson counts.
#pragma once
#include <cmath>

#include "special.hpp"

namespace unmix {

struct Xoshiro {                       // xoshiro256++ of Blackman and Vigna
    uint64_t s[4];
    static uint64_t rotated(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
    uint64_t next() {
        const uint64_t result = rotated(s[0] + s[3], 23) + s[0], t = s[1] << 17;
        s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3];
        s[2] ^= t;
        s[3] = rotated(s[3], 45);
        return result;
    }
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }      // in [0, 1)
};

inline uint64_t mixed(uint64_t z) {             // the output of splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}
constexpr uint64_t golden = 0x9e3779b97f4a7c15;
inline Xoshiro seeded(uint64_t state) {
    Xoshiro random;
    for (uint64_t& s : random.s) s = mixed(state += golden);
    return random;
}

// Products of uniforms below 10, transformed rejection from there (PTRS of Hormann 1993).
inline double poisson(double mean, Xoshiro& random) {
    if (!(mean < 1e15)) return 0;               // no number, or none that could be drawn
    if (mean < 10) {
        const double least = std::exp(-mean);
        double count = 0;
        for (double product = random.uniform(); product > least; product *= random.uniform()) ++count;
        return count;
    }
    const double b = 0.931 + 2.53 * std::sqrt(mean), a = -0.059 + 0.02483 * b, log_mean = std::log(mean);
    const double inverse = 1.1239 + 1.1328 / (b - 3.4), enough = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        const double u = random.uniform() - 0.5, v = random.uniform(), us = 0.5 - std::abs(u);
        const double count = std::floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= enough) return count;
        if (count < 0 || (us < 0.013 && v > us)) continue;
        if (std::log(v) + std::log(inverse) - std::log(a / (us * us) + b) <= -mean + count * log_mean - log_gamma(count + 1)) return count;
    }
}

}  // namespace unmix
