// Python bindings of the matrix and of the row updates em, cd and newton.
#include "arrays.hpp"
#include "cd.hpp"
#include "em.hpp"
#include "newton.hpp"

namespace unmix {

struct Rows {       // what the three row updates are called with
    const Sparse& X;
    int64_t fixed_rows;
    int topics;
    Shape shape{nullptr, 0, 0};
    Weights weights{nullptr, nullptr};
    double* xlog = nullptr;
};

template <class S>
static Rows rows(const Matrix& matrix, const In2<S>& fixed, const In2<S>& moving, const Out2<S>& out, const In1<double>& cost,
                 const std::optional<Strided2>& shape, const std::optional<In2<double>>& weights, const std::optional<In1<int32_t>>& groups,
                 const std::optional<Out1<double>>& xlog, int threads) {
    Rows r{matrix.sparse(), static_cast<int64_t>(fixed.shape(0)), topics_of(fixed.shape(1))};
    require_columns(r.X, fixed);
    require_aligned(fixed, moving, out, cost, shape, weights, groups, xlog);
    const auto n = static_cast<std::size_t>(r.X.rows), K = static_cast<std::size_t>(r.topics);
    require(moving.shape(0) == n && out.shape(0) == n, "the moving factor has another number of rows than the matrix");
    require(moving.shape(1) == K && out.shape(1) == K && cost.shape(0) == K, "the factors differ in their number of topics");
    if (shape) {
        require(shape->shape(0) == n && shape->shape(1) == K, "the prior has another shape than the moving factor");
        r.shape = {shape->data(), shape->stride(0), shape->stride(1)};
    }
    if (weights) {
        require(weights->shape(1) == K && (groups ? groups->shape(0) : weights->shape(0)) == n, "the weights of the cost do not fit the rows");
        if (groups) require_below(groups->data(), n, weights->shape(0), "a group has no weights", threads);
        r.weights = {weights->data(), groups ? groups->data() : nullptr};
    }
    require(weights || !groups, "groups of rows need weights");
    if (xlog) {
        require(xlog->shape(0) == n, "xlog needs a number a row");
        r.xlog = xlog->data();
    }
    return r;
}

template <class S> static Held<S> held_topics(const Rows& r, const std::optional<In2<S>>& fixed, const std::optional<In2<S>>& moving) {
    require(fixed.has_value() == moving.has_value(), "held topics have columns in both factors");
    if (!fixed) return {};
    require_aligned(fixed, moving);
    require(static_cast<int64_t>(fixed->shape(0)) == r.fixed_rows && static_cast<int64_t>(moving->shape(0)) == r.X.rows &&
            fixed->shape(1) == moving->shape(1), "the held topics do not fit the factors");
    return {fixed->data(), moving->data(), topics_of(fixed->shape(1))};
}

#define ROW_ARGS                                                                                                              \
    Scratch scratch, const Matrix& matrix, In2<S> fixed, In2<S> moving, Out2<S> out, In1<double> cost,                           \
        std::optional<Strided2> shape, std::optional<In2<double>> weights, std::optional<In1<int32_t>> groups,               \
        std::optional<In2<S>> held_fixed, std::optional<In2<S>> held_moving, std::optional<Out1<double>> xlog, int threads
#define ROW_NAMES                                                                                                             \
    "scratch"_a.noconvert(), "matrix"_a, "fixed"_a.noconvert(), "moving"_a.noconvert(), "out"_a.noconvert(),                    \
        "cost"_a.noconvert(), "shape"_a.noconvert().none(), "weights"_a.noconvert().none(), "groups"_a.noconvert().none(), "held_fixed"_a.noconvert().none(), \
        "held_moving"_a.noconvert().none(), "xlog"_a.noconvert().none(), "threads"_a

static std::vector<double> one_over(const In1<double>& cost) {
    std::vector<double> inverse(cost.shape(0));
    for (std::size_t k = 0; k < inverse.size(); ++k) inverse[k] = cost.data()[k] > 0 ? 1 / cost.data()[k] : 0;
    return inverse;
}

// A method that reads padded rows of the fixed factor; make(room, vectors, longest) makes one.
template <class S, class Make>
static void update(const Rows& r, const Held<S>& held, const Scratch& scratch, const In2<S>& fixed, const In2<S>& moving,
                   const Out2<S>& out, const In1<double>& cost, int threads, const Make& make) {
    const int padded = padded_topics(r.topics);
    S* room = room_in<S>(scratch, r.fixed_rows, padded);
    nb::gil_scoped_release release;
    const std::vector<double> inverse = one_over(cost);
    pad(fixed.data(), r.fixed_rows, r.topics, padded, inverse.data(), room, threads);
    update_rows(r.X, moving.data(), out.data(), r.topics, cost.data(), inverse.data(), r.shape, r.weights, held, r.xlog, threads,
                [&](int64_t longest) -> std::unique_ptr<Row> { return make(room, padded / 4, longest); });
}

template <class S> static void em(ROW_ARGS, int steps) {
    const Rows r = rows<S>(matrix, fixed, moving, out, cost, shape, weights, groups, xlog, threads);
    update<S>(r, held_topics<S>(r, held_fixed, held_moving), scratch, fixed, moving, out, cost, threads, [&](const S* room, int vectors, int64_t longest) {
        return std::make_unique<EM<S>>(room, vectors, r.topics, longest, steps);
    });
}

template <class S> static void cd(ROW_ARGS, int sweeps, int rule, bool rest) {
    require(rule >= 0 && rule <= static_cast<int>(Rule::sn), "the rule is 0, 1 or 2");
    const Rows r = rows<S>(matrix, fixed, moving, out, cost, shape, weights, groups, xlog, threads);
    update<S>(r, held_topics<S>(r, held_fixed, held_moving), scratch, fixed, moving, out, cost, threads, [&](const S* room, int vectors, int64_t longest) {
        return std::make_unique<CD<S>>(room, vectors, r.topics, longest, sweeps, rule, rest);
    });
}

template <class S> static void newton(ROW_ARGS, int rounds, double enough) {
    const Rows r = rows<S>(matrix, fixed, moving, out, cost, shape, weights, groups, xlog, threads);
    const Held<S> held = held_topics<S>(r, held_fixed, held_moving);
    const TopicBlocks blocks(r.topics);
    float* room = room_in<float>(scratch, r.fixed_rows, blocks.padded());
    nb::gil_scoped_release release;
    const std::vector<double> inverse = one_over(cost);
    std::vector<double> inverses(held.topics ? r.fixed_rows : 0);
    pad_units(fixed.data(), r.fixed_rows, r.topics, blocks.padded(), inverse.data(), room, held.topics ? inverses.data() : nullptr, threads);
    auto make = [&](int64_t longest) -> std::unique_ptr<Row> {
        auto row = newton_row(room, exact_rows(fixed.data(), r.topics, longest), inverse.data(), r.topics, longest, rounds, enough);
        row->inverses = inverses.data();
        return row;
    };
    update_rows(r.X, moving.data(), out.data(), r.topics, cost.data(), inverse.data(), r.shape, r.weights, held, r.xlog, threads, make);
}

template <class S> static void bind(nb::module_& m) {
    using namespace nb::literals;
    m.def("em", &em<S>, ROW_NAMES, "steps"_a);
    m.def("cd", &cd<S>, ROW_NAMES, "sweeps"_a, "rule"_a, "rest"_a);
    m.def("newton", &newton<S>, ROW_NAMES, "rounds"_a, "enough"_a);
}

void bind_updates(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Matrix>(m, "Matrix", nb::is_final())
        .def(nb::init<Indptr, nb::object, nb::object>(), "indptr"_a.noconvert(), "indices"_a, "data"_a);
    bind<double>(m);
    bind<float>(m);
    // enough for every kernel: whoever keeps one array for all of them asks once
    m.def("scratch_bytes", [](std::size_t rows, std::size_t columns, std::size_t item) {
        const int topics = topics_of(columns);
        return std::max(padded_bytes(rows, padded_topics(topics), item), padded_bytes(rows, TopicBlocks(topics).padded(), sizeof(float)));
    }, "rows"_a, "topics"_a, "item"_a);
}

}  // namespace unmix
