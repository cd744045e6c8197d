// One row of a half-step. With the other factor fixed, row i of the moving factor solves, in shares b_k = l_ik c_k / t_i,
//
//     minimise  phi(b) = sum_k b_k - sum_p y_p log(m_p . b) - sum_k s_k log b_k    over  b_k >= floor
//
// where p runs over the nonzeros of the row, y_p = x_p / t_i, m_pk = f_pk / c_k, c_k = (column sum of F) + (rate of the prior),
// s_k = (shape of the prior - 1) / t_i. Shares make the floor, the step rules and single precision curvature independent of scale.
#pragma once
#include <cmath>

#include "rows.hpp"

namespace unmix {

constexpr double share_floor = 1e-15;
constexpr double full_step_decrement = 0.6838;      // root of z^2 + z + log(1 - z)

// Four topics of a stored row, as doubles: storage may be float, arithmetic never is.
inline Vec<double> load4(const double* p) { return load(p); }
inline Vec<double> load4(const float* p) {
    typedef float Half __attribute__((vector_size(16)));
    return __builtin_convertvector(*reinterpret_cast<const Half*>(p), Vec<double>);
}

// S is the storage type of the factors; V the number of 4-topic vectors in a padded row (0: known only at run time).
template <class S, int V> struct Regression {
    static constexpr bool keeps_rates = false;     // whether `rate` belongs to b when solve() returns
    const S* fixed;               // padded rows of m
    int vectors;
    int topics;
    const int32_t* index = nullptr;        // the row's nonzeros
    const int32_t* index_end = nullptr;    // end of the whole matrix, for prefetching past the row
    int64_t count = 0;
    double total = 0;                      // t_i, the sum of its counts
    bool has_prior = false;
    Buffer<double> y, rate, ratio, b, numerator, prior;

    Regression(const S* fixed, int vectors, int topics, int64_t longest)
        : fixed(fixed), vectors(vectors), topics(topics) {
        for (auto* buffer : {&y, &rate, &ratio}) buffer->reserve(longest + 8);
        for (auto* buffer : {&b, &numerator, &prior}) buffer->reserve(4 * vectors + 8);
    }
    int v_count() const { return V ? V : vectors; }
    const S* m(int64_t p) const { return fixed + static_cast<int64_t>(index[p]) * (4 * v_count()); }

    // rate_p = m_p . b; the first visit of a row fetches later rows of `fixed` ahead of need
    template <bool first_visit = false> void rates() {
        constexpr int ahead = 12;
        Vec<double> bv[V ? V : 1];
        if constexpr (V > 0) for (int v = 0; v < V; ++v) bv[v] = load(b.data() + 4 * v);
        auto dot = [&](int64_t p) {
            if constexpr (first_visit) {
                if (index + p + ahead < index_end) {
                    const char* next = reinterpret_cast<const char*>(m(p + ahead));
                    const int bytes = 4 * v_count() * static_cast<int>(sizeof(S));
                    for (int line = 0; line < bytes; line += 64) __builtin_prefetch(next + line);
                }
            }
            const S* row = m(p);
            Vec<double> total{};
            if constexpr (V > 0) {
                for (int v = 0; v < V; ++v) total += load4(row + 4 * v) * bv[v];
            } else {
                for (int v = 0; v < vectors; ++v) total += load4(row + 4 * v) * load(b.data() + 4 * v);
            }
            return total;
        };
        int64_t p = 0;
        for (; p + 4 <= count; p += 4) store(rate.data() + p, sums(dot(p), dot(p + 1), dot(p + 2), dot(p + 3)));
        for (; p < count; ++p) rate[p] = sum(dot(p));
    }

    // numerator_k = sum_p ratio_p m_pk, up to four vectors of topics at a time, their sums in registers
    void numerators() {
        if constexpr (V > 0) {
            numerators_of<V>(0);
        } else {
            int v = 0;
            for (; v + 4 <= vectors; v += 4) numerators_of<4>(v);
            for (; v < vectors; ++v) numerators_of<1>(v);
        }
    }
    template <int N> void numerators_of(int first) {
        Vec<double> total[N] = {};
        for (int64_t p = 0; p < count; ++p) {
            const S* row = m(p) + 4 * first;
            const double r = ratio[p];
            for (int v = 0; v < N; ++v) total[v] += r * load4(row + 4 * v);
        }
        for (int v = 0; v < N; ++v) store(numerator.data() + 4 * (first + v), total[v]);
    }

    // One EM step: b_k <- b_k sum_p y_p m_pk / rate_p + s_k, clipped at the floor (the exact minimiser of EM's bound there).
    template <bool first_visit = false> void em_step() {
        rates<first_visit>();
        for (int64_t p = 0; p < count; ++p) ratio[p] = y[p] / rate[p];
        numerators();
        for (int k = 0; k < topics; ++k) b[k] = std::max(share_floor, b[k] * numerator[k] + prior[k]);
    }

    double sum_y_log_rate() {
        double total[8] = {};
        const double *yp = y.data(), *rp = rate.data();
        int64_t p = 0;
        for (; p + 8 <= count; p += 8)
            for (int q = 0; q < 8; ++q) total[q] += yp[p + q] * fast_log(rp[p + q]);
        for (int q = 0; p < count; ++p, ++q) total[q] += yp[p] * fast_log(rp[p]);
        return ((total[0] + total[4]) + (total[1] + total[5])) + ((total[2] + total[6]) + (total[3] + total[7]));
    }
};

// Strided view of the prior's (shape - 1), broadcast with zero strides; data == nullptr means no prior.
struct Shape {
    const double* data;
    int64_t row_stride, column_stride;
    double operator()(int64_t i, int k) const { return data[i * row_stride + k * column_stride]; }
};

// Applies `Method` (a Regression with a member solve()) to every row. `cost` holds c; `out` may be `moving` itself.
// With `xlog`, also writes sum_p x_p log(rate_p) of each new row. `room` is for fixed_rows rows of `padded` topics.
template <class Method, class S, class... Options>
void update_rows(const Sparse& X, const S* fixed, int64_t fixed_rows, const S* moving, S* out, int topics, const double* cost,
                 Shape shape, double* xlog, int threads, int padded, S* room, Options... options) {
    std::vector<double> inverse(topics);
    for (int k = 0; k < topics; ++k) inverse[k] = cost[k] > 0 ? 1 / cost[k] : 0;
    pad(fixed, fixed_rows, topics, padded, inverse.data(), room, threads);
    const int64_t longest = X.longest_row();
    const int32_t* index_end = X.indices + X.indptr[X.rows];
    for_row_blocks(row_blocks(X.indptr, X.rows), threads, [&] {
        return [&, method = Method(room, padded / 4, topics, longest, options...)](int64_t begin, int64_t end) mutable {
            method.index_end = index_end;
            method.has_prior = shape.data != nullptr;
            for (int64_t i = begin; i < end; ++i) {
                const int64_t start = X.indptr[i];
                const S* from = moving + i * topics;
                S* to = out + i * topics;
                method.index = X.indices + start;
                method.count = X.indptr[i + 1] - start;
                double total = 0;                      // t_i, the sum of its counts
                for (int64_t p = 0; p < method.count; ++p) total += X.data[start + p];
                if (method.count == 0) {
                    // no counts: the minimiser is the prior's mode, or zero
                    for (int k = 0; k < topics; ++k) to[k] = method.has_prior ? static_cast<S>(shape(i, k) * inverse[k]) : S(0);
                    if (xlog) xlog[i] = 0;
                    continue;
                }
                const double scale = 1 / total;
                method.total = total;
                for (int64_t p = 0; p < method.count; ++p) method.y[p] = X.data[start + p] * scale;
                for (int k = 0; k < topics; ++k) method.b[k] = std::max(share_floor, from[k] * (cost[k] * scale));
                for (int k = topics; k < padded; ++k) method.b[k] = 0;
                for (int k = 0; k < topics; ++k) method.prior[k] = method.has_prior ? shape(i, k) * scale : 0;
                method.solve();
                for (int k = 0; k < topics; ++k) to[k] = static_cast<S>(method.b[k] * total * inverse[k]);
                if (xlog) {
                    if constexpr (!Method::keeps_rates) method.rates();
                    xlog[i] = total * (method.sum_y_log_rate() + std::log(total));
                }
            }
        };
    });
}

}  // namespace unmix
