// exp, digamma and log-gamma written so that the compiler can vectorise loops over them.
#pragma once
#include "simd.hpp"

namespace unmix {

// exp x = 2^e exp r, |r| <= log(2)/2, by a polynomial. Relative error below 1e-15; 0 below -708, finite x <= 709 assumed.
inline double fast_exp(double x) {
    constexpr double ln2_hi = 0x1.62e42fefap-1, ln2_lo = 0x1.cf79abc9e3b3ap-40;
    const double clipped = x < -708.0 ? -708.0 : x;
    const double shifted = clipped * 0x1.71547652b82fep+0 + 0x1.8p52;     // the rounded exponent, in the low bits
    const double e = shifted - 0x1.8p52;
    const double r = (clipped - e * ln2_hi) - e * ln2_lo;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0; p = p * r + 1.0 / 39916800.0; p = p * r + 1.0 / 3628800.0; p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;     p = p * r + 1.0 / 5040.0;     p = p * r + 1.0 / 720.0;     p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;        p = p * r + 1.0 / 6.0;        p = p * r + 0.5;             p = p * r + 1.0;
    p = p * r + 1.0;
    const auto scale = std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
    return x < -708.0 ? 0.0 : p * scale;
}

// Both functions step up to y >= 8 and use the asymptotic series there:
//     digamma(x) = digamma(x+8) - sum_{i<8} 1/(x+i),     log Gamma(x) = log Gamma(x+8) - log prod_{i<8} (x+i)
struct Stepped {
    double y;           // x, or x + 8 if x < 8
    double product;     // of x .. x+7, or 1
    double slope;       // d product / dx, or 0
};
inline Stepped stepped(double x) {
    double product = 1.0, slope = 0.0;
    for (int i = 0; i < 8; ++i) {
        slope = slope * (x + i) + product;
        product *= x + i;
    }
    const bool small = x < 8.0;
    return {small ? x + 8.0 : x, small ? product : 1.0, small ? slope : 0.0};
}
inline double digamma_of(const Stepped& s, double log_y) {
    const double inverse = 1.0 / s.y, q = inverse * inverse;
    double p = 1.0 / 12;
    p = p * q - 691.0 / 32760; p = p * q + 1.0 / 132; p = p * q - 1.0 / 240; p = p * q + 1.0 / 252; p = p * q - 1.0 / 120;
    p = p * q + 1.0 / 12;
    return log_y - 0.5 * inverse - p * q - s.slope / s.product;
}
inline double log_gamma_of(const Stepped& s, double log_y) {
    const double inverse = 1.0 / s.y, q = inverse * inverse;
    double p = 1.0 / 156;
    p = p * q - 691.0 / 360360; p = p * q + 1.0 / 1188; p = p * q - 1.0 / 1680; p = p * q + 1.0 / 1260; p = p * q - 1.0 / 360;
    p = p * q + 1.0 / 12;
    constexpr double half_log_2pi = 0.91893853320467274178;
    return (s.y - 0.5) * log_y - s.y + half_log_2pi + p * inverse - fast_log(s.product);
}

// For x > 0. Absolute error about 1e-14 near their zeros, relative 1e-15 elsewhere.
inline double digamma(double x) {
    const Stepped s = stepped(x);
    return digamma_of(s, fast_log(s.y));
}
inline double log_gamma(double x) {
    const Stepped s = stepped(x);
    return log_gamma_of(s, fast_log(s.y));
}

}  // namespace unmix
