// The pass over the nonzeros that every model without coordinate descent is made of:
//
//     rate_p = l_i . f_j,   ratio_p = x_p / rate_p,   A_ik = sum_j ratio f_jk,   xlog_i = sum_j x log rate
//
// and, from the stored ratios, B_jk = sum_i ratio l_ik by walking the transpose (`order` maps its entries to those of X).
#pragma once
#include <stdexcept>

#include "regression.hpp"

namespace unmix {

// Any of `numerators` (n x K), `xlog` (n) and `ratio` (nonzeros) may be null. `room` is for the padded rows of `right`.
template <class S>
void pass(const Sparse& X, const S* left, const S* right, int64_t right_rows, int topics, int padded, S* room, double* numerators,
          double* xlog, double* ratio, int threads) {
    const std::vector<double> ones(topics, 1.0);
    pad(right, right_rows, topics, padded, ones.data(), room, threads);
    for_rows(X, threads, [&] {
        return [&, row = Regression<S>(room, padded / 4, topics, X.longest)](int64_t begin, int64_t end) mutable {
            for (int64_t i = begin; i < end; ++i) {
                row.enter(X, i);
                for (int k = 0; k < padded; ++k) row.b[k] = k < topics ? left[i * topics + k] : 0;
                row.first_rates();
                if (xlog) xlog[i] = row.sum_y_log_rate();
                for (int64_t p = 0; p < row.count; ++p) row.ratio[p] = row.y[p] / row.rate[p];
                if (ratio) std::copy_n(row.ratio.data(), row.count, ratio + X.indptr[i]);
                if (numerators) {
                    row.numerators();
                    std::copy_n(row.numerator.data(), topics, numerators + i * topics);
                }
            }
        };
    });
}

template <class S>
void gather_ratios(const Sparse& Xt, const int64_t* order, const double* ratio, const S* left, int64_t left_rows, int topics,
                   int padded, S* room, double* numerators, int threads) {
    const std::vector<double> ones(topics, 1.0);
    pad(left, left_rows, topics, padded, ones.data(), room, threads);
    const auto nonzeros = static_cast<uint64_t>(Xt.indptr[Xt.rows]);
    for_rows(Xt, threads, [&] {
        return [&, row = Regression<S>(room, padded / 4, topics, Xt.longest)](int64_t begin, int64_t end) mutable {
            for (int64_t j = begin; j < end; ++j) {
                const int64_t start = Xt.indptr[j];
                row.index = Xt.indices + start;
                row.count = Xt.indptr[j + 1] - start;
                const int64_t* from = order + start;
                bool outside = false;                     // looked for here, while `from` is in the cache, not beforehand
                for (int64_t p = 0; p < row.count; ++p) outside |= static_cast<uint64_t>(from[p]) >= nonzeros;
                if (outside) throw std::invalid_argument("order has a number that is not one of a nonzero");
                for (int64_t p = 0; p < row.count; ++p) row.ratio[p] = ratio[from[p]];
                row.numerators();
                std::copy_n(row.numerator.data(), topics, numerators + j * topics);
            }
        };
    });
}

}  // namespace unmix
