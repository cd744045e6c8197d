// EM (= Lee and Seung's multiplicative update): `steps` times  b_k <- b_k sum_p y_p m_pk / (m_p . b).
#pragma once
#include "regression.hpp"

namespace unmix {

template <class S> struct EM final : Regression<S> {
    int steps;
    EM(const S* fixed, int vectors, int topics, int64_t longest, int steps)
        : Regression<S>(fixed, vectors, topics, longest), steps(steps) {}
    void solve() override {
        for (int s = 0; s < steps; ++s) this->em_step(s == 0);
    }
};

}  // namespace unmix
