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

template <class S> inline Vec<double> load4_anywhere(const S* p) {          // at any address
    typedef S Four __attribute__((vector_size(4 * sizeof(S)), aligned(alignof(S)), may_alias));
    return __builtin_convertvector(*reinterpret_cast<const Four*>(p), Vec<double>);
}

// sum_p y_p log(rate_p), eight logarithms at a time; the arrays have room to fill the last eight up
inline double sum_y_log(Buffer<double>& y, Buffer<double>& rate, int64_t count) {
    const int64_t whole = round_up(count, 8);
    for (int64_t p = count; p < whole; ++p) { y[p] = 0; rate[p] = 1; }
    const double *yp = y.data(), *rp = rate.data();
    double total[8] = {};
    for (int64_t p = 0; p < whole; p += 8)
        for (int q = 0; q < 8; ++q) total[q] += yp[p + q] * fast_log(rp[p + q]);
    return ((total[0] + total[4]) + (total[1] + total[5])) + ((total[2] + total[6]) + (total[3] + total[7]));
}

// What a row update is given.
struct Row {
    int topics;
    const int32_t* index = nullptr;        // the row's nonzeros
    const int32_t* index_end = nullptr;    // end of the whole matrix, for prefetching past the row
    int64_t count = 0;
    double total = 0;                      // t_i, the sum of its counts
    bool has_prior = false;
    Buffer<double> y, b, prior;            // b and prior are padded with zeros

    Row(int topics, int padded, int64_t longest) : topics(topics) {
        y.reserve(longest + 8);
        for (auto* buffer : {&b, &prior}) {
            buffer->reserve(padded);
            std::fill_n(buffer->data(), padded, 0.0);
        }
    }
};

// A row with its fixed factor in padded rows of m. S is the storage type of the factors; V the number of 4-topic vectors in a
// padded row (0: known only at run time).
template <class S, int V> struct Regression : Row {
    const S* fixed;
    int vectors;
    Buffer<double> rate, ratio, numerator;

    Regression(const S* fixed, int vectors, int topics, int64_t longest)
        : Row(topics, 4 * vectors, longest), fixed(fixed), vectors(vectors) {
        for (auto* buffer : {&rate, &ratio}) buffer->reserve(longest + 8);
        numerator.reserve(4 * vectors + 8);
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

    double sum_y_log_rate() { return sum_y_log(y, rate, count); }

    // sum_p x_p log(rate_p) at b
    double xlog() {
        rates();
        return total * (sum_y_log_rate() + std::log(total));
    }
};

// Rates and numerators of a row in double precision, straight from the fixed factor: its rows are neither padded nor aligned, so
// the last vector of topics overlaps the one before, with weights of zero where it does.
template <class S> struct Exact {
    const S* fixed;
    int topics, vectors;
    Buffer<double> weights, rate, ratio, numerator;

    Exact(const S* fixed, int topics, int64_t longest) : fixed(fixed), topics(topics), vectors((topics + 3) / 4) {
        for (auto* buffer : {&rate, &ratio}) buffer->reserve(longest + 8);
        for (auto* buffer : {&weights, &numerator}) buffer->reserve(4 * vectors);
    }
    int first(int v) const { return std::min(4 * v, std::max(0, topics - 4)); }
    const S* row(int32_t j) const { return fixed + static_cast<int64_t>(j) * topics; }
    Vec<double> four(const S* p) const {
        if (topics >= 4) return load4_anywhere(p);
        Vec<double> v{};
        for (int k = 0; k < topics; ++k) v[k] = p[k];
        return v;
    }

    template <class Weight> void weigh(const Weight& weight) {
        for (int v = 0; v < vectors; ++v)
            for (int k = 0; k < 4; ++k) {
                const int topic = first(v) + k;
                weights[4 * v + k] = topic >= 4 * v && topic < topics ? weight(topic) : 0;
            }
    }
    // rate_p = f_p . weights
    void rates(const int32_t* index, const int32_t* index_end, int64_t count) {
        switch (vectors) {
            case 2: return rates_of<2>(index, index_end, count);
            case 3: return rates_of<3>(index, index_end, count);
            case 4: return rates_of<4>(index, index_end, count);
            case 5: return rates_of<5>(index, index_end, count);
            default: return rates_of<0>(index, index_end, count);
        }
    }
    template <int V> void rates_of(const int32_t* index, const int32_t* index_end, int64_t count) {
        constexpr int ahead = 24;
        const int bytes = (V ? 4 * V : topics) * static_cast<int>(sizeof(S));
        for (int64_t p = 0; p < count; p += 4) {
            const S* rows[4];
            Vec<double> total[4] = {};
            for (int q = 0; q < 4; ++q) {
                rows[q] = row(index[std::min(p + q, count - 1)]);
                if (index_end - index >= p + ahead + 4) {
                    const char* next = reinterpret_cast<const char*>(row(index[p + q + ahead]));
                    for (int line = 0; line < bytes; line += 64) __builtin_prefetch(next + line);
                }
            }
            for (int v = 0; v < (V ? V : vectors); ++v) {
                const Vec<double> w = load(weights.data() + 4 * v);
                for (int q = 0; q < 4; ++q) total[q] += (V ? load4_anywhere(rows[q] + first(v)) : four(rows[q] + first(v))) * w;
            }
            store(rate.data() + p, sums(total[0], total[1], total[2], total[3]));
        }
    }
    // numerator_k = sum_p y_p f_pk / rate_p
    void numerators(const int32_t* index, const double* y, int64_t count) {
        for (int64_t p = 0; p < count; ++p) ratio[p] = y[p] / rate[p];
        for (int v = 0; v < vectors; v += 4) {
            const int some = std::min(4, vectors - v);
            Vec<double> total[4] = {};
            for (int64_t p = 0; p < count; ++p) {
                const S* from = row(index[p]);
                for (int u = 0; u < some; ++u) total[u] += ratio[p] * four(from + first(v + u));
            }
            for (int u = 0; u < some; ++u)
                for (int k = 0; k < std::min(4, topics); ++k) numerator[first(v + u) + k] = total[u][k];
        }
    }
};

// Strided view of the prior's (shape - 1), broadcast with zero strides; data == nullptr means no prior.
struct Shape {
    const double* data;
    int64_t row_stride, column_stride;
    double operator()(int64_t i, int k) const { return data[i * row_stride + k * column_stride]; }
};

// Applies a method (a Row with members solve() and xlog()) to every row; make_method(longest) makes one for a thread.
// `cost` holds c and `inverse` 1 / c; `out` may be `moving` itself. With `xlog`, also writes sum_p x_p log(rate_p) of each new row.
template <class S, class MakeMethod>
void update_rows(const Sparse& X, const S* moving, S* out, int topics, const double* cost, const double* inverse,
                 Shape shape, double* xlog, int threads, const MakeMethod& make_method) {
    const int64_t longest = X.longest_row();
    const int32_t* index_end = X.indices + X.indptr[X.rows];
    const bool has_prior = shape.data != nullptr;
    for_row_blocks(row_blocks(X.indptr, X.rows), threads, [&] {
        return [&, method = make_method(longest)](int64_t begin, int64_t end) mutable {
            method.index_end = index_end;
            method.has_prior = has_prior;
            for (int64_t i = begin; i < end; ++i) {
                const int64_t start = X.indptr[i];
                const S* from = moving + i * topics;
                S* to = out + i * topics;
                method.index = X.indices + start;
                method.count = X.indptr[i + 1] - start;
                X.read(start, method.count, method.y.data());
                const double total = sum(method.y.data(), method.count);
                if (method.count == 0) {
                    // no counts: the minimiser is the prior's mode, or zero
                    for (int k = 0; k < topics; ++k) to[k] = has_prior ? static_cast<S>(shape(i, k) * inverse[k]) : S(0);
                    if (xlog) xlog[i] = 0;
                    continue;
                }
                const double scale = 1 / total;
                method.total = total;
                for (int64_t p = 0; p < method.count; ++p) method.y[p] *= scale;
                for (int k = 0; k < topics; ++k) method.b[k] = std::max(share_floor, from[k] * (cost[k] * scale));
                if (has_prior) for (int k = 0; k < topics; ++k) method.prior[k] = shape(i, k) * scale;
                method.solve();
                for (int k = 0; k < topics; ++k) to[k] = static_cast<S>(method.b[k] * total * inverse[k]);
                if (xlog) xlog[i] = method.xlog();
            }
        };
    });
}

}  // namespace unmix
