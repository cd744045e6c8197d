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
    Scratch scratch, Indptr indptr, Indices indices, Data data, In2<S> fixed, In2<S> moving, Out2<S> out, In1<double> cost,   \
        std::optional<Strided2> shape, std::optional<Out1<double>> xlog, int threads
#define ROW_NAMES                                                                                                             \
    "scratch"_a.noconvert(), "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(), "fixed"_a.noconvert(),       \
        "moving"_a.noconvert(), "out"_a.noconvert(), "cost"_a.noconvert(), "shape"_a.noconvert().none(),                    \
        "xlog"_a.noconvert().none(), "threads"_a

template <class S> static void em(ROW_ARGS, int steps) {
    const Rows r = rows<S>(indptr, indices, data, fixed, moving, out, cost, shape, xlog);
    const int padded = padded_topics(r.topics);
    S* room = room_in<S>(scratch, r.fixed_rows, padded);
    nb::gil_scoped_release release;
    with_vectors(r.topics, [&](auto v) {
        update_rows<EM<S, decltype(v)::value>>(r.X, fixed.data(), r.fixed_rows, moving.data(), out.data(), r.topics, cost.data(),
                                               r.shape, r.xlog, threads, padded, room, steps);
    });
}

template <class S> static void cd(ROW_ARGS, int sweeps, int rule) {
    const Rows r = rows<S>(indptr, indices, data, fixed, moving, out, cost, shape, xlog);
    const int padded = padded_topics(r.topics);
    S* room = room_in<S>(scratch, r.fixed_rows, padded);
    nb::gil_scoped_release release;
    with_vectors(r.topics, [&](auto v) {
        update_rows<CD<S, decltype(v)::value>>(r.X, fixed.data(), r.fixed_rows, moving.data(), out.data(), r.topics, cost.data(),
                                               r.shape, r.xlog, threads, padded, room, sweeps, rule);
    });
}

template <class S> static void newton(ROW_ARGS, int rounds, double enough) {
    const Rows r = rows<S>(indptr, indices, data, fixed, moving, out, cost, shape, xlog);
    const TopicBlocks blocks(r.topics);
    const int padded = blocks.padded();
    S* room = room_in<S>(scratch, r.fixed_rows, padded);
    nb::gil_scoped_release release;
    auto call = [&](auto v, auto block) {
        update_rows<Newton<S, decltype(v)::value, decltype(block)::value>>(r.X, fixed.data(), r.fixed_rows, moving.data(), out.data(),
                                                                           r.topics, cost.data(), r.shape, r.xlog, threads, padded, room, rounds, enough);
    };
    if (blocks.count == 1) {
        switch (blocks.size) {
            case 4: return call(Number<1>{}, Number<4>{});
            case 8: return call(Number<2>{}, Number<8>{});
            case 12: return call(Number<3>{}, Number<12>{});
            default: return call(Number<4>{}, Number<16>{});
        }
    }
    return blocks.size == 12 ? call(Number<0>{}, Number<12>{}) : call(Number<0>{}, Number<16>{});
}

template <class S> static void bind(nb::module_& m) {
    using namespace nb::literals;
    m.def("em", &em<S>, ROW_NAMES, "steps"_a);
    m.def("cd", &cd<S>, ROW_NAMES, "sweeps"_a, "rule"_a);
    m.def("newton", &newton<S>, ROW_NAMES, "rounds"_a, "enough"_a);
}

void bind_updates(nb::module_& m) {
    using namespace nb::literals;
    bind<double>(m);
    bind<float>(m);
    // enough for every kernel, since Newton pads most: whoever keeps one array for all of them asks once
    m.def("scratch_bytes", [](std::size_t rows, int topics, std::size_t item) {
        return padded_bytes(rows, TopicBlocks(topics).padded(), item);
    }, "rows"_a, "topics"_a, "item"_a);
}

}  // namespace unmix
