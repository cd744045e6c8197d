// Coordinate descent: one EM step, then `sweeps` rounds of clipped Newton steps, a topic at a time.
//
//     g = w - sum_p y_p a_p - s/b,   h = sum_p y_p a_p^2 + s/b^2,   a_p = m_pk / rate_p,   b_k <- max(floor, b_k - g/h)
//
// w is the weight of the topic's cost, one as a rule. SCD takes the full step; CCD takes a second one when the first moved b_k by
// half or more; SN (Hien and Gillis) damps it where self-concordance cannot promise descent. A topic that sits at the floor and wants to stay there is left alone
// for the rest of this call.
#pragma once
#include "regression.hpp"

namespace unmix {

enum class Rule : int { scd = 0, ccd = 1, sn = 2 };

template <class S> struct CD final : Regression<S> {
    int sweeps;
    Rule rule;
    bool rest;
    Buffer<double> columns;                               // m transposed: column k of the row's nonzeros
    Buffer<unsigned char> resting;
    int64_t stride = 0;

    CD(const S* fixed, int vectors, int topics, int64_t longest, int sweeps, int rule, bool rest)
        : Regression<S>(fixed, vectors, topics, longest), sweeps(sweeps), rule(static_cast<Rule>(rule)), rest(rest) {
        columns.reserve(round_up(longest, 4) * 4 * vectors);
        resting.reserve(topics);
    }

    void solve() override {
        this->em_step(true);
        gather();
        this->rates();
        pad();
        double smallest = 1;
        for (int64_t p = 0; p < this->count; ++p) smallest = std::min(smallest, this->y[p]);
        for (int k = 0; k < this->topics; ++k) resting[k] = !(this->weight[k] > 0);
        for (int sweep = 0; sweep < sweeps; ++sweep)
            for (int k = 0; k < this->topics; ++k)
                if (!resting[k]) coordinate(k, smallest);
    }

    const S* m(int64_t p) const { return this->fixed + static_cast<int64_t>(this->index[p]) * (4 * this->vectors); }

    // whole vectors of nonzeros: the padding has y = 0 and rate = 1, so it adds nothing
    void gather() {
        stride = round_up(this->count, 4);
        for (int64_t p = 0; p < stride; p += 4) {
            for (int v = 0; v < this->vectors; ++v) {
                Vec<double> rows[4];
                for (int q = 0; q < 4; ++q) rows[q] = p + q < this->count ? load4(m(p + q) + 4 * v) : Vec<double>{};
                for (int k = 0; k < 4; ++k)
                    store(columns.data() + (4 * v + k) * stride + p, Vec<double>{rows[0][k], rows[1][k], rows[2][k], rows[3][k]});
            }
        }
    }
    void pad() {
        for (int64_t p = this->count; p < stride; ++p) { this->y[p] = 0; this->rate[p] = 1; }
    }

    struct Slope { double g, h; };
    Slope slope(const double* m, double weight, double b, double s) {
        Vec<double> first{}, second{};
        for (int64_t p = 0; p < stride; p += 4) {
            const Vec<double> a = load(m + p) / load(this->rate.data() + p), ya = load(this->y.data() + p) * a;
            first += ya;
            second += ya * a;
        }
        return {weight - sum(first) - s / b, sum(second) + s / (b * b)};
    }
    void shift(const double* m, double change) {
        double lowest = 1;
        Vec<double> low = {1, 1, 1, 1};
        for (int64_t p = 0; p < stride; p += 4) {
            const Vec<double> r = load(this->rate.data() + p) + change * load(m + p);
            store(this->rate.data() + p, r);
            low = r < low ? r : low;
        }
        for (int q = 0; q < 4; ++q) lowest = std::min(lowest, low[q]);
        if (lowest <= 0) { this->rates(); pad(); }        // cancellation: start the sums afresh
    }

    void coordinate(int k, double smallest) {
        const double* m = columns.data() + k * stride;
        const double s = this->prior[k];
        double& b = this->b[k];
        for (int newton = 0; newton < 2; ++newton) {
            const auto [g, h] = slope(m, this->weight[k], b, s);
            const double old = b;
            double next = h > 0 ? std::max(share_floor, old - g / h) : share_floor;
            if (rule == Rule::sn && g > 0) {
                const double nu = std::sqrt(h / (s > 0 ? std::min(smallest, s) : smallest)) * std::abs(next - old);
                if (nu > full_step_decrement) next = old + (next - old) / (1 + nu);
            }
            if (next == old) { resting[k] = rest && g > 0; return; }
            b = next;
            shift(m, next - old);
            if (rule != Rule::ccd || std::abs(next - old) < 0.5 * old) return;
        }
    }
};

}  // namespace unmix
