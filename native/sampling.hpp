// Labels of single counts (tokens) in the allocation model: collapsed Gibbs sweeps, ICM, greedy assignment, particle filter.
//
// Tokens stand in row order, the x_ij tokens of a nonzero side by side. Tables of counts have `stride` columns: the topics, padded
// with zeros to a multiple of 4. Nothing here may be contracted to fused multiply-adds: labels are the same on every CPU.
#pragma once
#include <cmath>
#include <cstring>

#include "rows.hpp"

namespace unmix {

struct Xoshiro {                       // xoshiro256++ of Blackman and Vigna
    uint64_t s[4];
    static uint64_t rotated(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
    uint64_t next() {
        const uint64_t result = rotated(s[0] + s[3], 23) + s[0], t = s[1] << 17;
        s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3];
        s[2] ^= t;
        s[3] = rotated(s[3], 45);
        return result;
    }
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }      // in [0, 1)
};

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
    std::vector<std::thread> pool;
    for (int64_t t = 1; t < std::min<int64_t>(threads, count); ++t) pool.emplace_back(work, false);
    work(true);
    for (auto& t : pool) t.join();
    if (error) std::rethrow_exception(error);
}

// --- drawing a topic --------------------------------------------------------------------------------------------------------

// The lane in which the running sum of four weights passes u; the last if rounding kept it below.
inline int lane_of(const double* w, double u) {
    const double c0 = w[0], c1 = c0 + w[1], c2 = c1 + w[2];
    return (u >= c0) + (u >= c1) + (u >= c2);
}

// A topic with probability in proportion to w. Blocks of 4 topics are added up first, then groups of 4 blocks, so that no running
// sum is long: u finds its group, then its block, then its topic.
template <int V> inline int draw(const double* w, int vectors, double* block_sums, double uniform, int topics) {
    const int count = V ? V : vectors, groups = (count + 3) / 4;
    const Vec<double> none = {0, 0, 0, 0};
    double total = 0;
    for (int g = 0; g < groups; ++g) {
        auto at = [&](int b) { return 4 * g + b < count ? load(w + 16 * g + 4 * b) : none; };
        const Vec<double> s = sums(at(0), at(1), at(2), at(3));
        store(block_sums + 4 * g, s);
        total += ((s[0] + s[1]) + s[2]) + s[3];
    }
    double u = uniform * total;
    int g = 0;
    for (; g + 1 < groups; ++g) {
        const double* s = block_sums + 4 * g;
        const double here = ((s[0] + s[1]) + s[2]) + s[3];
        if (u < here) break;
        u -= here;
    }
    const double* s = block_sums + 4 * g;
    const int block = std::min(lane_of(s, u), count - 4 * g - 1);
    const double before[4] = {0, s[0], s[0] + s[1], (s[0] + s[1]) + s[2]};
    u -= before[block];
    const int k = 16 * g + 4 * block;
    return std::min(k + lane_of(w + k, u), topics - 1);
}

// --- collapsed Gibbs --------------------------------------------------------------------------------------------------------

typedef int32_t Int4 __attribute__((vector_size(16), aligned(4)));
typedef int64_t Mask4 __attribute__((vector_size(32)));

inline Vec<double> as_double(const int32_t* p) { return __builtin_convertvector(*reinterpret_cast<const Int4*>(p), Vec<double>); }
inline void store_whole(int32_t* p, Vec<double> v) { *reinterpret_cast<Int4*>(p) = __builtin_convertvector(v, Int4); }
inline Vec<double> all(double x) { return Vec<double>{x, x, x, x}; }
// 1 in lane k, 0 elsewhere; `lane` holds the topics' numbers
inline Vec<double> unit(Vec<double> lane, double k) {
    const Vec<double> one = {1, 1, 1, 1};
    return (Vec<double>)((Mask4)(lane == all(k)) & (Mask4)one);
}

constexpr int64_t poll_after = 1 << 14, prefetch_ahead = 6;      // tokens between two polls; nonzeros between prefetch and use

inline void prefetch_row(const Sparse& X, int64_t p, const Tables& n) {
    if (p + prefetch_ahead >= X.indptr[X.rows]) return;
    const int32_t* row = n.by_column + static_cast<int64_t>(X.indices[p + prefetch_ahead]) * n.stride;
    for (int k = 0; k < n.stride; k += 16) __builtin_prefetch(row + k, 1);
    __builtin_prefetch(row + n.stride - 1, 1);
}

// One sweep over all tokens. Each is taken out and put back with probability in proportion to
//     w_k = (alpha_j + n_jk) (beta_k + n_ik) / (alpha_sum + n_k),    counts without the token.
// For up to 16 topics (V vectors) all that a token touches stays in registers.
template <int V, class Poll> void gibbs_few(const Sparse& X, const Prior& prior, uint16_t* label, const Tables& n, Xoshiro& random, Poll& poll) {
    Vec<double> lane[V], beta[V], of_topic[V], of_row[V], of_column[V];
    alignas(32) double w[4 * V], block_sums[4];
    for (int v = 0; v < V; ++v) {
        lane[v] = Vec<double>{4. * v, 4. * v + 1, 4. * v + 2, 4. * v + 3};
        std::memcpy(&beta[v], prior.beta + 4 * v, 32);
        of_topic[v] = as_double(n.by_topic + 4 * v);
    }
    const Vec<double> alpha_sum = all(prior.alpha_sum);
    Xoshiro generator = random;
    int64_t since = 0;
    for (int64_t i = 0; i < X.rows; ++i) {
        int32_t* row = n.by_row + i * n.stride;
        for (int v = 0; v < V; ++v) of_row[v] = as_double(row + 4 * v);
        for (int64_t p = X.indptr[i]; p < X.indptr[i + 1]; ++p) {
            prefetch_row(X, p, n);
            int32_t* column = n.by_column + static_cast<int64_t>(X.indices[p]) * n.stride;
            const Vec<double> alpha = all(prior.alpha[X.indices[p]]);
            for (int v = 0; v < V; ++v) of_column[v] = as_double(column + 4 * v);
            for (const uint16_t* last = label + static_cast<int64_t>(X.data[p]); label < last; ++label) {
                const double old = *label;
                for (int v = 0; v < V; ++v) {
                    const Vec<double> one = unit(lane[v], old);
                    of_row[v] -= one; of_column[v] -= one; of_topic[v] -= one;
                    store(w + 4 * v, (alpha + of_column[v]) * ((beta[v] + of_row[v]) / (alpha_sum + of_topic[v])));
                }
                const int k = draw<V>(w, V, block_sums, generator.uniform(), n.topics);
                *label = static_cast<uint16_t>(k);
                for (int v = 0; v < V; ++v) {
                    const Vec<double> one = unit(lane[v], k);
                    of_row[v] += one; of_column[v] += one; of_topic[v] += one;
                }
            }
            since += static_cast<int64_t>(X.data[p]);
            for (int v = 0; v < V; ++v) store_whole(column + 4 * v, of_column[v]);
        }
        for (int v = 0; v < V; ++v) store_whole(row + 4 * v, of_row[v]);
        if (since > poll_after || i + 1 == X.rows) {
            since = 0;
            for (int v = 0; v < V; ++v) store_whole(n.by_topic + 4 * v, of_topic[v]);
            random = generator;
            poll();
        }
    }
}

// The same for any number of topics: (beta_k + n_ik) / (alpha_sum + n_k) is kept, and renewed in the blocks a token leaves or enters.
template <class Poll> void gibbs_many(const Sparse& X, const Prior& prior, uint16_t* label, const Tables& n, Xoshiro& random, Poll& poll) {
    const int vectors = n.stride / 4;
    const Vec<double> alpha_sum = all(prior.alpha_sum), lanes = {0, 1, 2, 3};
    Buffer<double> scratch;
    scratch.reserve(6 * static_cast<std::size_t>(n.stride) + 64);
    double *w = scratch.data(), *share = w + n.stride, *of_row = share + n.stride, *of_topic = of_row + n.stride, *beta = of_topic + n.stride,
           *block_sums = beta + n.stride;                   // rounded up to whole groups
    std::memcpy(beta, prior.beta, n.stride * sizeof(double));
    for (int v = 0; v < vectors; ++v) store(of_topic + 4 * v, as_double(n.by_topic + 4 * v));
    auto renew = [&](int at) { store(share + at, (load(beta + at) + load(of_row + at)) / (alpha_sum + load(of_topic + at))); };
    auto move = [&](int k, int32_t* column, double sign) {  // whole vectors, which the next loads can take from the store buffer
        const int at = k & ~3;
        const Vec<double> one = unit(lanes, k & 3) * sign;
        store(of_row + at, load(of_row + at) + one);
        store(of_topic + at, load(of_topic + at) + one);
        store_whole(column + at, as_double(column + at) + one);
        renew(at);
    };
    int64_t since = 0;
    for (int64_t i = 0; i < X.rows; ++i) {
        int32_t* row = n.by_row + i * n.stride;
        for (int v = 0; v < vectors; ++v) {
            store(of_row + 4 * v, as_double(row + 4 * v));
            renew(4 * v);
        }
        for (int64_t p = X.indptr[i]; p < X.indptr[i + 1]; ++p) {
            prefetch_row(X, p, n);
            int32_t* column = n.by_column + static_cast<int64_t>(X.indices[p]) * n.stride;
            const Vec<double> alpha = all(prior.alpha[X.indices[p]]);
            for (const uint16_t* last = label + static_cast<int64_t>(X.data[p]); label < last; ++label) {
                move(*label, column, -1);
                for (int v = 0; v < vectors; ++v) store(w + 4 * v, (alpha + as_double(column + 4 * v)) * load(share + 4 * v));
                const int k = draw<0>(w, vectors, block_sums, random.uniform(), n.topics);
                *label = static_cast<uint16_t>(k);
                move(k, column, 1);
            }
            since += static_cast<int64_t>(X.data[p]);
        }
        for (int v = 0; v < vectors; ++v) store_whole(row + 4 * v, load(of_row + 4 * v));
        if (since > poll_after || i + 1 == X.rows) {
            since = 0;
            for (int v = 0; v < vectors; ++v) store_whole(n.by_topic + 4 * v, load(of_topic + 4 * v));
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
