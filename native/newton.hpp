// Newton's method on the rows, in two precisions; newton.cpp says how.
#pragma once
#include "regression.hpp"

namespace unmix {

constexpr float least_unit = 1e-18f;        // smaller entries of a scaled row count as zero: their squares would underflow

// Rows of `fixed`, column k multiplied by scale[k], each divided by its largest entry and padded with zeros to `stride`. With
// `inverses`, also writes what each was multiplied by.
template <class S>
void pad_units(const S* fixed, int64_t rows, int topics, int stride, const double* scale, float* units, double* inverses, int threads) {
    for_row_blocks(even_blocks(rows), threads, [&] {
        return [&, entries = std::vector<double>(topics)](int64_t begin, int64_t end) mutable {
            for (int64_t i = begin; i < end; ++i) {
                double largest = 0;
                for (int k = 0; k < topics; ++k) largest = std::max(largest, entries[k] = fixed[i * topics + k] * scale[k]);
                const double inverse = largest > 0 ? 1 / largest : 0;
                if (inverses) inverses[i] = inverse;
                float* row = units + i * stride;
                for (int k = 0; k < topics; ++k) {
                    const float unit = static_cast<float>(entries[k] * inverse);
                    row[k] = unit < least_unit ? 0 : unit;
                }
                for (int k = topics; k < stride; ++k) row[k] = 0;
            }
        };
    });
}

struct Newton : Row {
    Buffer<double> numerator;              // sum_p y_p m_pk / rate_p of one block of topics
    Buffer<float> H;                       // its curvature, on and below the diagonal
    const double* inverses = nullptr;      // of rows of the fixed factor, where there are held topics
    using Row::Row;
    virtual void look() = 0;               // the row is new: before moments()
    virtual void moments(int first) = 0;   // numerators and curvature of the block from `first` on, in single precision
};

// `units` are the padded rows of the fixed factor, `exact` those it has itself, null if moments() is all that is wanted;
// a row that gains less than `enough` by one of up to `rounds` needs no further one.
std::unique_ptr<Newton> newton_row(const float* units, std::unique_ptr<Exact> exact, const double* inverse, int topics, int64_t longest,
                                   int rounds, double enough);

}  // namespace unmix
