// Python bindings of the pass over the nonzeros.
#include "arrays.hpp"
#include "pass.hpp"

namespace unmix {

template <class S>
static void pass_rows(Scratch scratch, const Matrix& matrix, In2<S> left, In2<S> right,
                      std::optional<Out2<double>> numerators, std::optional<Out1<double>> xlog, std::optional<Out1<double>> ratio,
                      int threads) {
    const Sparse& X = matrix.sparse();
    require_aligned(left, right, numerators, xlog, ratio);
    const int topics = topics_of(left.shape(1));
    const auto n = static_cast<std::size_t>(X.rows);
    require(left.shape(0) == n && right.shape(1) == left.shape(1), "the factors do not fit the matrix");
    require_columns(X, right);
    require(!numerators || (numerators->shape(0) == n && numerators->shape(1) == left.shape(1)), "numerators must be shaped like the left factor");
    require(!xlog || xlog->shape(0) == n, "xlog needs a number a row");
    require(!ratio || static_cast<int64_t>(ratio->shape(0)) == matrix.nonzeros(), "ratio needs a number a nonzero");
    const int padded = padded_topics(topics);
    S* room = room_in<S>(scratch, right.shape(0), padded);
    nb::gil_scoped_release release;
    pass(X, left.data(), right.data(), right.shape(0), topics, padded, room, numerators ? numerators->data() : nullptr,
         xlog ? xlog->data() : nullptr, ratio ? ratio->data() : nullptr, threads);
}

template <class S>
static void gather_rows(Scratch scratch, const Matrix& matrix, In1<int64_t> order, In1<double> ratio, In2<S> left, Out2<double> numerators,
                        int threads) {
    const Sparse& Xt = matrix.sparse();
    require_aligned(order, ratio, left, numerators);
    const int topics = topics_of(left.shape(1));
    require(order.shape(0) == ratio.shape(0) && static_cast<int64_t>(ratio.shape(0)) == matrix.nonzeros(),
            "order and ratio need a number per nonzero");
    require_columns(Xt, left);
    require(numerators.shape(0) == static_cast<std::size_t>(Xt.rows) && numerators.shape(1) == left.shape(1), "numerators must be shaped like the right factor");
    const int padded = padded_topics(topics);
    S* room = room_in<S>(scratch, left.shape(0), padded);
    nb::gil_scoped_release release;
    gather_ratios(Xt, order.data(), ratio.data(), left.data(), left.shape(0), topics, padded, room, numerators.data(), threads);
}

template <class S> static void bind(nb::module_& m) {
    using namespace nb::literals;
    m.def("pass_rows", &pass_rows<S>, "scratch"_a.noconvert(), "matrix"_a, "left"_a.noconvert(), "right"_a.noconvert(),
          "numerators"_a.noconvert().none(), "xlog"_a.noconvert().none(), "ratio"_a.noconvert().none(), "threads"_a);
    m.def("gather_rows", &gather_rows<S>, "scratch"_a.noconvert(), "matrix"_a, "order"_a.noconvert(), "ratio"_a.noconvert(),
          "left"_a.noconvert(), "numerators"_a.noconvert(), "threads"_a);
}

void bind_passes(nb::module_& m) {
    bind<double>(m);
    bind<float>(m);
}

}  // namespace unmix
