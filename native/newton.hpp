// Newton: one EM step, then up to `rounds` times, for each block of up to 16 topics, a step towards the minimiser of phi's
// quadratic model over b >= floor. A row whose round promised next to nothing is done.
//
//     g_k = 1 - sum_p y_p m_pk / rate_p - s_k / b_k        H_kl = sum_p y_p m_pk m_pl / rate_p^2 + [k = l] s_k / b_k^2
//
// The gradient is exact (double); the curvature is summed in single precision, which changes the path but not the solution.
//
// Step length. Let e_p = m_p.d / rate_p be the relative change of each rate (and d_k / b_k that of each share with a prior).
// (e - log(1 + e)) / e^2 falls with e and is 1 at e = -0.6838, so as long as no e is below that,
// phi(b + d) - phi(b) <= g.d + d'Hd, which is <= 0 once d is scaled to g.d <= -d'Hd. No line search, no logarithm.
#pragma once
#include "regression.hpp"

namespace unmix {

template <class S, int V, int B> struct Newton : Regression<S, V> {
    static constexpr int stride = round_up(B, 8);         // a row of H, in floats
    static constexpr bool keeps_rates = true;
    static constexpr int sweeps = 8;                      // of coordinate descent on the quadratic model
    int rounds;
    double enough;                                        // a row that gains less than this needs no further round
    Buffer<double> root;                                  // sqrt(y_p)
    Buffer<float> scaled;                                 // sqrt(y_p) m_pk / rate_p of one block, a row a nonzero
    alignas(32) float H[B][stride];
    alignas(32) double g[B];
    alignas(32) double d[B];
    double decrement = 0;                                 // d'Hd

    Newton(const S* fixed, int vectors, int topics, int64_t longest, int rounds, double enough)
        : Regression<S, V>(fixed, vectors, topics, longest), rounds(rounds), enough(enough) {
        root.reserve(longest + 8);
        scaled.reserve((longest + 1) * stride);
        for (int64_t i = 0; i < (longest + 1) * stride; ++i) scaled[i] = 0;
    }

    void solve() {
        this->template em_step<true>();
        this->rates();
        for (int64_t p = 0; p < this->count; ++p) root[p] = std::sqrt(this->y[p]);
        for (int round = 0; round < rounds; ++round) {
            double gain = 0;                              // twice what the quadratic model promised, in units of the log-likelihood
            for (int first = 0; first < this->topics; first += B) {
                gradient(first);
                curvature();
                if (direction(first)) gain += this->total * step(first);
            }
            if (gain <= enough * std::min(1.0, this->total)) break;
        }
    }

    void gradient(int first) {
        auto& self = *this;
        Vec<double> total[B / 4] = {};
        for (int64_t p = 0; p < self.count; ++p) self.ratio[p] = root[p] / self.rate[p];
        for (int64_t p = 0; p < self.count; ++p) {
            typedef float Half __attribute__((vector_size(16)));
            const S* row = self.m(p) + first;
            const double weight = self.ratio[p], root_y = root[p];
            float* out = scaled.data() + p * stride;
            for (int v = 0; v < B / 4; ++v) {
                const Vec<double> m = weight * load4(row + 4 * v);
                total[v] += root_y * m;
                *reinterpret_cast<Half*>(out + 4 * v) = __builtin_convertvector(m, Half);
            }
        }
        for (int v = 0; v < B / 4; ++v) store(g + 4 * v, 1.0 - total[v]);
    }

    template <int R0, int R1, int C> void tile() {      // rows R0..R1 of H, columns 0..8C
        Vec<float> sums[R1 - R0][C] = {};
        for (int64_t p = 0; p < this->count; ++p) {
            const float* row = scaled.data() + p * stride;
            Vec<float> columns[C];
            for (int c = 0; c < C; ++c) columns[c] = load(row + 8 * c);
#pragma GCC unroll 16
            for (int r = 0; r < R1 - R0; ++r)
                for (int c = 0; c < C; ++c) sums[r][c] += row[R0 + r] * columns[c];
        }
        for (int r = 0; r < R1 - R0; ++r)
            for (int c = 0; c < C; ++c) store(&H[R0 + r][8 * c], sums[r][c]);
    }

    void curvature() {
        tile<0, std::min(B, 8), 1>();
        if constexpr (B > 8) tile<8, 12, 2>();
        if constexpr (B > 12) tile<12, 16, 2>();
        for (int k = 0; k < B; ++k)
            for (int l = k + 1; l < B; ++l) H[k][l] = H[l][k];
    }

    // d: rounds of coordinate descent on g.d + d'Hd/2 subject to b + d >= floor. After the first round only the topics
    // that are free to move are visited.
    bool direction(int first) {
        const int active = std::min(B, this->topics - first);
        float trace = 0;
        for (int k = 0; k < active; ++k) trace += H[k][k];
        if (!(trace < std::numeric_limits<float>::infinity())) return false;
        alignas(32) float q[stride] = {}, z[stride] = {}, low[stride] = {}, inverse[stride] = {};
        int open[B], opened = 0;
        for (int k = 0; k < active; ++k) {
            const double b = this->b[first + k], s = this->prior[first + k];
            g[k] -= s / b;
            H[k][k] += static_cast<float>(s / (b * b)) + 1e-6f * trace;
            q[k] = static_cast<float>(g[k]);
            low[k] = static_cast<float>(share_floor - b);
            inverse[k] = 1 / H[k][k];
        }
        auto visit = [&](int k) {
            const float next = std::max(low[k], z[k] - q[k] * inverse[k]);
            const float change = next - z[k];
            z[k] = next;
            for (int c = 0; c < stride / 8; ++c) store(q + 8 * c, load(q + 8 * c) + change * load(&H[k][8 * c]));
            return change;
        };
        float first_sweep = 0;
        for (int k = 0; k < active; ++k) {
            const float change = visit(k);
            first_sweep += change * change * H[k][k];
            open[opened] = k;
            opened += z[k] > low[k];
        }
        for (int sweep = 1; sweep < sweeps; ++sweep) {
            float moved = 0;
            for (int o = 0; o < opened; ++o) {
                const float change = visit(open[o]);
                moved += change * change * H[open[o]][open[o]];
            }
            if (moved <= 1e-4f * first_sweep) break;
        }
        double dHd = 0, gd = 0;
        for (int k = 0; k < active; ++k) { dHd += z[k] * (q[k] - g[k]); gd += g[k] * z[k]; }
        if (!(dHd > 0) || !(gd < 0)) return false;
        const double shrink = std::min(1.0, -gd / dHd);
        decrement = shrink * shrink * dHd;
        // in double precision again, so that b + d is at the floor and not below, and rates keep in step with b
        for (int k = 0; k < B; ++k) d[k] = k < active ? std::max(shrink * z[k], share_floor - this->b[first + k]) : 0;
        return true;
    }

    // Moves b along d as far as is safe, and the rates with it. Returns d'Hd.
    double step(int first) {
        auto& self = *this;
        const int active = std::min(B, self.topics - first);
        double* change = self.ratio.data();
        Vec<double> dv[B / 4];
        for (int v = 0; v < B / 4; ++v) dv[v] = load(d + 4 * v);
        for (int64_t p = 0; p < self.count; ++p) {
            const S* row = self.m(p) + first;
            Vec<double> total{};
            for (int v = 0; v < B / 4; ++v) total += load4(row + 4 * v) * dv[v];
            change[p] = sum(total);
        }
        Vec<double> least{};
        change[self.count] = change[self.count + 1] = change[self.count + 2] = 0;
        self.rate[self.count] = self.rate[self.count + 1] = self.rate[self.count + 2] = 1;
        for (int64_t p = 0; p < self.count; p += 4) {
            const Vec<double> e = load(change + p) / load(self.rate.data() + p);
            least = e < least ? e : least;
        }
        double lowest = std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
        for (int k = 0; k < active; ++k) if (self.prior[first + k] > 0) lowest = std::min(lowest, d[k] / self.b[first + k]);
        const double length = lowest < -full_step_decrement ? full_step_decrement / -lowest : 1.0;
        for (int64_t p = 0; p < self.count; ++p) self.rate[p] += length * change[p];
        for (int k = 0; k < active; ++k) self.b[first + k] = std::max(share_floor, self.b[first + k] + length * d[k]);
        return decrement;
    }
};

}  // namespace unmix
