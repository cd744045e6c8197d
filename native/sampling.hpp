// Labels of single counts (tokens) in the allocation model: collapsed Gibbs sweeps, ICM, greedy assignment, particle filter.
//
// Tokens stand in row order, the x_ij tokens of a nonzero side by side. Tables of counts have `stride` columns: the topics, padded
// with zeros to a multiple of 4. Nothing here may be contracted to fused multiply-adds: labels are the same on every CPU.
#pragma once
#include <cmath>
#include <cstring>

#include "random.hpp"
#include "rows.hpp"

namespace unmix {

struct Prior {
    const double* alpha;               // one a feature
    double alpha_sum;
    const double* beta;                // one a topic, padded with zeros, so that padded topics have no weight
};

struct Tables {                        // how many tokens have label k, by feature, by sample and in all
    int32_t *by_column, *by_row, *by_topic;
    int topics, stride;
};

struct Stopped {};

// Calls task(c, poll) for c < count, one c at a time a thread. A task calls poll() now and then: it throws once the run must end.
// Called with the GIL released; the calling thread takes it back for a moment to look for an interrupt.
template <class Task> void for_each_chain(int64_t count, int threads, const Task& task) {
    using clock = std::chrono::steady_clock;
    std::atomic<int64_t> next{0};
    std::atomic<bool> stop{false};
    std::exception_ptr error;
    std::mutex guard;
    auto work = [&](bool listens) {
        auto last = clock::now();
        auto poll = [&] {
            if (stop) throw Stopped{};
            if (!listens || clock::now() - last < std::chrono::milliseconds(100)) return;
            last = clock::now();
            nanobind::gil_scoped_acquire gil;
            if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
        };
        try {
            for (int64_t c; !stop && (c = next++) < count;) task(c, poll);
        } catch (const Stopped&) {
        } catch (...) {
            std::lock_guard lock(guard);
            if (!error) error = std::current_exception();
            stop = true;
        }
    };
    with_helpers(std::min<int64_t>(threads, count) - 1, work);
    if (error) std::rethrow_exception(error);
}

// --- collapsed Gibbs --------------------------------------------------------------------------------------------------------
//
// One sweep takes every token out and puts it back with probability in proportion to
//     w_k = (alpha_j + n_jk) (beta_k + n_ik) / (alpha_sum + n_k),    counts without the token.

typedef int32_t Int4 __attribute__((vector_size(16), aligned(4)));
typedef int64_t Mask4 __attribute__((vector_size(32)));

inline Vec<double> as_double(const int32_t* p) { return __builtin_convertvector(*reinterpret_cast<const Int4*>(p), Vec<double>); }
inline void store_whole(int32_t* p, Vec<double> v) { *reinterpret_cast<Int4*>(p) = __builtin_convertvector(v, Int4); }
inline Vec<double> all(double x) { return Vec<double>{x, x, x, x}; }
inline Vec<double> where(Mask4 mask, Vec<double> x) { return (Vec<double>)(mask & (Mask4)x); }          // x, or 0

constexpr int64_t poll_after = 1 << 14, prefetch_ahead = 6;      // tokens between two polls; nonzeros between prefetch and use

inline void prefetch_row(const Sparse& X, int64_t p, const Tables& n) {
    if (p + prefetch_ahead >= X.indptr[X.rows]) return;
    const int32_t* row = n.by_column + static_cast<int64_t>(X.indices[p + prefetch_ahead]) * n.stride;
    for (int k = 0; k < n.stride; k += 16) __builtin_prefetch(row + k, 1);
    __builtin_prefetch(row + n.stride - 1, 1);
}

// Running sums of four numbers:  x0,  x0 + x1,  (x1 + x2) + x0,  (x2 + x3) + (x0 + x1).
inline Vec<double> running(Vec<double> x) {
    const Vec<double> none = {0, 0, 0, 0};
    x += shuffled<0, 4, 5, 6>(none, x);
    return x + shuffled<0, 0, 4, 5>(none, x);
}

// Up to 16 topics: V vectors, in registers. The topic drawn stays a mask (`placed`), and its count is added to the tables of the
// next token only after that token's two possible quotients, with it and without, are under way: no division waits for a draw.
template <int V> struct Few {
    Vec<double> lane[V], beta[V], of_topic[V], of_row[V], of_column[V];
    Vec<double> guard;                 // of the last vector: infinite from the last topic on, which rounding cannot pass
    Mask4 placed[V];                   // the topic of the last token, not yet counted
    double alpha_sum;

    Few(const Prior& prior, const Tables& n) : lane{}, beta{}, guard{}, placed{}, alpha_sum(prior.alpha_sum) {
        constexpr double infinite = std::numeric_limits<double>::infinity();
        for (int v = 0; v < V; ++v) {
            of_topic[v] = as_double(n.by_topic + 4 * v);
            for (int q = 0; q < 4; ++q) {
                lane[v][q] = 4 * v + q;
                beta[v][q] = prior.beta[4 * v + q];
            }
        }
        for (int q = 0; q < 4; ++q) guard[q] = 4 * (V - 1) + q < n.topics - 1 ? -infinite : infinite;
    }
    // `in_row`, `in_column`: 1 if the last token was of the same row, of the same nonzero; else 0.
    int draw(double old, double alpha, double in_row, double in_column, double uniform) {
        Vec<double> cumulated[V], before = {0, 0, 0, 0};
        for (int v = 0; v < V; ++v) {
            const Vec<double> one = where(lane[v] == all(old), all(1.0));
            of_row[v] -= one; of_column[v] -= one; of_topic[v] -= one;
            const Vec<double> without = (beta[v] + of_row[v]) / (alpha_sum + of_topic[v]);
            const Vec<double> with = (beta[v] + (of_row[v] + in_row)) / (alpha_sum + (of_topic[v] + 1.0));
            of_row[v] += where(placed[v], all(in_row));
            of_column[v] += where(placed[v], all(in_column));
            of_topic[v] += where(placed[v], all(1.0));
            const Vec<double> w = (alpha + of_column[v]) * (placed[v] ? with : without);
            const Vec<double> sums = running(w);
            cumulated[v] = before + sums;
            before += shuffled<3, 3, 3, 3>(sums, sums);
        }
        const Vec<double> u = before * uniform;
        cumulated[V - 1] = cumulated[V - 1] > guard ? cumulated[V - 1] : guard;
        Mask4 passed_before = {-1, -1, -1, -1}, count = {0, 0, 0, 0};
        for (int v = 0; v < V; ++v) {
            const Mask4 passed = cumulated[v] <= u;
            placed[v] = shuffled<3, 4, 5, 6>(passed_before, passed) & ~passed;
            passed_before = passed;
            count -= passed;
        }
        return static_cast<int>((count[0] + count[1]) + (count[2] + count[3]));
    }
    void settle(Vec<double>* table, int32_t* counts) {
        for (int v = 0; v < V; ++v) store_whole(counts + 4 * v, table[v] + where(placed[v], all(1.0)));
    }
};

template <int V, class Poll> void gibbs_few(const Sparse& X, const Prior& prior, uint16_t* label, const Tables& n, Xoshiro& random, Poll& poll) {
    Few<V> few(prior, n);
    Xoshiro generator = random;
    int64_t since = 0;
    for (int64_t i = 0; i < X.rows; ++i) {
        int32_t* row = n.by_row + i * n.stride;
        for (int v = 0; v < V; ++v) few.of_row[v] = as_double(row + 4 * v);
        double in_row = 0;
        for (int64_t p = X.indptr[i]; p < X.indptr[i + 1]; ++p) {
            prefetch_row(X, p, n);
            int32_t* column = n.by_column + static_cast<int64_t>(X.indices[p]) * n.stride;
            const double alpha = prior.alpha[X.indices[p]];
            for (int v = 0; v < V; ++v) few.of_column[v] = as_double(column + 4 * v);
            double in_column = 0;
            for (const uint16_t* last = label + static_cast<int64_t>(X.data[p]); label < last; ++label) {
                *label = static_cast<uint16_t>(few.draw(*label, alpha, in_row, in_column, generator.uniform()));
                in_row = in_column = 1;
            }
            since += static_cast<int64_t>(X.data[p]);
            few.settle(few.of_column, column);
        }
        if (in_row) few.settle(few.of_row, row);
        if (since > poll_after || i + 1 == X.rows) {
            since = 0;
            few.settle(few.of_topic, n.by_topic);
            random = generator;
            poll();
        }
    }
}

// The lane in which the running sum of four weights passes u, the last at most; u is reduced by the sums before it.
inline int descend(const double* w, double& u) {
    const double c0 = w[0], c1 = c0 + w[1], c2 = c1 + w[2];
    const double before[4] = {0.0, c0, c1, c2};
    const int lane = (u >= c0) + (u >= c1) + (u >= c2);
    u -= before[lane];                 // not by branches: they cannot be foretold
    return lane;
}

// Any number of topics. Sums of 4, 16 and 64 weights are kept beside the weights, so that no running sum is long, and
// (beta_k + n_ik) / (alpha_sum + n_k) is kept, and renewed in the blocks of 4 that a token leaves or enters. A token is counted in
// its new topic only after the next one has been weighed, which is then corrected: the bulk of the work waits for no draw.
class Many {
  public:
    double *of_row, *of_topic;
    Many(const Prior& prior, const Tables& n) : vectors_(n.stride / 4), quarters_((n.stride + 63) / 64), topics_(n.topics), alpha_sum_(all(prior.alpha_sum)) {
        const std::size_t size = 64 * quarters_;
        scratch_.reserve(6 * size + 64);
        std::fill_n(scratch_.data(), 6 * size, 0.0);
        double* next = scratch_.data();
        for (double** array : {&w_, &share_, &of_row, &of_topic, &beta_}) { *array = next; next += size; }
        fours_ = next;
        sixteens_ = fours_ + size / 4;
        std::copy_n(prior.beta, n.stride, beta_);
        for (int at = 0; at < n.stride; at += 4) store(of_topic + at, as_double(n.by_topic + at));
    }
    void enter_row(const int32_t* row) {
        for (int v = 0; v < vectors_; ++v) {
            store(of_row + 4 * v, as_double(row + 4 * v));
            renew(4 * v);
        }
    }
    // Whole vectors, which the next loads can take from the store buffer.
    void move(int k, int32_t* column, double by) {
        const int at = k & ~3;
        const Vec<double> lanes = {0, 1, 2, 3}, one = where(lanes == all(k & 3), all(by));
        store(of_row + at, load(of_row + at) + one);
        store(of_topic + at, load(of_topic + at) + one);
        store_whole(column + at, as_double(column + at) + one);
        renew(at);
    }
    // w and its sums of 4, for a token of this column
    void weigh(const int32_t* column, double alpha) {
        for (int v = 0; v + 4 <= vectors_; v += 4) {
            for (int q = v; q < v + 4; ++q) weigh_block(4 * q, column, alpha);
            sum_blocks(v);
        }
        for (int v = vectors_ & ~3; v < vectors_; ++v) weigh_block(4 * v, column, alpha);
        if (vectors_ % 4) sum_blocks(vectors_ & ~3);
    }
    // The same once the counts of topic k have changed.
    void weigh_again(int k, const int32_t* column, double alpha) {
        weigh_block(k & ~3, column, alpha);
        sum_blocks(k / 16 * 4);
    }
    int draw(double uniform) {
        double total = 0;
        for (int q = 0; q < quarters_; ++q) {
            const double* four = fours_ + 16 * q;
            const Vec<double> s = sums(load(four), load(four + 4), load(four + 8), load(four + 12));
            store(sixteens_ + 4 * q, s);
            total += sum(s);
        }
        double u = uniform * total;
        int q = 0;
        for (double here; q + 1 < quarters_ && u >= (here = sum(load(sixteens_ + 4 * q))); ++q) u -= here;
        int at = 4 * q;
        at = 4 * (at + descend(sixteens_ + at, u));
        at = 4 * (at + descend(fours_ + at, u));
        return std::min(at + descend(w_ + at, u), topics_ - 1);
    }

  private:
    void weigh_block(int at, const int32_t* column, double alpha) { store(w_ + at, (alpha + as_double(column + at)) * load(share_ + at)); }
    void sum_blocks(int v) {
        const double* w = w_ + 4 * v;
        store(fours_ + v, sums(load(w), load(w + 4), load(w + 8), load(w + 12)));
    }
    void renew(int at) { store(share_ + at, (load(beta_ + at) + load(of_row + at)) / (alpha_sum_ + load(of_topic + at))); }
    int vectors_, quarters_, topics_;  // a quarter of 256 topics: 64
    Vec<double> alpha_sum_;
    Buffer<double> scratch_;
    double *w_, *share_, *beta_, *fours_, *sixteens_;
};

template <class Poll> void gibbs_many(const Sparse& X, const Prior& prior, uint16_t* label, const Tables& n, Xoshiro& random, Poll& poll) {
    Many many(prior, n);
    Xoshiro generator = random;
    int64_t since = 0;
    for (int64_t i = 0; i < X.rows; ++i) {
        int32_t* row = n.by_row + i * n.stride;
        many.enter_row(row);
        int placed = -1;               // the topic of the last token, not yet counted in its column
        int32_t* its_column = nullptr;
        for (int64_t p = X.indptr[i]; p < X.indptr[i + 1]; ++p) {
            prefetch_row(X, p, n);
            int32_t* column = n.by_column + static_cast<int64_t>(X.indices[p]) * n.stride;
            for (const uint16_t* last = label + static_cast<int64_t>(X.data[p]); label < last; ++label) {
                const double alpha = prior.alpha[X.indices[p]];
                many.move(*label, column, -1);
                many.weigh(column, alpha);
                if (placed >= 0) {
                    many.move(placed, its_column, 1);
                    many.weigh_again(placed, column, alpha);
                }
                placed = many.draw(generator.uniform());
                its_column = column;
                *label = static_cast<uint16_t>(placed);
            }
            since += static_cast<int64_t>(X.data[p]);
        }
        if (placed >= 0) many.move(placed, its_column, 1);
        for (int at = 0; at < n.stride; at += 4) store_whole(row + at, load(many.of_row + at));
        if (since > poll_after || i + 1 == X.rows) {
            since = 0;
            for (int at = 0; at < n.stride; at += 4) store_whole(n.by_topic + at, load(many.of_topic + at));
            random = generator;
            poll();
        }
    }
}

template <int V, class Poll> void gibbs_sweep(const Sparse& X, const Prior& prior, uint16_t* label, const Tables& n, Xoshiro& random, Poll& poll) {
    if constexpr (V == 0) gibbs_many(X, prior, label, n, random, poll);
    else gibbs_few<V>(X, prior, label, n, random, poll);
}

// --- the most probable tensor: one token at a time --------------------------------------------------------------------------

// Of the topics for a token of row i and column j, counts without it, and `here` such tokens of the same nonzero in each topic:
//     gain_k = (alpha_j + n_jk) (beta_k + n_ik) / ((alpha_sum + n_k) (here_k + 1)),
// which is what log p(S) changes by, as a factor.
inline double gain(const Prior& prior, const Tables& n, int64_t i, int64_t j, const int32_t* here, int k) {
    return (prior.alpha[j] + n.by_column[j * n.stride + k]) * (prior.beta[k] + n.by_row[i * n.stride + k]) /
           ((prior.alpha_sum + n.by_topic[k]) * (here[k] + 1));
}
inline int best_topic(const Prior& prior, const Tables& n, int64_t i, int64_t j, const int32_t* here) {
    int best = 0;
    double most = gain(prior, n, i, j, here, 0);
    for (int k = 1; k < n.topics; ++k) {
        const double g = gain(prior, n, i, j, here, k);
        if (g > most) { most = g; best = k; }
    }
    return best;
}
inline void place(const Tables& n, int64_t i, int64_t j, int32_t* here, int k, int by) {
    n.by_column[j * n.stride + k] += by;
    n.by_row[i * n.stride + k] += by;
    n.by_topic[k] += by;
    here[k] += by;
}

constexpr double strictly = 1 + 1e-12;       // a move must gain more than rounding could

// One sweep; returns how many tokens moved.
template <class Poll> int64_t icm_sweep(const Sparse& X, const Prior& prior, uint16_t* label, const Tables& n, Poll& poll) {
    std::vector<int32_t> here(n.stride, 0);
    int64_t moved = 0, since = 0;
    for (int64_t i = 0; i < X.rows; ++i) {
        for (int64_t p = X.indptr[i]; p < X.indptr[i + 1]; ++p) {
            const int64_t j = X.indices[p], x = static_cast<int64_t>(X.data[p]);
            for (int64_t t = 0; t < x; ++t) ++here[label[t]];
            for (int64_t t = 0; t < x; ++t) {
                const int old = label[t];
                place(n, i, j, here.data(), old, -1);
                const int best = best_topic(prior, n, i, j, here.data());
                const bool better = gain(prior, n, i, j, here.data(), best) > strictly * gain(prior, n, i, j, here.data(), old);
                const int now = better ? best : old;
                moved += better;
                label[t] = static_cast<uint16_t>(now);
                place(n, i, j, here.data(), now, 1);
            }
            for (int64_t t = 0; t < x; ++t) here[label[t]] = 0;
            label += x;
            since += x;
        }
        if (since > poll_after) { since = 0; poll(); }
    }
    return moved;
}

// Tables start empty; nonzeros come in the given order, and each token goes where it gains most. first[p] is the place of the
// first token of nonzero p, row[p] its row.
template <class Poll>
void greedy(const Sparse& X, const Prior& prior, const int64_t* order, const int64_t* row, const int64_t* first, uint16_t* labels, const Tables& n, Poll& poll) {
    std::vector<int32_t> here(n.stride, 0);
    const int64_t nonzeros = X.indptr[X.rows];
    int64_t since = 0;
    for (int64_t q = 0; q < nonzeros; ++q) {
        const int64_t p = order[q], x = static_cast<int64_t>(X.data[p]);
        uint16_t* label = labels + first[p];
        for (int64_t t = 0; t < x; ++t) {
            const int k = best_topic(prior, n, row[p], X.indices[p], here.data());
            label[t] = static_cast<uint16_t>(k);
            place(n, row[p], X.indices[p], here.data(), k, 1);
        }
        for (int64_t t = 0; t < x; ++t) here[label[t]] = 0;
        if ((since += x) > poll_after) { since = 0; poll(); }
    }
}

// --- sums over labels -------------------------------------------------------------------------------------------------------

// Tables of the labels; they must be zero.
inline void tally(const Sparse& X, const uint16_t* label, const Tables& n) {
    for (int64_t i = 0; i < X.rows; ++i)
        for (int64_t p = X.indptr[i]; p < X.indptr[i + 1]; ++p)
            for (const uint16_t* last = label + static_cast<int64_t>(X.data[p]); label < last; ++label) {
                ++n.by_column[static_cast<int64_t>(X.indices[p]) * n.stride + *label];
                ++n.by_row[i * n.stride + *label];
                ++n.by_topic[*label];
            }
}

// sum of log S_ijk! over nonzeros and topics
inline double log_factorials(const Sparse& X, const uint16_t* label, int topics) {
    std::vector<int32_t> here(topics, 0);
    std::vector<double> logs{0, 0};                      // log c
    double total = 0;
    for (int64_t p = 0; p < X.indptr[X.rows]; ++p) {
        const auto x = static_cast<int64_t>(X.data[p]);
        while (static_cast<int64_t>(logs.size()) <= x) logs.push_back(std::log(static_cast<double>(logs.size())));
        if (x > 1) {
            for (int64_t t = 0; t < x; ++t) total += logs[++here[label[t]]];
            for (int64_t t = 0; t < x; ++t) here[label[t]] = 0;
        }
        label += x;
    }
    return total;
}

// --- the evidence: a particle filter over tokens ----------------------------------------------------------------------------

// Particles label the tokens one after another, each with probability in proportion to
//     w_k = (alpha_j + n_jk) (beta_k + n_ik) / (alpha_sum + n_k),     counts so far,
// and weigh themselves by sum_k w_k / (beta_sum + n_i). They are drawn anew (systematic resampling) once the effective number of
// particles falls below half. exp(the result) is unbiased for the probability of the tokens. Tokens of a row come side by side.
class Filter {
  public:
    Filter(const Prior& prior, int particles, int64_t columns, int topics, int stride, Xoshiro& random)
        : prior_(prior), particles_(particles), columns_(columns), topics_(topics), stride_(stride), random_(random), log_weight_(particles, 0.0),
          weight_(particles), of_row_(static_cast<std::size_t>(particles) * stride, 0), of_topic_(of_row_), of_column_(static_cast<std::size_t>(particles) * columns * stride, 0),
          w_(stride), children_(particles) {
        for (int k = 0; k < topics; ++k) beta_sum_ += prior.beta[k];
    }

    template <class Poll> double run(const int64_t* rows, const int32_t* columns, int64_t tokens, Poll& poll) {
        double log_evidence = 0;
        int64_t in_row = 0;
        for (int64_t t = 0; t < tokens; ++t) {
            if (t > 0 && rows[t] != rows[t - 1]) {
                in_row = 0;
                std::fill(of_row_.begin(), of_row_.end(), 0);
            }
            const double log_total = std::log(beta_sum_ + static_cast<double>(in_row++));
            for (int q = 0; q < particles_; ++q) log_weight_[q] += std::log(extend(q, columns[t])) - log_total;
            log_evidence += balanced();
            if (t % 16 == 0) poll();
        }
        return log_evidence + collected();
    }

  private:
    // Labels the next token of particle q, and returns sum_k w_k.
    double extend(int q, int64_t j) {
        int32_t *row = of_row_.data() + int64_t{q} * stride_, *topic = of_topic_.data() + int64_t{q} * stride_;
        int32_t* column = of_column_.data() + (q * columns_ + j) * stride_;
        double total = 0;
        for (int k = 0; k < topics_; ++k) {
            w_[k] = (prior_.alpha[j] + column[k]) * ((prior_.beta[k] + row[k]) / (prior_.alpha_sum + topic[k]));
            total += w_[k];
        }
        double u = random_.uniform() * total;
        int k = 0;
        while (k + 1 < topics_ && u >= w_[k]) u -= w_[k++];
        ++row[k]; ++topic[k]; ++column[k];
        return total;
    }
    // The mean weight as a logarithm; weight_ holds the weights relative to their sum.
    double collected() {
        const double highest = *std::max_element(log_weight_.begin(), log_weight_.end());
        double total = 0;
        for (int q = 0; q < particles_; ++q) total += weight_[q] = std::exp(log_weight_[q] - highest);
        for (double& w : weight_) w /= total;
        return highest + std::log(total / particles_);
    }
    // Resamples if few particles carry the weight; returns what the evidence gained by that.
    double balanced() {
        const double mean = collected();
        double squares = 0;
        for (double w : weight_) squares += w * w;
        if (1 / squares >= 0.5 * particles_) return 0;
        resample();
        std::fill(log_weight_.begin(), log_weight_.end(), 0.0);
        return mean;
    }
    // Each particle gets floor or ceiling of (its weight x particles) children: the first is itself, others replace the childless.
    void resample() {
        double sum = 0, point = random_.uniform();
        int given = 0;
        for (int q = 0; q < particles_; ++q) {
            sum += weight_[q] * particles_;
            children_[q] = 0;
            while (given < particles_ && (point < sum || q + 1 == particles_)) { ++children_[q]; ++given; point += 1; }
        }
        int free = 0;
        for (int q = 0; q < particles_; ++q)
            for (; children_[q] > 1; --children_[q]) {
                while (children_[free] != 0) ++free;
                children_[free] = 1;
                copy(of_row_, q, free, stride_);
                copy(of_topic_, q, free, stride_);
                copy(of_column_, q, free, columns_ * stride_);
            }
    }
    static void copy(std::vector<int32_t>& table, int64_t from, int64_t to, int64_t size) {
        std::memcpy(table.data() + to * size, table.data() + from * size, size * sizeof(int32_t));
    }

    Prior prior_;
    int particles_;
    int64_t columns_;
    int topics_, stride_;
    Xoshiro& random_;
    double beta_sum_ = 0;
    std::vector<double> log_weight_, weight_;
    std::vector<int32_t> of_row_, of_topic_, of_column_;
    std::vector<double> w_;
    std::vector<int> children_;
};

}  // namespace unmix
