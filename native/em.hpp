// EM (= Lee and Seung's multiplicative update): `steps` times  b_k <- b_k sum_p y_p m_pk / (m_p . b).
#pragma once
#include "regression.hpp"

namespace unmix {

template <class S, int V> struct EM : Regression<S, V> {
    int steps;
    EM(const S* fixed, int vectors, int topics, int64_t longest, int steps)
        : Regression<S, V>(fixed, vectors, topics, longest), steps(steps) {}
    void solve() {
        for (int s = 0; s < steps; ++s) s == 0 ? this->template em_step<true>() : this->template em_step<>();
    }
};

}  // namespace unmix
