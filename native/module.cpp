// The Python face of the kernels: arrays in, arrays out, the GIL released. Compiled once per instruction set.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <stdexcept>

#include "cd.hpp"
#include "em.hpp"
#include "newton.hpp"
#include "pass.hpp"

namespace nb = nanobind;
using namespace unmix;

template <class T> using In1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Out1 = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Strided2 = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;
using Indptr = In1<int64_t>;
using Indices = In1<int32_t>;
using Data = In1<double>;

static void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(what);
}

static Sparse sparse(const Indptr& indptr, const Indices& indices, const Data& data) {
    require(indptr.shape(0) >= 1 && indices.shape(0) == data.shape(0), "indptr, indices and data do not fit together");
    require(indptr.data()[indptr.shape(0) - 1] == static_cast<int64_t>(data.shape(0)), "indptr does not end at the number of nonzeros");
    return {indptr.data(), indices.data(), data.data(), static_cast<int64_t>(indptr.shape(0)) - 1};
}

static void require_indices(const Indices& indices, std::size_t rows) {
    int32_t low = 0, high = -1;
    for (std::size_t p = 0; p < indices.shape(0); ++p) {
        low = std::min(low, indices.data()[p]);
        high = std::max(high, indices.data()[p]);
    }
    require(low >= 0 && high < static_cast<int64_t>(rows), "the matrix has more columns than the fixed factor has rows");
}

template <int N> struct Number { static constexpr int value = N; };

// Calls f(Number<V>) with the number of 4-topic vectors as a constant for up to 16 topics, and 0 (known at run time) for more.
template <class F> static void with_vectors(int topics, F&& f) {
    switch ((topics + 3) / 4) {
        case 1: return f(Number<1>{});
        case 2: return f(Number<2>{});
        case 3: return f(Number<3>{});
        case 4: return f(Number<4>{});
        default: return f(Number<0>{});
    }
}

struct Rows {       // what the three row updates are called with
    Sparse X;
    int64_t fixed_rows;
    int topics;
    Shape shape{nullptr, 0, 0};
    double* xlog = nullptr;
};

template <class S>
static Rows rows(const Indptr& indptr, const Indices& indices, const Data& data, const In2<S>& fixed, const In2<S>& moving,
                 const Out2<S>& out, const In1<double>& cost, const std::optional<Strided2>& shape,
                 const std::optional<Out1<double>>& xlog) {
    Rows r{sparse(indptr, indices, data), static_cast<int64_t>(fixed.shape(0)), static_cast<int>(fixed.shape(1))};
    require_indices(indices, fixed.shape(0));
    const auto n = static_cast<std::size_t>(r.X.rows), K = static_cast<std::size_t>(r.topics);
    require(moving.shape(0) == n && out.shape(0) == n, "the moving factor has another number of rows than the matrix");
    require(K >= 1 && moving.shape(1) == K && out.shape(1) == K && cost.shape(0) == K, "the factors differ in their number of topics");
    if (shape) {
        require(shape->shape(0) == n && shape->shape(1) == K, "the prior has another shape than the moving factor");
        r.shape = {shape->data(), shape->stride(0), shape->stride(1)};
    }
    if (xlog) {
        require(xlog->shape(0) == n, "xlog needs a number a row");
        r.xlog = xlog->data();
    }
    return r;
}

#define ROW_ARGS                                                                                                              \
    Indptr indptr, Indices indices, Data data, In2<S> fixed, In2<S> moving, Out2<S> out, In1<double> cost,                    \
        std::optional<Strided2> shape, std::optional<Out1<double>> xlog, int threads
#define ROW_NAMES                                                                                                             \
    "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(), "fixed"_a.noconvert(), "moving"_a.noconvert(),        \
        "out"_a.noconvert(), "cost"_a.noconvert(), "shape"_a.noconvert().none(), "xlog"_a.noconvert().none(), "threads"_a

template <class S> void em(ROW_ARGS, int steps) {
    const Rows r = rows<S>(indptr, indices, data, fixed, moving, out, cost, shape, xlog);
    nb::gil_scoped_release release;
    const int padded = round_up(r.topics, 4);
    with_vectors(r.topics, [&](auto v) {
        update_rows<EM<S, decltype(v)::value>>(r.X, fixed.data(), r.fixed_rows, moving.data(), out.data(), r.topics, cost.data(),
                                               r.shape, r.xlog, threads, padded, steps);
    });
}

template <class S> void cd(ROW_ARGS, int sweeps, int rule) {
    const Rows r = rows<S>(indptr, indices, data, fixed, moving, out, cost, shape, xlog);
    nb::gil_scoped_release release;
    const int padded = round_up(r.topics, 4);
    with_vectors(r.topics, [&](auto v) {
        update_rows<CD<S, decltype(v)::value>>(r.X, fixed.data(), r.fixed_rows, moving.data(), out.data(), r.topics, cost.data(),
                                               r.shape, r.xlog, threads, padded, sweeps, rule);
    });
}

template <class S> void newton(ROW_ARGS, int rounds, double enough) {
    const Rows r = rows<S>(indptr, indices, data, fixed, moving, out, cost, shape, xlog);
    nb::gil_scoped_release release;
    auto call = [&](auto v, auto block, int padded) {
        update_rows<Newton<S, decltype(v)::value, decltype(block)::value>>(r.X, fixed.data(), r.fixed_rows, moving.data(), out.data(),
                                                                           r.topics, cost.data(), r.shape, r.xlog, threads, padded, rounds, enough);
    };
    const int blocks = (r.topics + 15) / 16, block = round_up((r.topics + blocks - 1) / blocks, 4);
    const int padded = blocks * block;
    if (blocks == 1) {
        switch (block) {
            case 4: return call(Number<1>{}, Number<4>{}, padded);
            case 8: return call(Number<2>{}, Number<8>{}, padded);
            case 12: return call(Number<3>{}, Number<12>{}, padded);
            default: return call(Number<4>{}, Number<16>{}, padded);
        }
    }
    return block == 12 ? call(Number<0>{}, Number<12>{}, padded) : call(Number<0>{}, Number<16>{}, padded);
}

template <class S>
void pass_rows(Indptr indptr, Indices indices, Data data, In2<S> left, In2<S> right, std::optional<Out2<double>> numerators,
               std::optional<Out1<double>> xlog, std::optional<Out1<double>> ratio, int threads) {
    const Sparse X = sparse(indptr, indices, data);
    const int topics = static_cast<int>(left.shape(1));
    const auto n = static_cast<std::size_t>(X.rows);
    require(left.shape(0) == n && right.shape(1) == left.shape(1), "the factors do not fit the matrix");
    require_indices(indices, right.shape(0));
    require(!numerators || (numerators->shape(0) == n && numerators->shape(1) == left.shape(1)), "numerators must be shaped like the left factor");
    require(!xlog || xlog->shape(0) == n, "xlog needs a number a row");
    require(!ratio || ratio->shape(0) == data.shape(0), "ratio needs a number a nonzero");
    nb::gil_scoped_release release;
    const int padded = round_up(topics, 4);
    with_vectors(topics, [&](auto v) {
        pass<S, decltype(v)::value>(X, left.data(), right.data(), right.shape(0), topics, padded, numerators ? numerators->data() : nullptr,
                                    xlog ? xlog->data() : nullptr, ratio ? ratio->data() : nullptr, threads);
    });
}

template <class S>
void gather_rows(Indptr indptr, Indices indices, In1<int64_t> order, In1<double> ratio, In2<S> left, Out2<double> numerators, int threads) {
    const Sparse Xt = sparse(indptr, indices, ratio);
    const int topics = static_cast<int>(left.shape(1));
    require(order.shape(0) == ratio.shape(0), "order needs a number a nonzero");
    require_indices(indices, left.shape(0));
    require(numerators.shape(0) == static_cast<std::size_t>(Xt.rows) && numerators.shape(1) == left.shape(1), "numerators must be shaped like the right factor");
    nb::gil_scoped_release release;
    const int padded = round_up(topics, 4);
    with_vectors(topics, [&](auto v) {
        gather_ratios<S, decltype(v)::value>(Xt, order.data(), ratio.data(), left.data(), left.shape(0), topics, padded, numerators.data(), threads);
    });
}

template <class S> void bind(nb::module_& m) {
    using namespace nb::literals;
    m.def("em", &em<S>, ROW_NAMES, "steps"_a);
    m.def("cd", &cd<S>, ROW_NAMES, "sweeps"_a, "rule"_a);
    m.def("newton", &newton<S>, ROW_NAMES, "rounds"_a, "enough"_a);
    m.def("pass_rows", &pass_rows<S>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(), "left"_a.noconvert(),
          "right"_a.noconvert(), "numerators"_a.noconvert().none(), "xlog"_a.noconvert().none(), "ratio"_a.noconvert().none(), "threads"_a);
    m.def("gather_rows", &gather_rows<S>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "order"_a.noconvert(), "ratio"_a.noconvert(),
          "left"_a.noconvert(), "numerators"_a.noconvert(), "threads"_a);
}

NB_MODULE(UNMIX_MODULE, m) {
    bind<double>(m);
    bind<float>(m);
    m.def("cpu_supports", [](const std::string& isa) {
#if defined(__x86_64__)
        if (isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        if (isa == "avx512") return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
        return isa == "baseline";
    });
}
