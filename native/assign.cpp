// Python bindings of the search for the topics of a sample.
#include "arrays.hpp"
#include "assign.hpp"

namespace unmix {

template <class... Tables> static void require_rows(int64_t n, int64_t columns, const Tables&... tables) {
    require(((static_cast<int64_t>(tables.shape(0)) == n && static_cast<int64_t>(tables.shape(1)) == columns) && ...),
            "a result has the wrong shape");
}

static void assign_topics(const Matrix& matrix, In2<double> catalogue, In2<double> logs, In2<double> odds, std::optional<In1<int32_t>> groups,
                          std::optional<In2<uint8_t>> given, bool volume, double dispersion, int most, Out2<double> exposures,
                          Out2<double> probabilities, Out2<double> gains, Out2<double> numbers, Out2<uint8_t> chosen, int threads) {
    const Sparse& X = matrix.sparse();
    require_columns(X, catalogue);
    const int topics = topics_of(catalogue.shape(1));
    const int64_t n = X.rows, m = static_cast<int64_t>(catalogue.shape(0));
    require_aligned(catalogue, logs, odds, groups, exposures, probabilities, gains, numbers);
    require(logs.shape(0) == catalogue.shape(0) && logs.shape(1) == catalogue.shape(1), "the logarithms do not fit the catalogue");
    require(odds.shape(0) >= 1 && odds.shape(1) == catalogue.shape(1), "the odds do not fit the catalogue");
    require(most >= 1 && most <= topics && most < 1 << 13, "a set has at least one topic, and at most all");
    require_rows(n, topics, exposures, probabilities, gains, chosen);
    require_rows(n, 4, numbers);
    if (given) {
        require_rows(n, topics, *given);
        for (int64_t i = 0; i < n; ++i) {
            const int64_t many = topics - std::count(given->data() + i * topics, given->data() + (i + 1) * topics, 0);
            require(many >= 1 && many <= most, "a given set has no topic, or too many");
        }
    }
    if (groups) {
        require(static_cast<int64_t>(groups->shape(0)) == n, "there is a group for every row");
        require_below(groups->data(), n, odds.shape(0), "a group is not the number of a row of odds", 1);
    }
    const AssignOut out{exposures.data(), probabilities.data(), gains.data(), numbers.data(), chosen.data()};
    const AssignRule rule{volume, dispersion, most};
    const uint8_t* sets = given ? given->data() : nullptr;
    nb::gil_scoped_release release;
    for_rows(X, threads, [&] {
        return [&, sample = std::make_unique<Assigner>(catalogue.data(), logs.data(), m, topics, rule, X.longest)](int64_t begin, int64_t end) mutable {
            for (int64_t i = begin; i < end; ++i)
                sample->run(X, i, odds.data() + (groups ? groups->data()[i] : 0) * int64_t{topics}, sets, out);
        };
    });
}

static void residuals_of(const Matrix& matrix, In2<double> catalogue, In2<double> exposures, In2<uint8_t> chosen, uint64_t seed,
                         int draws, Out2<double> numbers, int threads) {
    const Sparse& X = matrix.sparse();
    require_columns(X, catalogue);
    const int topics = topics_of(catalogue.shape(1));
    require_aligned(catalogue, exposures, numbers);
    require(draws >= 1, "there is at least one draw");
    require_rows(X.rows, topics, exposures, chosen);
    require_rows(X.rows, 3, numbers);
    nb::gil_scoped_release release;
    for_rows(X, threads, [&] {
        return [&, sample = std::make_unique<Residuals>(catalogue.data(), static_cast<int64_t>(catalogue.shape(0)), topics)](int64_t begin, int64_t end) mutable {
            for (int64_t i = begin; i < end; ++i)
                sample->run(X, i, seed, draws, exposures.data() + i * topics, chosen.data() + i * topics, numbers.data() + i * 3);
        };
    });
}

void bind_assign(nb::module_& m) {
    using namespace nb::literals;
    m.def("assign_topics", &assign_topics, "matrix"_a, "catalogue"_a.noconvert(), "logs"_a.noconvert(), "odds"_a.noconvert(),
          "groups"_a.noconvert().none(), "given"_a.noconvert().none(), "volume"_a, "dispersion"_a, "most"_a, "exposures"_a.noconvert(),
          "probabilities"_a.noconvert(), "gains"_a.noconvert(), "numbers"_a.noconvert(), "chosen"_a.noconvert(), "threads"_a);
    m.def("residuals", &residuals_of, "matrix"_a, "catalogue"_a.noconvert(), "exposures"_a.noconvert(), "chosen"_a.noconvert(),
          "seed"_a, "draws"_a, "numbers"_a.noconvert(), "threads"_a);
}

}  // namespace unmix
