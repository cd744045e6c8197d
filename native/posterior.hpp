// What the counts of one feature say of its rate in every topic. With weights w_i of the sample's topics and
//
//     x_i ~ Poisson(w_i . f),   f_k ~ Gamma(c, b),   N_k = sum_i w_ik,   p_ik = w_ik f_k / (w_i . f),   q_k = sum_i x_i p_ik
//
// the posterior of g = log f has, at its mode and in units of relative changes,
//
//     gradient  q_k + c - (N_k + b) f_k        curvature  P = c I + sum_i x_i p_i p_i'        S = P^-1
//     third derivative along v = S_:k / S_kk   -c sum_l v_l^3 - 3 sum_i x_i (p_i.v^2)(p_i.v) + 2 sum_i x_i (p_i.v)^3
//
// and, where counts scatter more than Poisson counts do, S (c I + R) S for S, with residuals summed over all samples or over groups a:
//
//     R = sum_i (x_i - rate_i)^2 p_i p_i' = sum_nonzero (x^2 - 2 x rate) p p' + D W'W D,   D = diag f
//     R = sum_a h_a h_a' G / (G - 1),   h_a = sum_{nonzero in a} x p - D sum_{i in a} w_i,   G groups
//
// Newton steps in f itself: P is their curvature everywhere, not at the mode alone. No rate falls by more than the entry that
// falls most, and a step of which no entry falls by more than 0.6838 of itself does not lower the posterior (see newton.cpp).
#pragma once
#include "regression.hpp"

namespace unmix {

struct Spread {                            // how residuals are added up; at most one of the two
    const double* gram = nullptr;          // W'W, by samples
    const int32_t* labels = nullptr;       // the group of each sample
    const double* group_sums = nullptr;    // G x K: sums of its weights
    int64_t groups = 0;
    bool wanted() const { return gram || labels; }
};

struct PosteriorOut {                      // robust may be null
    double *modes, *covariances, *thirds, *robust, *pearson;
    int32_t* rounds;
};

inline double dot(const double* a, const double* b, int n) {
    Vec<double> total{};
    int k = 0;
    for (; k + 4 <= n; k += 4) total += load4_anywhere(a + k) * load4_anywhere(b + k);
    double rest = 0;
    for (; k < n; ++k) rest += a[k] * b[k];
    return sum(total) + rest;
}

// V is the number of 4-topic vectors in a padded row (0: known only at run time).
template <int V> struct Posterior {
    static constexpr int64_t chunk = 128;                 // nonzeros whose shares stay in the innermost cache
    static constexpr int em_steps = 2, most_rounds = 200;
    static constexpr double enough = 1e-10;               // of the gradient, relative to its positive part

    const double* weights;
    int topics, vectors;
    const double* sums;
    double c;
    const int32_t* index = nullptr;
    int64_t count = 0;
    Buffer<double> x, f, q, g, rate, share, weighted, M, P, inverse, S, Q, ridge, square, residual;

    Posterior(const double* weights, int topics, int vectors, const double* sums, double c, int64_t longest, int64_t groups)
        : weights(weights), topics(topics), vectors(vectors), sums(sums), c(c) {
        const std::size_t stride = 4 * vectors;
        x.reserve(longest + 8);
        rate.reserve(chunk);
        for (auto* buffer : {&f, &q, &g}) { buffer->reserve(stride); std::fill_n(buffer->data(), stride, 0.0); }
        for (auto* buffer : {&share, &weighted}) buffer->reserve(chunk * stride);
        for (auto* buffer : {&M, &P, &inverse, &S, &Q, &ridge, &square}) {
            buffer->reserve(stride * stride);
            std::fill_n(buffer->data(), stride * stride, 0.0);
        }
        residual.reserve(groups * stride);
    }
    int v_count() const { return V ? V : vectors; }
    int stride() const { return 4 * v_count(); }

    // rates and shares p of the nonzeros begin .. end
    void look(int64_t begin, int64_t end) {
        double* out = share.data();
        for (int64_t p = begin; p < end; ++p, out += stride()) {
            const double* w = weights + static_cast<int64_t>(index[p]) * stride();
            Vec<double> total{};
            for (int v = 0; v < v_count(); ++v) {
                const Vec<double> part = load(w + 4 * v) * load(f.data() + 4 * v);
                store(out + 4 * v, part);
                total += part;
            }
            const double all = sum(total), inverse_rate = 1 / all;
            rate[p - begin] = all;
            for (int v = 0; v < v_count(); ++v) store(out + 4 * v, load(out + 4 * v) * inverse_rate);
        }
    }
    template <class Each> void by_chunks(const Each& each) {
        for (int64_t begin = 0; begin < count; begin += chunk) {
            const int64_t end = std::min(count, begin + chunk);
            look(begin, end);
            each(begin, end - begin);
        }
    }
    // weighted = weight(i) share_i, of a chunk
    template <class Weight> void weigh(int64_t rows, const Weight& weight) {
        for (int64_t i = 0; i < rows; ++i) {
            const double times = weight(i);
            for (int v = 0; v < v_count(); ++v) store(&weighted[i * stride() + 4 * v], times * load(&share[i * stride() + 4 * v]));
        }
    }
    void add_up(int64_t rows) {                           // q += sums of what is weighted
        for (int64_t i = 0; i < rows; ++i)
            for (int v = 0; v < v_count(); ++v) store(&q[4 * v], load(&q[4 * v]) + load(&weighted[i * stride() + 4 * v]));
    }

    // out += sum_i left_i right_i' on and below the diagonal, in tiles that fit into registers
    void products(const double* left, const double* right, int64_t rows, double* out) const {
        for (int r = 0; r < topics; r += 4) {
            int v = 0;
            const int columns = r / 4 + 1;
            for (; v + 2 <= columns; v += 2) tile<2>(left, right, rows, r, v, out);
            if (v < columns) tile<1>(left, right, rows, r, v, out);
        }
    }
    template <int C> void tile(const double* left, const double* right, int64_t rows, int r, int v, double* out) const {
        Vec<double> total[4][C] = {};
        for (int64_t i = 0; i < rows; ++i, left += stride(), right += stride()) {
            Vec<double> columns[C];
            for (int j = 0; j < C; ++j) columns[j] = load(right + 4 * (v + j));
            for (int k = 0; k < 4; ++k)
                for (int j = 0; j < C; ++j) total[k][j] += left[r + k] * columns[j];
        }
        for (int k = 0; k < 4; ++k)
            for (int j = 0; j < C; ++j) {
                double* to = out + (r + k) * stride() + 4 * (v + j);
                store(to, load(to) + total[k][j]);
            }
    }

    void clear(Buffer<double>& matrix) { std::fill_n(matrix.data(), stride() * stride(), 0.0); }

    // the mode, from f: the number of rounds
    int find(double b) {
        for (int step = 0; step < em_steps; ++step) {
            std::fill_n(q.data(), stride(), 0.0);
            by_chunks([&](int64_t begin, int64_t rows) {
                weigh(rows, [&](int64_t i) { return x[begin + i]; });
                add_up(rows);
            });
            for (int k = 0; k < topics; ++k) f[k] = (q[k] + c) / (sums[k] + b);
        }
        for (int round = 0;; ++round) {
            std::fill_n(q.data(), stride(), 0.0);
            clear(M);
            by_chunks([&](int64_t begin, int64_t rows) {
                weigh(rows, [&](int64_t i) { return x[begin + i]; });
                add_up(rows);
                products(share.data(), weighted.data(), rows, M.data());
            });
            double worst = 0;
            for (int k = 0; k < topics; ++k) {
                g[k] = q[k] + c - (sums[k] + b) * f[k];
                worst = std::max(worst, std::abs(g[k]) / (q[k] + c));
            }
            decompose();
            if (worst <= enough || round == most_rounds) return round;
            solve();
            double lowest = 0;
            for (int k = 0; k < topics; ++k) lowest = std::min(lowest, g[k]);
            const double length = lowest < -full_step_decrement ? full_step_decrement / -lowest : 1.0;
            for (int k = 0; k < topics; ++k) f[k] *= 1 + length * g[k];
        }
    }

    void decompose() {                                    // P = c I + M = lower lower', the triangle in place
        const int n = stride();
        for (int i = 0; i < topics; ++i)
            for (int j = 0; j <= i; ++j) {
                const double rest = M[i * n + j] + (i == j ? c : 0.0) - dot(&P[i * n], &P[j * n], j);
                P[i * n + j] = i == j ? std::sqrt(rest) : rest / P[j * n + j];
            }
    }
    void solve() {                                        // P d = g, in place
        const int n = stride();
        for (int i = 0; i < topics; ++i) g[i] = (g[i] - dot(&P[i * n], g.data(), i)) / P[i * n + i];
        for (int i = topics - 1; i >= 0; --i) {
            g[i] /= P[i * n + i];
            for (int j = 0; j < i; ++j) g[j] -= P[i * n + j] * g[i];
        }
    }
    void invert() {                                       // S = P^-1, whole
        const int n = stride();
        clear(inverse);
        for (int i = 0; i < topics; ++i) {
            double* row = &inverse[i * n];
            for (int k = 0; k < i; ++k)
                for (int j = 0; j <= k; ++j) row[j] -= P[i * n + k] * inverse[k * n + j];
            row[i] = 1;
            for (int j = 0; j <= i; ++j) row[j] /= P[i * n + i];
        }
        clear(S);
        products(inverse.data(), inverse.data(), topics, S.data());
        mirror(S);
    }
    void mirror(Buffer<double>& matrix) {
        for (int i = 0; i < topics; ++i)
            for (int j = 0; j < i; ++j) matrix[j * stride() + i] = matrix[i * stride() + j];
    }
    void pack(const Buffer<double>& matrix, double* out) const {
        for (int i = 0; i < topics; ++i) out = std::copy_n(matrix.data() + i * stride(), i + 1, out);
    }

    // third derivatives along the columns of S: `thirds` gets them; and Pearson's sum of squares
    void bend(double* thirds, double* pearson, bool spread_by_samples) {
        const int n = stride();
        for (int l = 0; l < topics; ++l)
            for (int k = 0; k < topics; ++k) {
                const double v = S[l * n + k] / S[k * n + k];
                ridge[l * n + k] = v;
                square[l * n + k] = v * v;
            }
        for (int k = 0; k < topics; ++k) {
            double cubes = 0;
            for (int l = 0; l < topics; ++l) cubes += ridge[l * n + k] * square[l * n + k];
            q[k] = -c * cubes;
        }
        double squares = dot(sums, f.data(), topics);
        clear(Q);
        by_chunks([&](int64_t begin, int64_t rows) {
            for (int64_t i = 0; i < rows; ++i) {
                const double y = x[begin + i];
                squares += y * (y / rate[i] - 2);
                const double* p = &share[i * n];
                for (int v = 0; v < v_count(); ++v) {
                    Vec<double> first{}, second{};
                    for (int l = 0; l < topics; ++l) {
                        first += p[l] * load(&ridge[l * n + 4 * v]);
                        second += p[l] * load(&square[l * n + 4 * v]);
                    }
                    store(&q[4 * v], load(&q[4 * v]) + y * first * (2 * first * first - 3 * second));
                }
            }
            if (!spread_by_samples) return;
            weigh(rows, [&](int64_t i) { return x[begin + i] * (x[begin + i] - 2 * rate[i]); });
            products(share.data(), weighted.data(), rows, Q.data());
        });
        std::copy_n(q.data(), topics, thirds);
        *pearson = squares;
    }

    // S (c I + R) S, packed, to `robust`
    void spread(const Spread& how, double* robust) {
        const int n = stride();
        if (how.gram) {
            for (int k = 0; k < topics; ++k)
                for (int l = 0; l <= k; ++l) Q[k * n + l] += f[k] * f[l] * how.gram[k * topics + l];
        } else {
            for (int64_t a = 0; a < how.groups; ++a)
                for (int k = 0; k < n; ++k) residual[a * n + k] = k < topics ? -f[k] * how.group_sums[a * topics + k] : 0.0;
            by_chunks([&](int64_t begin, int64_t rows) {
                for (int64_t i = 0; i < rows; ++i) {
                    double* h = &residual[how.labels[index[begin + i]] * static_cast<int64_t>(n)];
                    for (int v = 0; v < v_count(); ++v) store(h + 4 * v, load(h + 4 * v) + x[begin + i] * load(&share[i * n + 4 * v]));
                }
            });
            products(residual.data(), residual.data(), how.groups, Q.data());
            const double times = static_cast<double>(how.groups) / static_cast<double>(how.groups - 1);
            for (int k = 0; k < topics; ++k)
                for (int l = 0; l <= k; ++l) Q[k * n + l] *= times;
        }
        for (int k = 0; k < topics; ++k) Q[k * n + k] += c;
        mirror(Q);
        clear(ridge);
        clear(square);
        multiply(Q, S, ridge);
        multiply(S, ridge, square);
        pack(square, robust);
    }
    void multiply(const Buffer<double>& one, const Buffer<double>& two, Buffer<double>& out) {      // out += one two
        const int n = stride();
        for (int i = 0; i < topics; ++i)
            for (int k = 0; k < topics; ++k) {
                const double times = one.data()[i * n + k];
                for (int v = 0; v < v_count(); ++v)
                    store(&out[i * n + 4 * v], load(&out[i * n + 4 * v]) + times * load(two.data() + k * n + 4 * v));
            }
    }
};

// Rows of Xt are features; `room` holds the padded weights, `sums` their N; `rates` the b of each feature.
template <int V>
void posteriors(const Sparse& Xt, const double* room, int topics, int padded, const double* sums, const double* rates, double c,
                double start, const Spread& how, const PosteriorOut& out, int threads) {
    const int64_t packed = static_cast<int64_t>(topics) * (topics + 1) / 2;
    for_rows(Xt, threads, [&] {
        return [&, feature = Posterior<V>(room, topics, padded / 4, sums, c, Xt.longest, how.groups)](int64_t begin, int64_t end) mutable {
            for (int64_t j = begin; j < end; ++j) {
                const int64_t first = Xt.indptr[j];
                feature.index = Xt.indices + first;
                feature.count = Xt.indptr[j + 1] - first;
                Xt.read(first, feature.count, feature.x.data());
                for (int k = 0; k < topics; ++k) feature.f[k] = start / rates[j];
                out.rounds[j] = feature.find(rates[j]);
                std::copy_n(feature.f.data(), topics, out.modes + j * topics);
                feature.invert();
                feature.pack(feature.S, out.covariances + j * packed);
                feature.bend(out.thirds + j * topics, out.pearson + j, how.gram != nullptr);
                if (how.wanted()) feature.spread(how, out.robust + j * packed);
            }
        };
    });
}

}  // namespace unmix
