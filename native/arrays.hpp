// What the bindings share: the matrix and the array types they take, and the checks before anything is computed. Whatever the arrays
// hold, no kernel reads or writes outside them; that no other thread changes them during a call is the caller's part.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <type_traits>
#include <utility>

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

// A sparse matrix, made once and taken by every kernel. Offsets of rows are copied. Indices and values stay where they are: kept alive,
// but whoever owns them may still write to them. So threads check indices again (`for_rows`), and samplers the values.
class Matrix {
  public:
    Matrix(Indptr indptr, nb::object indices, nb::object values)
        : indices_(std::move(indices)), values_(std::move(values)), arrays_(arrays()) {
        const auto& [index, value] = arrays_;
        const bool wide = value.dtype() == nb::dtype<double>();
        require(wide || value.dtype() == nb::dtype<uint16_t>(), "counts are float64 or uint16");
        require(index.shape(0) == value.shape(0), "indptr, indices and data do not fit together");
        require_aligned(indptr, index, value);
        require(indptr.shape(0) >= 1, "indptr is empty; it needs one number more than there are rows");
        nb::gil_scoped_release release;
        indptr_.assign(indptr.data(), indptr.data() + indptr.shape(0));
        require(indptr_.front() == 0 && indptr_.back() == nonzeros(), "indptr does not lead from 0 to the number of nonzeros");
        require(std::is_sorted(indptr_.begin(), indptr_.end()), "indptr falls");
        uint32_t highest = 0;
        for (int64_t p = 0; p < nonzeros(); ++p) highest = std::max(highest, static_cast<uint32_t>(index.data()[p]));
        require(highest >> 31 == 0, "a column index is negative");
        const void* first = value.data();
        sparse_.emplace(indptr_.data(), index.data(), wide ? static_cast<const double*>(first) : nullptr,
                        wide ? nullptr : static_cast<const uint16_t*>(first), static_cast<int64_t>(indptr_.size()) - 1,
                        nonzeros() == 0 ? 0 : int64_t{highest} + 1);
    }
    Matrix(const Matrix&) = delete;

    int64_t nonzeros() const { return static_cast<int64_t>(arrays_.first.shape(0)); }
    const Sparse& sparse() const {         // unless an array was resized in place, which NumPy can be made to do
        const auto [index, value] = arrays();
        require(same(index, arrays_.first) && same(value, arrays_.second), "an array of the matrix was resized after it was made; make it again");
        return *sparse_;
    }

  private:
    std::pair<Indices, Values> arrays() const {
        std::pair<Indices, Values> found;
        require(nb::try_cast(indices_, found.first, false), "indices must be a one-dimensional, contiguous array of int32");
        require(nb::try_cast(values_, found.second, false), "data must be a one-dimensional, contiguous array");
        return found;
    }
    template <class Array> static bool same(const Array& one, const Array& other) {
        return one.data() == other.data() && one.shape(0) == other.shape(0) && one.dtype() == other.dtype();
    }
    nb::object indices_, values_;
    std::pair<Indices, Values> arrays_;
    std::vector<int64_t> indptr_;
    std::optional<Sparse> sparse_;
};

// The factor that a row of the matrix is multiplied by has a row for every column.
template <class Factor> void require_columns(const Sparse& X, const Factor& fixed) {
    require(static_cast<int64_t>(fixed.shape(0)) >= X.columns, "the fixed factor has fewer rows than the matrix has columns");
}

// Whether all numbers are below `bound`, and none negative; the threads look.
template <class T> void require_below(const T* numbers, int64_t count, uint64_t bound, const char* what, int threads) {
    for_row_blocks(even_blocks(count), threads, [&] {
        return [&](int64_t begin, int64_t end) {
            std::make_unsigned_t<T> highest = 0;
            for (int64_t i = begin; i < end; ++i) highest = std::max(highest, static_cast<std::make_unsigned_t<T>>(numbers[i]));
            require(highest < bound, what);
        };
    });
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

void bind_updates(nb::module_& m);     // updates.cpp: Matrix, em, cd, newton
void bind_passes(nb::module_& m);      // passes.cpp: pass_rows, gather_rows
void bind_beliefs(nb::module_& m);     // beliefs.cpp: log_means, infer, means_of_rates
void bind_sampling(nb::module_& m);    // sampling.cpp: gibbs, icm, greedy, tally, log_factorials, filter
void bind_sums(nb::module_& m);         // sums.cpp: add_sums, box_step, curvature_size, transpose
void bind_special(nb::module_& m);     // special.cpp: digamma, log_gamma
void bind_posterior(nb::module_& m);   // posterior.cpp: posteriors
void bind_assign(nb::module_& m);      // assign.cpp: assign_topics, residuals

}  // namespace unmix
