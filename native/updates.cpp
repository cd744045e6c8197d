// Python bindings of the row updates em, cd and newton.
#include "arrays.hpp"
#include "cd.hpp"
#include "em.hpp"
#include "newton.hpp"

namespace unmix {

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

template <class S> static void em(ROW_ARGS, int steps) {
    const Rows r = rows<S>(indptr, indices, data, fixed, moving, out, cost, shape, xlog);
    nb::gil_scoped_release release;
    const int padded = round_up(r.topics, 4);
    with_vectors(r.topics, [&](auto v) {
        update_rows<EM<S, decltype(v)::value>>(r.X, fixed.data(), r.fixed_rows, moving.data(), out.data(), r.topics, cost.data(),
                                               r.shape, r.xlog, threads, padded, steps);
    });
}

template <class S> static void cd(ROW_ARGS, int sweeps, int rule) {
    const Rows r = rows<S>(indptr, indices, data, fixed, moving, out, cost, shape, xlog);
    nb::gil_scoped_release release;
    const int padded = round_up(r.topics, 4);
    with_vectors(r.topics, [&](auto v) {
        update_rows<CD<S, decltype(v)::value>>(r.X, fixed.data(), r.fixed_rows, moving.data(), out.data(), r.topics, cost.data(),
                                               r.shape, r.xlog, threads, padded, sweeps, rule);
    });
}

template <class S> static void newton(ROW_ARGS, int rounds, double enough) {
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

template <class S> static void bind(nb::module_& m) {
    using namespace nb::literals;
    m.def("em", &em<S>, ROW_NAMES, "steps"_a);
    m.def("cd", &cd<S>, ROW_NAMES, "sweeps"_a, "rule"_a);
    m.def("newton", &newton<S>, ROW_NAMES, "rounds"_a, "enough"_a);
}

void bind_updates(nb::module_& m) {
    bind<double>(m);
    bind<float>(m);
}

}  // namespace unmix
