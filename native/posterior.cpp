// Python bindings of the posteriors of features' rates.
#include "arrays.hpp"
#include "posterior.hpp"

namespace unmix {

static void posteriors_of(Scratch scratch, const Matrix& matrix, std::size_t begin, In2<double> weights, In1<double> sums, In1<double> rates,
                          double shape, double start, std::optional<In2<double>> gram,
                          std::optional<In1<int32_t>> labels, std::optional<In2<double>> group_sums, Out2<double> modes,
                          Out2<double> covariances, Out2<double> thirds, std::optional<Out2<double>> robust, Out1<double> pearson,
                          Out1<int32_t> rounds, int threads) {
    const Sparse& all = matrix.sparse();
    require_columns(all, weights);
    const auto m = rates.shape(0), n = static_cast<std::size_t>(all.rows), K = weights.shape(1), packed = K * (K + 1) / 2;
    const int topics = topics_of(K);
    require(K < std::size_t(1) << 15, "matrices of topics by topics are for fewer than 32,768 topics");
    require_aligned(weights, sums, rates, gram, labels, group_sums, modes, covariances, thirds, robust, pearson, rounds);
    require(begin <= n && m <= n - begin, "there are more rates than features from the first on");
    require(sums.shape(0) == K && shape > 0, "the prior does not fit the weights and the matrix");
    require(modes.shape(0) == m && modes.shape(1) == K && thirds.shape(0) == m && thirds.shape(1) == K && covariances.shape(0) == m &&
            covariances.shape(1) == packed && pearson.shape(0) == m && rounds.shape(0) == m, "the results have the wrong shape");
    Spread how;
    if (gram) {
        require(gram->shape(0) == K && gram->shape(1) == K, "the products of weights have the wrong shape");
        how.gram = gram->data();
    }
    if (labels) {
        require(!gram && group_sums && group_sums->shape(0) >= 2 && group_sums->shape(1) == K && labels->shape(0) == weights.shape(0),
                "the groups do not fit the weights");
        const auto groups = static_cast<int32_t>(group_sums->shape(0));
        how.labels = labels->data();
        how.group_sums = group_sums->data();
        how.groups = groups;
    }
    require(how.wanted() == robust.has_value(), "robust covariances need the products of weights, or groups");
    if (robust) require(robust->shape(0) == m && robust->shape(1) == packed, "the results have the wrong shape");
    const PosteriorOut out{modes.data(), covariances.data(), thirds.data(), robust ? robust->data() : nullptr, pearson.data(), rounds.data()};
    const int padded = padded_topics(topics);
    double* room = room_in<double>(scratch, weights.shape(0), padded);
    nb::gil_scoped_release release;
    if (labels) require_below(how.labels, labels->shape(0), how.groups, "a label is not the number of a group", threads);
    const Sparse Xt = all.part(begin, begin + m);
    const std::vector<double> ones(K, 1.0);
    pad(weights.data(), weights.shape(0), topics, padded, ones.data(), room, threads);
    with_vectors(topics, [&](auto v) {
        posteriors<decltype(v)::value>(Xt, room, topics, padded, sums.data(), rates.data(), shape, start, how, out, threads);
    });
}

void bind_posterior(nb::module_& m) {
    using namespace nb::literals;
    m.def("posteriors", &posteriors_of, "scratch"_a.noconvert(), "matrix"_a, "begin"_a, "weights"_a.noconvert(), "sums"_a.noconvert(),
          "rates"_a.noconvert(), "shape"_a, "start"_a, "gram"_a.noconvert().none(), "labels"_a.noconvert().none(),
          "group_sums"_a.noconvert().none(), "modes"_a.noconvert(), "covariances"_a.noconvert(), "thirds"_a.noconvert(), "robust"_a.noconvert().none(),
          "pearson"_a.noconvert(), "rounds"_a.noconvert(), "threads"_a);
}

}  // namespace unmix
