// Python bindings of sums over samples, the step they allow, and the transpose.
#include "arrays.hpp"
#include "sums.hpp"

namespace unmix {

template <class S>
static void add_sums_of(Scratch scratch, const Matrix& matrix, In2<S> left, In2<S> right, Out2<double> B, Out2<float> H,
                        std::optional<In2<S>> held_left, std::optional<In2<S>> held_right, int threads) {
    const Sparse& Xt = matrix.sparse();
    require_columns(Xt, left);
    require_aligned(left, right, B, H);
    const auto m = static_cast<std::size_t>(Xt.rows), K = left.shape(1);
    const int topics = topics_of(K);
    require(right.shape(0) == m && right.shape(1) == K, "the factors do not fit the matrix");
    require(B.shape(0) == m && B.shape(1) == K && H.shape(0) == m && H.shape(1) == static_cast<std::size_t>(curvature_size(topics)),
            "the sums have the wrong shape");
    Held<S> held;
    require(held_left.has_value() == held_right.has_value(), "held topics have columns in both factors");
    if (held_left) {
        require_aligned(held_left, held_right);
        require(held_left->shape(0) == left.shape(0) && held_right->shape(0) == m && held_left->shape(1) == held_right->shape(1),
                "the held topics do not fit the factors");
        held = {held_left->data(), held_right->data(), topics_of(held_left->shape(1))};
    }
    const TopicBlocks blocks(topics);
    float* room = room_in<float>(scratch, left.shape(0), blocks.padded());
    nb::gil_scoped_release release;
    const std::vector<double> ones(K, 1.0);
    std::vector<double> inverses(held.topics ? left.shape(0) : 0);
    pad_units(left.data(), left.shape(0), topics, blocks.padded(), ones.data(), room, held.topics ? inverses.data() : nullptr, threads);
    add_sums(Xt, room, right.data(), topics, blocks, held, inverses.data(), B.data(), H.data(), threads);
}

template <class S>
static void box_step_of(In2<S> F, Out2<S> out, In2<double> B, In2<float> H, Strided2 cost, In1<double> totals,
                        std::optional<Strided2> shape, int threads) {
    const auto m = F.shape(0), K = F.shape(1);
    const int topics = topics_of(K);
    require_aligned(F, out, B, H, cost, totals, shape);
    require(out.shape(0) == m && out.shape(1) == K && B.shape(0) == m && B.shape(1) == K && cost.shape(0) == m && cost.shape(1) == K && totals.shape(0) == m &&
            H.shape(0) == m && H.shape(1) == static_cast<std::size_t>(curvature_size(topics)), "the sums do not fit the factor");
    Shape prior{nullptr, 0, 0};
    if (shape) {
        require(shape->shape(0) == m && shape->shape(1) == K, "the prior has another shape than the factor");
        prior = {shape->data(), shape->stride(0), shape->stride(1)};
    }
    nb::gil_scoped_release release;
    box_step(F.data(), out.data(), static_cast<int64_t>(m), topics, B.data(), H.data(), {cost.data(), cost.stride(0), cost.stride(1)}, totals.data(), prior, threads);
}

template <class T>
static void transpose_of(const Matrix& matrix, Out1<int64_t> out_indptr, Out1<int32_t> out_indices, Out1<T> out_data, int threads) {
    const Sparse& X = matrix.sparse();
    const T* values;
    if constexpr (std::is_same_v<T, double>) values = X.data;
    else values = X.narrow;
    require(values, "the transpose has counts of the same type");
    require_aligned(out_indptr, out_indices, out_data);
    const auto columns = static_cast<int64_t>(out_indptr.shape(0)) - 1, nonzeros = matrix.nonzeros();
    require(columns >= X.columns && static_cast<int64_t>(out_indices.shape(0)) == nonzeros && static_cast<int64_t>(out_data.shape(0)) == nonzeros,
            "the results have the wrong shape");
    nb::gil_scoped_release release;
    transpose(X, values, columns, out_indptr.data(), out_indices.data(), out_data.data(), threads);
}

template <class S> static void bind(nb::module_& m) {
    using namespace nb::literals;
    m.def("add_sums", &add_sums_of<S>, "scratch"_a.noconvert(), "matrix"_a, "left"_a.noconvert(), "right"_a.noconvert(),
          "B"_a.noconvert(), "H"_a.noconvert(), "held_left"_a.noconvert().none(), "held_right"_a.noconvert().none(), "threads"_a);
    m.def("box_step", &box_step_of<S>, "F"_a.noconvert(), "out"_a.noconvert(), "B"_a.noconvert(), "H"_a.noconvert(), "cost"_a.noconvert(),
          "totals"_a.noconvert(), "shape"_a.noconvert().none(), "threads"_a);
}

void bind_sums(nb::module_& m) {
    using namespace nb::literals;
    bind<double>(m);
    bind<float>(m);
    m.def("curvature_size", [](std::size_t topics) { return curvature_size(topics_of(topics)); }, "topics"_a);
    m.def("transpose", &transpose_of<double>, "matrix"_a, "out_indptr"_a.noconvert(), "out_indices"_a.noconvert(), "out_data"_a.noconvert(),
          "threads"_a);
    m.def("transpose", &transpose_of<uint16_t>, "matrix"_a, "out_indptr"_a.noconvert(), "out_indices"_a.noconvert(), "out_data"_a.noconvert(),
          "threads"_a);
}

}  // namespace unmix
