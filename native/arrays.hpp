// What the bindings share: the array types they take, and the checks before anything is computed. Whatever the arrays hold, no kernel
// reads or writes outside them; that nobody else changes them meanwhile is the caller's part.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <stdexcept>

#include "rows.hpp"

namespace unmix {

namespace nb = nanobind;

template <class T> using In1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Out1 = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Strided2 = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;
using Indptr = In1<int64_t>;
using Indices = In1<int32_t>;
using Data = In1<double>;
using Values = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;      // double or uint16
using Scratch = Out1<uint8_t>;        // memory for the padded copy of a factor

inline void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(what);
}

// NumPy allows numbers at any address; the compiler counts on multiples of their size.
template <class Array> bool is_aligned(const Array& array) {
    return reinterpret_cast<std::uintptr_t>(array.data()) % (array.dtype().bits / 8) == 0;
}
template <class Array> bool is_aligned(const std::optional<Array>& array) { return !array || is_aligned(*array); }
template <class... Arrays> void require_aligned(const Arrays&... arrays) {
    require((is_aligned(arrays) && ...), "an array does not begin at a multiple of its item size; give a copy of it");
}

// The number of topics: small enough that nothing computed from it, their products in `posteriors` apart, overflows an int.
inline int topics_of(std::size_t columns) {
    require(columns >= 1 && columns <= std::size_t(1) << 24, "give at least one topic, and at most 2^24");
    return static_cast<int>(columns);
}

// Rows that follow each other from the first to the last of `nonzeros`.
inline void require_rows(const Indptr& indptr, std::size_t nonzeros) {
    require(indptr.shape(0) >= 1, "indptr is empty; it needs a number more than there are rows");
    const int64_t *at = indptr.data(), *last = at + indptr.shape(0) - 1;
    require(*at == 0 && *last == static_cast<int64_t>(nonzeros), "indptr does not lead from 0 to the number of nonzeros");
    bool falls = false;
    for (; at < last; ++at) falls |= at[1] < at[0];
    require(!falls, "indptr falls");
}

template <class Array> Sparse sparse(const Indptr& indptr, const Indices& indices, const Array& values) {
    require(indices.shape(0) == values.shape(0), "indptr, indices and data do not fit together");
    const bool wide = values.dtype() == nb::dtype<double>();
    require(wide || values.dtype() == nb::dtype<uint16_t>(), "counts are float64 or uint16");
    require_aligned(indptr, indices, values);
    require_rows(indptr, values.shape(0));
    const void* first = values.data();
    return {indptr.data(), indices.data(), wide ? static_cast<const double*>(first) : nullptr,
            wide ? nullptr : static_cast<const uint16_t*>(first), static_cast<int64_t>(indptr.shape(0)) - 1};
}

inline void require_indices(const Indices& indices, std::size_t rows) {
    int32_t low = 0, high = -1;
    for (std::size_t p = 0; p < indices.shape(0); ++p) {
        low = std::min(low, indices.data()[p]);
        high = std::max(high, indices.data()[p]);
    }
    require(low >= 0 && high < static_cast<int64_t>(rows), "an index is negative, or beyond the rows of the fixed factor");
}

// Where in `scratch` a padded factor begins: at a cache line, as loads of whole vectors need it.
template <class S> inline S* room_in(const Scratch& scratch, std::size_t rows, int stride) {
    require(scratch.shape(0) >= padded_bytes(rows, stride, sizeof(S)), "the scratch array is too small for the padded factor");
    const auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
    return reinterpret_cast<S*>((address + cache_line - 1) / cache_line * cache_line);
}

// Calls f(Number<V>) with the number of 4-topic vectors as a constant for up to 16 topics, and 0 (known at run time) for more.
template <class F> inline void with_vectors(int topics, F&& f) {
    switch ((topics + 3) / 4) {
        case 1: return f(Number<1>{});
        case 2: return f(Number<2>{});
        case 3: return f(Number<3>{});
        case 4: return f(Number<4>{});
        default: return f(Number<0>{});
    }
}

void bind_updates(nb::module_& m);     // updates.cpp: em, cd, newton
void bind_passes(nb::module_& m);      // passes.cpp: pass_rows, gather_rows
void bind_beliefs(nb::module_& m);     // beliefs.cpp: log_means, infer
void bind_sampling(nb::module_& m);    // sampling.cpp: gibbs, icm, greedy, tally, log_factorials, filter
void bind_sums(nb::module_& m);         // sums.cpp: add_sums, box_step, curvature_size, transpose
void bind_special(nb::module_& m);     // special.cpp: digamma, log_gamma
void bind_posterior(nb::module_& m);   // posterior.cpp: posteriors

}  // namespace unmix
