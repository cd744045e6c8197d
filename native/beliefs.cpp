// Python bindings of what variational inference needs.
#include "arrays.hpp"
#include "beliefs.hpp"

namespace unmix {

static void log_means_of(In2<double> shape, Strided2 offset, Strided2 prior, Out2<double> geometric, Out1<double> shift,
                         Out1<double> term, int threads) {
    const auto n = shape.shape(0), K = shape.shape(1);
    const int topics = topics_of(K);
    require_aligned(shape, offset, prior, geometric, shift, term);
    require(offset.shape(0) == n && offset.shape(1) == K, "offset has another shape than the parameters");
    require(prior.shape(0) == n && prior.shape(1) == K, "the prior has another shape than the parameters");
    require(geometric.shape(0) == n && geometric.shape(1) == K && shift.shape(0) == n && term.shape(0) == n, "the results have the wrong shape");
    nb::gil_scoped_release release;
    log_means(shape.data(), n, topics, {offset.data(), offset.stride(0), offset.stride(1)},
              {prior.data(), prior.stride(0), prior.stride(1)}, geometric.data(), shift.data(), term.data(), threads);
}

static int64_t step_of(const std::optional<In2<double>>& cost) {
    return cost && cost->shape(0) > 1 ? static_cast<int64_t>(cost->shape(1)) : 0;
}

static void infer_rows(Scratch scratch, const Matrix& matrix, In2<double> fixed, In1<double> scale, In2<double> start, Out2<double> out,
                       In1<double> prior, std::optional<In2<double>> cost, double shape, double rate, int steps, double enough, int threads) {
    const Sparse& X = matrix.sparse();
    require_columns(X, fixed);
    require_aligned(fixed, scale, start, out, prior, cost);
    const auto n = static_cast<std::size_t>(X.rows), K = fixed.shape(1);
    require(start.shape(0) == n && out.shape(0) == n, "the parameters have another number of rows than the matrix");
    require(start.shape(1) == K && out.shape(1) == K && scale.shape(0) == K && prior.shape(0) == K && (!cost || cost->shape(1) == K),
            "the arrays differ in their number of topics");
    require(!cost || cost->shape(0) == 1 || cost->shape(0) == n, "costs have another number of rows than the matrix");
    const int topics = topics_of(K), padded = padded_topics(topics);
    double* room = room_in<double>(scratch, fixed.shape(0), padded);
    nb::gil_scoped_release release;
    infer(X, fixed.data(), fixed.shape(0), scale.data(), start.data(), out.data(), topics, padded, room, prior.data(),
          {cost ? cost->data() : nullptr, step_of(cost), shape, rate}, steps, enough, threads);
}

static void means_of(In2<double> parameters, In2<double> cost, double shape, double rate, Out1<double> out, int threads) {
    require_aligned(parameters, cost, out);
    const int topics = topics_of(parameters.shape(1));
    require(cost.shape(1) == parameters.shape(1) && (cost.shape(0) == 1 || cost.shape(0) == parameters.shape(0)) && out.shape(0) == parameters.shape(0), "the arrays do not fit together");
    nb::gil_scoped_release release;
    means_of_rates(parameters.data(), parameters.shape(0), topics, {cost.data(), step_of(std::optional(cost)), shape, rate}, out.data(), threads);
}

void bind_beliefs(nb::module_& m) {
    using namespace nb::literals;
    m.def("log_means", &log_means_of, "shape"_a.noconvert(), "offset"_a.noconvert(), "prior"_a.noconvert(), "geometric"_a.noconvert(),
          "shift"_a.noconvert(), "term"_a.noconvert(), "threads"_a);
    m.def("infer", &infer_rows, "scratch"_a.noconvert(), "matrix"_a, "fixed"_a.noconvert(), "scale"_a.noconvert(),
          "start"_a.noconvert(), "out"_a.noconvert(), "prior"_a.noconvert(), "cost"_a.noconvert().none(), "shape"_a,
          "rate"_a, "steps"_a, "enough"_a, "threads"_a);
    m.def("means_of_rates", &means_of, "parameters"_a.noconvert(), "cost"_a.noconvert(), "shape"_a, "rate"_a, "out"_a.noconvert(), "threads"_a);
}

}  // namespace unmix
