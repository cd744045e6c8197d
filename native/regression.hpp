// One row of a half-step. With the other factor fixed, row i of the moving factor solves, in shares b_k = l_ik c_k / t_i,
//
//     minimise  phi(b) = sum_k b_k - sum_p y_p log(m_p . b) - sum_k s_k log b_k    over  b_k >= floor
//
// where p runs over the nonzeros of the row, y_p = x_p / t_i, m_pk = f_pk / c_k, c_k = (column sum of F) + (rate of the prior),
// s_k = (shape of the prior - 1) / t_i. Shares make the floor, the step rules and single precision curvature independent of scale.
//
// Where a unit of a topic costs c_k w_gk in rows of group g, and not c_k in all, shares are b_k = l_ik c_k w_g / t_i, w_g the mean of
// the group's w_gk, and sum_k b_k becomes sum_k (w_gk / w_g) b_k. A topic that costs nothing is not determined, or not allowed in
// these rows, and becomes zero.
//
// Held topics are not among these k. They add to the rates, m_p . b + o_p, and are not visited.
#pragma once
#include <cmath>
#include <memory>

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

// What a row update is given, and what a method does with it.
struct Row {
    int topics;
    const int32_t* index = nullptr;        // the row's nonzeros
    const int32_t* index_end = nullptr;    // end of the whole matrix, for prefetching past the row
    int64_t count = 0;
    double total = 0;                      // t_i, the sum of its counts
    double unit = 0;                       // t_i / w_g: what shares are multiplied by
    bool has_prior = false, weighted = false, has_offset = false;
    Buffer<double> y, b, prior;            // b and prior are padded with zeros
    Buffer<double> offset;                 // o_p, in the unit of shares
    Buffer<double> weight, inverse_weight; // w_gk / w_g, or one; and 1 / that, or zero where it is zero

    Row(int topics, int padded, int64_t longest) : topics(topics) {
        y.reserve(longest + 8);
        for (auto* buffer : {&b, &prior}) {
            buffer->reserve(padded);
            std::fill_n(buffer->data(), padded, 0.0);
        }
        for (auto* buffer : {&weight, &inverse_weight}) {
            buffer->reserve(padded);
            std::fill_n(buffer->data(), padded, 1.0);
        }
    }
    void weigh(const double* weights) {
        double mean = 0;
        for (int k = 0; k < topics; ++k) mean += weights[k];
        mean = mean > 0 ? mean / topics : 1;
        for (int k = 0; k < topics; ++k) {
            weight[k] = weights[k] / mean;
            inverse_weight[k] = weight[k] > 0 ? 1 / weight[k] : 0;
        }
        unit = total / mean;
    }
    virtual ~Row() = default;
    void enter(const Sparse& X, int64_t i) {
        const int64_t start = X.indptr[i];
        index = X.indices + start;
        index_end = X.index_end();
        count = X.indptr[i + 1] - start;
        X.read(start, count, y.data());
    }
    virtual void solve() {}                // moves b
    virtual double xlog() { return 0; }    // sum_p x_p log(rate_p) at b
};

// A row with its fixed factor in padded rows of m. S is the storage type of the factors. The loops over nonzeros and topics are
// compiled in regression.cpp, for every number of topics up to 16 and for more, once for all that use them.
template <class S> struct Regression : Row {
    struct Loops { void (*rates)(Regression&), (*first_rates)(Regression&), (*numerators)(Regression&); };

    const S* fixed;
    int vectors;                           // of 4 topics in a padded row
    Buffer<double> rate, ratio, numerator;
    Loops loops;

    Regression(const S* fixed, int vectors, int topics, int64_t longest)
        : Row(topics, 4 * vectors, longest), fixed(fixed), vectors(vectors), loops(loops_for(vectors)) {
        for (auto* buffer : {&rate, &ratio}) buffer->reserve(longest + 8);
        numerator.reserve(4 * vectors + 8);
    }
    static Loops loops_for(int vectors);

    void rates() { loops.rates(*this); add_offset(); }    // rate_p = m_p . b + o_p
    void first_rates() { loops.first_rates(*this); add_offset(); }    // the same on the first visit of a row: fetches ahead of need
    void add_offset() { if (has_offset) for (int64_t p = 0; p < count; ++p) rate[p] += offset[p]; }
    void numerators() { loops.numerators(*this); }        // numerator_k = sum_p ratio_p m_pk

    // One EM step: b_k <- (b_k sum_p y_p m_pk / rate_p + s_k) / weight_k, clipped at the floor (the exact minimiser of EM's bound there).
    void em_step(bool first_visit = false) {
        first_visit ? first_rates() : rates();
        for (int64_t p = 0; p < count; ++p) ratio[p] = y[p] / rate[p];
        numerators();
        for (int k = 0; k < topics; ++k) b[k] = std::max(share_floor, (b[k] * numerator[k] + prior[k]) * inverse_weight[k]);
    }

    double sum_y_log_rate() { return sum_y_log(y, rate, count); }

    double xlog() override {
        rates();
        return total * (sum_y_log_rate() + std::log(unit));
    }
};

// Rates and numerators of a row in double precision, straight from the fixed factor, whatever it is stored in. Its rows are neither
// padded nor aligned, so the last vector of topics overlaps the one before, with weights of zero where it does.
struct Exact {
    int topics, vectors;
    Buffer<double> weights, rate, ratio, numerator;

    Exact(int topics, int64_t longest) : topics(topics), vectors((topics + 3) / 4) {
        for (auto* buffer : {&rate, &ratio}) buffer->reserve(longest + 8);
        for (auto* buffer : {&weights, &numerator}) buffer->reserve(4 * vectors);
    }
    virtual ~Exact() = default;
    virtual void rates(const int32_t* index, const int32_t* index_end, int64_t count) = 0;       // rate_p = f_p . weights
    virtual void numerators(const int32_t* index, const double* y, int64_t count) = 0;           // numerator_k = sum_p y_p f_pk / rate_p

    int first(int v) const { return std::min(4 * v, std::max(0, topics - 4)); }
    template <class Weight> void weigh(const Weight& weight) {
        for (int v = 0; v < vectors; ++v)
            for (int k = 0; k < 4; ++k) {
                const int topic = first(v) + k;
                weights[4 * v + k] = topic >= 4 * v && topic < topics ? weight(topic) : 0;
            }
    }
};
template <class S> std::unique_ptr<Exact> exact_rows(const S* fixed, int topics, int64_t longest);

// Strided view of the prior's (shape - 1), broadcast with zero strides; data == nullptr means no prior.
struct Shape {
    const double* data;
    int64_t row_stride, column_stride;
    double operator()(int64_t i, int k) const { return data[i * row_stride + k * column_stride]; }
};

// Held topics: their columns of the fixed factor and of the moving one.
template <class S> struct Held {
    const S *fixed = nullptr, *moving = nullptr;
    int topics = 0;
    std::unique_ptr<Exact> rows(int64_t longest) const { return topics ? exact_rows(fixed, topics, longest) : nullptr; }
    // o_p of row i, whose nonzeros the method has entered
    void offset(Exact& exact, int64_t i, double unit, Row& method) const {
        exact.weigh([&](int k) { return moving[i * topics + k] / unit; });
        exact.rates(method.index, method.index_end, method.count);
        std::copy_n(exact.rate.data(), method.count, method.offset.data());
    }
};

// Weights w_gk of the cost, a row per group, and the group of each row (null: each is its own); data == nullptr means none.
struct Weights {
    const double* data;
    const int32_t* groups;
    const double* row(int64_t i, int topics) const { return data + (groups ? groups[i] : i) * topics; }
};

// Applies a method to every row; make_method(longest) makes one for a thread, a unique_ptr<Row>.
// `cost` holds c and `inverse` 1 / c; `out` may be `moving` itself. With `xlog`, also writes sum_p x_p log(rate_p) of each new row.
template <class S, class MakeMethod>
void update_rows(const Sparse& X, const S* moving, S* out, int topics, const double* cost, const double* inverse,
                 Shape shape, Weights weights, Held<S> held, double* xlog, int threads, const MakeMethod& make_method) {
    const bool has_prior = shape.data != nullptr, weighted = weights.data != nullptr;
    for_rows(X, threads, [&] {
        return [&, owned = make_method(X.longest), held_rows = held.rows(X.longest)](int64_t begin, int64_t end) {
            Row& method = *owned;
            method.has_prior = has_prior;
            method.weighted = weighted;
            method.has_offset = held_rows != nullptr;
            if (held_rows) method.offset.reserve(X.longest + 8);
            for (int64_t i = begin; i < end; ++i) {
                const S* from = moving + i * topics;
                S* to = out + i * topics;
                method.enter(X, i);
                const double total = method.total = method.unit = sum(method.y.data(), method.count);
                if (weighted) method.weigh(weights.row(i, topics));
                if (method.count == 0) {
                    // no counts: the minimiser is the prior's mode, or zero
                    for (int k = 0; k < topics; ++k) to[k] = S(0);
                    if (has_prior) for (int k = 0; k < topics; ++k) to[k] = static_cast<S>(shape(i, k) * inverse[k]);
                    if (has_prior && weighted) {
                        const double* w = weights.row(i, topics);
                        for (int k = 0; k < topics; ++k) to[k] = w[k] > 0 ? static_cast<S>(shape(i, k) * inverse[k] / w[k]) : S(0);
                    }
                    if (xlog) xlog[i] = 0;
                    continue;
                }
                const double scale = 1 / total, unit = method.unit, inverse_unit = weighted ? 1 / unit : scale;
                for (int64_t p = 0; p < method.count; ++p) method.y[p] *= scale;
                for (int k = 0; k < topics; ++k)
                    method.b[k] = method.weight[k] > 0 ? std::max(share_floor, from[k] * (cost[k] * inverse_unit)) : share_floor;
                if (has_prior) for (int k = 0; k < topics; ++k) method.prior[k] = method.weight[k] > 0 ? shape(i, k) * scale : 0;
                if (held_rows) held.offset(*held_rows, i, unit, method);
                method.solve();
                if (weighted) for (int k = 0; k < topics; ++k) if (!(method.weight[k] > 0)) method.b[k] = 0;
                for (int k = 0; k < topics; ++k) to[k] = static_cast<S>(method.b[k] * unit * inverse[k]);
                if (xlog) xlog[i] = method.xlog();
            }
        };
    });
}

}  // namespace unmix
