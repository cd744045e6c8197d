// What variational inference adds to the pass over the nonzeros: geometric means of Gamma (or Dirichlet) variables,
// and the loop that infers the rows of one factor while the other stays.
#pragma once
#include "regression.hpp"
#include "special.hpp"

namespace unmix {

// E_ik = digamma(g_ik) + offset_ik,   shift_i = max_k E_ik,   geometric_ik = exp(E_ik - shift_i),
// term_i = sum_k [ log Gamma(g_ik) + (prior_ik - g_ik) digamma(g_ik) ].
// Taking the largest out of each row keeps exp from underflowing where all g of a row are small.
inline void log_means(const double* shape, int64_t rows, int topics, Shape offset, Shape prior, double* geometric,
                      double* shift, double* term, int threads) {
    constexpr int64_t block = 256;
    std::vector<int64_t> cuts;
    for (int64_t i = 0; i < rows; i += block) cuts.push_back(i);
    cuts.push_back(rows);
    for_row_blocks(cuts, threads, [&] {
        Buffer<double> digammas, log_gammas;
        digammas.reserve(block * topics);
        log_gammas.reserve(block * topics);
        return [&, psi = std::move(digammas), lgamma = std::move(log_gammas)](int64_t begin, int64_t end) mutable {
            const double* g = shape + begin * topics;
            double *p = psi.data(), *l = lgamma.data(), *out = geometric + begin * topics;
            const int64_t entries = (end - begin) * topics;
            for (int64_t e = 0; e < entries; ++e) {
                const Stepped s = stepped(g[e]);
                const double log_y = fast_log(s.y);
                p[e] = digamma_of(s, log_y);
                l[e] = log_gamma_of(s, log_y);
            }
            for (int64_t i = begin; i < end; ++i) {
                const int64_t first = (i - begin) * topics;
                double highest = -std::numeric_limits<double>::infinity(), total = 0;
                for (int k = 0; k < topics; ++k) {
                    total += l[first + k] + (prior(i, k) - g[first + k]) * p[first + k];
                    out[first + k] = p[first + k] + offset(i, k);
                    highest = std::max(highest, out[first + k]);
                }
                for (int k = 0; k < topics; ++k) out[first + k] -= highest;
                shift[i] = highest;
                term[i] = total;
            }
            for (int64_t e = 0; e < entries; ++e) out[e] = fast_exp(out[e]);
        };
    });
}

// Where entries ~ Gamma(a_k, xi) with xi ~ Gamma(c, rate) of their row, beliefs are, with the mean xi of the second one,
//
//     Gamma(g_k, xi + cost_k)   and   Gamma(shape, rate + sum_k g_k / (xi + cost_k)),   shape = c + sum_k a_k
//
// Given g and cost, xi is the root of  rate xi + sum_k g_k xi / (xi + cost_k) = shape. The left side rises and is concave, so
// Newton's method from below the root stays below it, and converges. With shape 0 there is no xi, only costs that differ from row to row.
struct Hierarchy {
    const double* cost;                    // a number per topic, of the first row; null: there is none
    int64_t step;                          // from row to row: 0 if all have the same costs
    double shape, rate;
    Hierarchy of(int64_t row) const { return {cost ? cost + row * step : nullptr, 0, shape, rate}; }
    double mean(const double* g, int topics) const {
        if (shape == 0) return 0;
        double most = rate, xi;
        for (int k = 0; k < topics; ++k) most += g[k] / cost[k];
        xi = shape / most;
        for (int round = 0; round < 100; ++round) {
            double value = rate * xi - shape, slope = rate;
            for (int k = 0; k < topics; ++k) {
                const double part = g[k] / (xi + cost[k]);
                value += part * xi;
                slope += part * cost[k] / (xi + cost[k]);
            }
            const double step = -value / slope;
            if (!(step > 4e-16 * xi)) break;
            xi += step;
        }
        return xi;
    }
};

inline void means_of_rates(const double* g, int64_t rows, int topics, const Hierarchy& hierarchy, double* out, int threads) {
    for_row_blocks(even_blocks(rows), threads, [&] {
        return [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) out[i] = hierarchy.of(i).mean(g + i * topics, topics);
        };
    });
}

// One row of the loop  g_k <- prior_k + b_k sum_p x_p m_pk / (m_p . b),  b = exp(digamma(g)),  until it stands still;
// with a hierarchy, b = exp(digamma(g)) / (xi + cost), xi the mean that belongs to g.
struct Inference final : Regression<double> {
    Buffer<double> g;
    Inference(const double* fixed, int vectors, int topics, int64_t longest) : Regression<double>(fixed, vectors, topics, longest) {
        g.reserve(4 * vectors + 8);
        for (int k = 0; k < 4 * vectors; ++k) g[k] = 1;     // padding: any number that digamma takes
    }
    void infer(const double* prior, const Hierarchy& hierarchy, int steps, double enough) {
        const int padded = 4 * vectors;
        double *b = this->b.data(), *numerator = this->numerator.data();
        for (int s = 0; s < steps; ++s) {
            for (int k = 0; k < padded; ++k) b[k] = digamma(g[k]);
            const double highest = *std::max_element(b, b + topics);
            for (int k = 0; k < padded; ++k) b[k] = fast_exp(b[k] - highest);
            for (int k = topics; k < padded; ++k) b[k] = 0;
            if (hierarchy.cost) {
                const double xi = hierarchy.mean(g.data(), topics);
                for (int k = 0; k < topics; ++k) b[k] /= xi + hierarchy.cost[k];
            }
            s == 0 ? first_rates() : rates();
            for (int64_t p = 0; p < count; ++p) ratio[p] = y[p] / rate[p];
            numerators();
            double change = 0, size = 0;
            for (int k = 0; k < topics; ++k) {
                const double next = prior[k] + b[k] * numerator[k];
                change += std::abs(next - g[k]);
                size += next;
                g[k] = next;
            }
            if (change <= enough * size) break;
        }
    }
};

// Rows without counts get the prior. `scale` multiplies the columns of `fixed`; `room` is for its padded rows.
inline void infer(const Sparse& X, const double* fixed, int64_t fixed_rows, const double* scale, const double* start, double* out, int topics,
           int padded, double* room, const double* prior, const Hierarchy& hierarchy, int steps, double enough, int threads) {
    pad(fixed, fixed_rows, topics, padded, scale, room, threads);
    for_rows(X, threads, [&] {
        return [&, row = Inference(room, padded / 4, topics, X.longest)](int64_t begin, int64_t end) mutable {
            for (int64_t i = begin; i < end; ++i) {
                row.enter(X, i);
                if (row.count == 0) {
                    std::copy_n(prior, topics, out + i * topics);
                    continue;
                }
                std::copy_n(start + i * topics, topics, row.g.data());
                row.infer(prior, hierarchy.of(i), steps, enough);
                std::copy_n(row.g.data(), topics, out + i * topics);
            }
        };
    });
}

}  // namespace unmix
