// Python bindings of the label samplers. Labels, tables and generators of several chains stand one after another.
#include "sampling.hpp"

#include "arrays.hpp"

namespace unmix {

template <class T> using Out3 = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Labels = Out2<uint16_t>;         // chains x tokens
using ByMember = Out3<int32_t>;        // chains x columns (or rows) x stride
using ByTopic = Out2<int32_t>;         // chains x stride
using Generators = Out2<uint64_t>;     // chains x 4

namespace {

int label_topics(std::size_t topics) {
    require(topics >= 1 && topics < std::size_t(1) << 16, "labels are numbers of 16 bits; give between 1 and 65,535 topics");
    return static_cast<int>(topics);
}

// A matrix that tokens are counted from, which its values say exactly.
const Sparse& wide(const Matrix& matrix) {
    const Sparse& X = matrix.sparse();
    require(X.data, "labels are given to counts of float64");
    return X;
}

// Labels of every token of X, and each the number of a topic.
void require_labels(const Sparse& X, int topics, const Labels& labels, int threads) {
    std::atomic<int64_t> tokens{0};
    for_rows(X, threads, [&] {
        return [&](int64_t begin, int64_t end) {
            int64_t here = 0;
            bool whole = true;
            for (int64_t p = X.indptr[begin]; p < X.indptr[end]; ++p) {
                const double x = X.data[p];
                const bool counts = x >= 0 && x <= std::numeric_limits<int32_t>::max();
                const auto count = static_cast<int64_t>(counts ? x : 0);
                whole &= counts && static_cast<double>(count) == x;
                here += count;
            }
            require(whole, "labels are given to whole numbers of tokens, none below 0 and none above 2,147,483,647");
            tokens += here;
        };
    });
    require(static_cast<int64_t>(labels.shape(1)) == tokens, "give a label to every token");
    require_below(labels.data(), labels.size(), topics, "a label is not the number of a topic", threads);
}

struct Model {
    std::vector<double> beta;
    Prior prior;
    int topics, stride;
    Model(const In1<double>& alpha, const In1<double>& beta_) : topics(label_topics(beta_.shape(0))), stride(padded_topics(topics)) {
        require_aligned(alpha, beta_);
        beta.assign(stride, 0.0);
        std::copy_n(beta_.data(), topics, beta.begin());
        double sum = 0;
        for (std::size_t j = 0; j < alpha.shape(0); ++j) sum += alpha.data()[j];
        prior = {alpha.data(), sum, beta.data()};
    }
};

struct Chains {
    Labels labels;
    ByMember by_column, by_row;
    ByTopic by_topic;
    int topics, stride;
    Chains(const Sparse& X, std::size_t columns, int topics, Labels& z, ByMember& c, ByMember& r, ByTopic& t)
        : labels(z), by_column(c), by_row(r), by_topic(t), topics(topics), stride(padded_topics(topics)) {
        const auto width = static_cast<std::size_t>(stride);
        require_aligned(z, c, r, t);
        require(X.columns <= static_cast<int64_t>(columns) && c.shape(1) == columns && c.shape(2) == width &&
                r.shape(1) == static_cast<std::size_t>(X.rows) && r.shape(2) == width && t.shape(1) == width, "the tables do not fit the matrix");
        require(c.shape(0) == count() && r.shape(0) == count() && t.shape(0) == count(), "give tables to every chain");
    }
    std::size_t count() const { return labels.shape(0); }
    uint16_t* label(int64_t c) const { return labels.data() + c * static_cast<int64_t>(labels.shape(1)); }
    Tables tables(int64_t c) const {
        return {by_column.data() + c * static_cast<int64_t>(by_column.shape(1)) * stride, by_row.data() + c * static_cast<int64_t>(by_row.shape(1)) * stride,
                by_topic.data() + c * stride, topics, stride};
    }
};

Xoshiro& generator(Generators& random, int64_t c) { return *reinterpret_cast<Xoshiro*>(random.data() + 4 * c); }

void gibbs(const Matrix& matrix, In1<double> alpha, In1<double> beta, Labels labels, ByMember by_column, ByMember by_row,
           ByTopic by_topic, Generators random, int sweeps, int threads) {
    const Sparse& X = wide(matrix);
    const Model model(alpha, beta);
    const Chains chains(X, alpha.shape(0), model.topics, labels, by_column, by_row, by_topic);
    require_aligned(random);
    require(random.shape(0) == chains.count() && random.shape(1) == 4, "give a generator to every chain");
    nb::gil_scoped_release release;
    require_labels(X, chains.topics, labels, threads);
    with_vectors(model.topics, [&](auto v) {
        for_each_chain(chains.count(), threads, [&](int64_t c, auto& poll) {
            for (int s = 0; s < sweeps; ++s)
                gibbs_sweep<decltype(v)::value>(X, model.prior, chains.label(c), chains.tables(c), generator(random, c), poll);
        });
    });
}

int64_t icm(const Matrix& matrix, In1<double> alpha, In1<double> beta, Labels labels, ByMember by_column, ByMember by_row, ByTopic by_topic) {
    const Sparse& X = wide(matrix);
    const Model model(alpha, beta);
    const Chains chains(X, alpha.shape(0), model.topics, labels, by_column, by_row, by_topic);
    nb::gil_scoped_release release;
    require_labels(X, chains.topics, labels, 1);
    std::atomic<int64_t> moved{0};
    for_each_chain(chains.count(), 1, [&](int64_t c, auto& poll) { moved += icm_sweep(X, model.prior, chains.label(c), chains.tables(c), poll); });
    return moved;
}

void greedy_start(const Matrix& matrix, In1<double> alpha, In1<double> beta, In1<int64_t> order, Labels labels, ByMember by_column,
                  ByMember by_row, ByTopic by_topic) {
    const Sparse& X = wide(matrix);
    const Model model(alpha, beta);
    const Chains chains(X, alpha.shape(0), model.topics, labels, by_column, by_row, by_topic);
    require_aligned(order);
    require(static_cast<int64_t>(order.shape(0)) == matrix.nonzeros(), "order needs a number a nonzero");
    nb::gil_scoped_release release;
    require_labels(X, chains.topics, labels, 1);
    std::vector<int64_t> row(order.shape(0)), first(order.shape(0));
    int64_t tokens = 0;
    for (int64_t i = 0; i < X.rows; ++i)
        for (int64_t p = X.indptr[i]; p < X.indptr[i + 1]; ++p) {
            row[p] = i;
            first[p] = tokens;
            tokens += static_cast<int64_t>(X.data[p]);
        }
    std::vector<bool> met(row.size());
    for (std::size_t q = 0; q < order.shape(0); ++q) {
        const auto p = static_cast<uint64_t>(order.data()[q]);
        require(p < met.size() && !met[p], "order must be a permutation of the nonzeros");
        met[p] = true;
    }
    for_each_chain(chains.count(), 1, [&](int64_t c, auto& poll) {
        greedy(X, model.prior, order.data(), row.data(), first.data(), chains.label(c), chains.tables(c), poll);
    });
}

void tally_labels(const Matrix& matrix, std::size_t topics, Labels labels, ByMember by_column, ByMember by_row, ByTopic by_topic, int threads) {
    const Sparse& X = wide(matrix);
    const Chains chains(X, by_column.shape(1), label_topics(topics), labels, by_column, by_row, by_topic);
    nb::gil_scoped_release release;
    require_labels(X, chains.topics, labels, threads);
    for_each_chain(chains.count(), threads, [&](int64_t c, auto&) { tally(X, chains.label(c), chains.tables(c)); });
}

void sum_log_factorials(const Matrix& matrix, std::size_t columns, Labels labels, Out1<double> out, int threads) {
    const Sparse& X = wide(matrix);
    const int topics = label_topics(columns);
    require_aligned(labels, out);
    require(out.shape(0) == labels.shape(0), "give a number to every chain");
    nb::gil_scoped_release release;
    require_labels(X, topics, labels, threads);
    for_each_chain(out.shape(0), threads, [&](int64_t c, auto&) {
        out.data()[c] = log_factorials(X, labels.data() + c * static_cast<int64_t>(labels.shape(1)), topics);
    });
}

void filter(In1<int64_t> rows, In1<int32_t> columns, In1<double> alpha, In1<double> beta, Generators random, Out1<double> out, int particles, int threads) {
    const Model model(alpha, beta);
    require(particles >= 1, "give one particle or more");
    require_aligned(rows, columns, random, out);
    if (alpha.shape(0) > (std::size_t(1) << 48) / static_cast<std::size_t>(particles) / model.stride) throw std::bad_alloc();
    require(rows.shape(0) == columns.shape(0), "give a row and a column to every token");
    require(random.shape(0) == out.shape(0) && random.shape(1) == 4, "give a generator to every run");
    nb::gil_scoped_release release;
    require_below(columns.data(), columns.shape(0), alpha.shape(0), "a token has a column that is not one of a feature", threads);
    for_each_chain(out.shape(0), threads, [&](int64_t c, auto& poll) {
        Filter run(model.prior, particles, alpha.shape(0), model.topics, model.stride, generator(random, c));
        out.data()[c] = run.run(rows.data(), columns.data(), rows.shape(0), poll);
    });
}

}  // namespace

void bind_sampling(nb::module_& m) {
    using namespace nb::literals;
    m.def("gibbs", &gibbs, "matrix"_a, "alpha"_a.noconvert(), "beta"_a.noconvert(),
          "labels"_a.noconvert(), "by_column"_a.noconvert(), "by_row"_a.noconvert(), "by_topic"_a.noconvert(), "random"_a.noconvert(), "sweeps"_a, "threads"_a);
    m.def("icm", &icm, "matrix"_a, "alpha"_a.noconvert(), "beta"_a.noconvert(),
          "labels"_a.noconvert(), "by_column"_a.noconvert(), "by_row"_a.noconvert(), "by_topic"_a.noconvert());
    m.def("greedy", &greedy_start, "matrix"_a, "alpha"_a.noconvert(), "beta"_a.noconvert(),
          "order"_a.noconvert(), "labels"_a.noconvert(), "by_column"_a.noconvert(), "by_row"_a.noconvert(), "by_topic"_a.noconvert());
    m.def("tally", &tally_labels, "matrix"_a, "topics"_a, "labels"_a.noconvert(),
          "by_column"_a.noconvert(), "by_row"_a.noconvert(), "by_topic"_a.noconvert(), "threads"_a);
    m.def("log_factorials", &sum_log_factorials, "matrix"_a, "topics"_a, "labels"_a.noconvert(),
          "out"_a.noconvert(), "threads"_a);
    m.def("filter", &filter, "rows"_a.noconvert(), "columns"_a.noconvert(), "alpha"_a.noconvert(), "beta"_a.noconvert(), "random"_a.noconvert(),
          "out"_a.noconvert(), "particles"_a, "threads"_a);
}

}  // namespace unmix
