// Which topics of a catalogue a sample has. For t counts x of m features and a set S of s topics (columns sum to one), with the exact
// Poisson refit l on S, rates = F l, w = l / t and deviance G:
//
//     phi = max(1, G / m)     H = t^2 sum_j x_j f_j f_j' / rate_j^2     C = phi (B'HB)^-1, where B eliminates the largest of S
//     z_k = w_k / sqrt C_kk, or slope_k t sqrt C_kk / phi of a k at zero
//     volume = log Gamma(s) + (s-1)/2 log 2 pi + log|C| / 2 + sum_k [log Phi(z_k) + z_k^2 / 2 if k is at zero]
//     score = -(m log phi + G / phi) / 2 + min(volume, 0) - sum_{k in S} odds_k
//
// the log evidence with flat proportions, which cannot exceed the likelihood, and the odds against each topic. Without `volume` it is
// the likelihood minus a price per topic. Sets are searched by additions, removals and swaps, each judged by an exact refit: first with
// phi = 1, from the best single topic, then with its own phi, then from every set that is nearly as good as the best.
#pragma once
#include <cmath>
#include <unordered_map>

#include "random.hpp"
#include "regression.hpp"
#include "special.hpp"

namespace unmix {

struct AssignRule {
    bool volume;                    // whether the score has it, or is the likelihood alone
    double dispersion;              // phi, or 0: fitted
    int most;                       // topics of a set
};

struct AssignOut {                  // n x K, and n x 4: deviance, dispersion, score, sets that were tried
    double *exposures, *probabilities, *gains, *numbers;
    uint8_t* chosen;
};

// log Phi(z), plus z^2 / 2 if the topic is at zero, where z <= 0.
inline double log_cut(double z, bool at_zero) {
    if (z > -6) return std::log(0.5 * std::erfc(-z * 0.70710678118654752440)) + (at_zero ? 0.5 * z * z : 0.0);
    const double q = 1 / (z * z);
    const double tail = -0.91893853320467274178 - std::log(-z) + std::log1p(-q * (1 - q * (3 - 15 * q)));
    return at_zero ? tail : tail - 0.5 * z * z;
}

// Which features some topic has: counts of others, which no set explains, are passed over.
inline std::vector<uint8_t> explained_features(const double* catalogue, int64_t features, int topics) {
    std::vector<uint8_t> some(features);
    for (int64_t j = 0; j < features; ++j)
        some[j] = std::any_of(catalogue + j * topics, catalogue + (j + 1) * topics, [](double f) { return f > 0; });
    return some;
}

// The counts of one sample, or of a draw, beside columns of topics at the same features.
class Refit {
  public:
    static constexpr double leak = 1e-12;                 // of the counts, added to every rate: no count is impossible
    static constexpr int em_steps = 2, most_rounds = 500;
    static constexpr double enough = 1e-9;                // units that a step promises; what is left then is its square

    int64_t count = 0;                                    // a multiple of 4
    double total = 0;
    Buffer<double> x, rate, ratio, curve, weighted, change, H, lower, g, step;
    std::vector<const double*> columns;

    void reserve(int64_t longest, int64_t topics) {
        for (auto* buffer : {&x, &rate, &ratio, &curve, &weighted, &change}) buffer->reserve(longest + 8);
        for (auto* buffer : {&H, &lower}) buffer->reserve(topics * topics);
        for (auto* buffer : {&g, &step}) buffer->reserve(topics);
        columns.resize(topics);
    }
    double offset() const { return leak * total; }

    void look(const double* l, int size) {                // rates, x / rate and x / rate^2
        const double low = offset();
        for (int64_t p = 0; p < count; p += 4) {
            Vec<double> rates = Vec<double>{} + low;
            for (int k = 0; k < size; ++k) rates += l[k] * load(columns[k] + p);
            const Vec<double> ratios = load(x.data() + p) / rates;
            store(rate.data() + p, rates);
            store(ratio.data() + p, ratios);
            store(curve.data() + p, ratios / rates);
        }
    }
    double along(const double* a, const double* b) const {
        Vec<double> one{}, two{};
        int64_t p = 0;
        for (; p + 8 <= count; p += 8) {
            one += load(a + p) * load(b + p);
            two += load(a + p + 4) * load(b + p + 4);
        }
        if (p < count) one += load(a + p) * load(b + p);
        return sum(one + two);
    }
    void weigh(const double* column, double* out) const { // a column times x / rate^2
        for (int64_t p = 0; p < count; p += 4) store(out + p, load(column + p) * load(curve.data() + p));
    }
    void gradient(int size) {
        for (int k = 0; k < size; ++k) g[k] = along(columns[k], ratio.data()) - 1;
    }
    void curvature(int size) {
        for (int k = 0; k < size; ++k) {
            weigh(columns[k], weighted.data());
            for (int c = 0; c <= k; ++c) H[k * size + c] = H[c * size + k] = along(weighted.data(), columns[c]);
        }
    }

    // The maximum over l >= 0 of sum x log rate - sum l, from l: Newton on the topics that are free, up to the first that reaches zero.
    void solve(double* l, int size) {
        for (int round = 0; round < most_rounds; ++round) {
            look(l, size);
            gradient(size);
            if (round < em_steps) {
                for (int k = 0; k < size; ++k) l[k] *= 1 + g[k];
                continue;
            }
            curvature(size);
            const double promised = direction(l, size);
            double length = 1;
            int first = -1;
            for (int k = 0; k < size; ++k)
                if (step[k] < 0 && -l[k] > length * step[k]) { length = -l[k] / step[k]; first = k; }
            Vec<double> falls{};
            for (int64_t p = 0; p < count; p += 4) {
                Vec<double> moved{};
                for (int k = 0; k < size; ++k) moved += step[k] * load(columns[k] + p);
                const Vec<double> relative = moved / load(rate.data() + p);
                falls = relative < falls ? relative : falls;
            }
            const double lowest = std::min(std::min(falls[0], falls[1]), std::min(falls[2], falls[3]));
            if (length * lowest < -full_step_decrement) { length = full_step_decrement / -lowest; first = -1; }
            for (int k = 0; k < size; ++k) l[k] = std::max(l[k] + length * step[k], 0.0);
            if (first >= 0) l[first] = 0;
            if (promised < enough && first < 0) break;
        }
        look(l, size);
    }

    double deviance(const double* l, int size) const {
        double sums = 0, explained = 0;
        for (int64_t p = 0; p < count; ++p)
            if (x.data()[p] > 0) sums += x.data()[p] * fast_log(ratio.data()[p]);
        for (int k = 0; k < size; ++k) explained += l[k];
        return std::max(2 * (sums - total + explained), 0.0);
    }

    // lower lower' = H over the topics in `free`; a pivot that is nothing leaves its topic out
    void decompose(const double* matrix, int size, int stride, const std::vector<uint8_t>& free) {
        for (int i = 0; i < size; ++i) {
            double* row = lower.data() + i * size;
            std::fill_n(row, i, 0.0);
            row[i] = -1;
            if (!free[i]) continue;
            double rest = matrix[i * stride + i];
            for (int j = 0; j < i; ++j) {
                const double* other = lower.data() + j * size;
                if (other[j] < 0) continue;
                double value = matrix[i * stride + j];
                for (int c = 0; c < j; ++c) value -= row[c] * other[c];
                row[j] = value / other[j];
                rest -= row[j] * row[j];
            }
            if (rest > 1e-11 * matrix[i * stride + i]) row[i] = std::sqrt(rest);
        }
    }
    void forward(double* b, int size) const {
        for (int i = 0; i < size; ++i) {
            const double* row = lower.data() + i * size;
            if (row[i] < 0) { b[i] = 0; continue; }
            for (int j = 0; j < i; ++j) b[i] -= row[j] * b[j];
            b[i] /= row[i];
        }
    }
    void backward(double* b, int size) const {
        for (int i = size - 1; i >= 0; --i) {
            const double* row = lower.data() + i * size;
            if (row[i] < 0) { b[i] = 0; continue; }
            b[i] /= row[i];
            for (int j = 0; j < i; ++j) b[j] -= row[j] * b[i];
        }
    }
    std::vector<uint8_t> free;

  private:
    double direction(const double* l, int size) {         // Newton's, without topics at zero that would fall: what it promises
        free.assign(size, 0);
        for (int k = 0; k < size; ++k) free[k] = l[k] > 0 || g[k] > 0;
        for (bool again = true; again;) {
            again = false;
            decompose(H.data(), size, size, free);
            std::copy_n(g.data(), size, step.data());
            forward(step.data(), size);
            backward(step.data(), size);
            for (int k = 0; k < size; ++k)
                if (free[k] && l[k] == 0 && step[k] < 0) { free[k] = 0; again = true; }
        }
        double promised = 0;
        for (int k = 0; k < size; ++k) promised += g[k] * step[k];
        return promised;
    }
};

class Assigner {
  public:
    static constexpr int additions = 4, swaps = 2, most_expanded = 40;
    static constexpr double near = 3;                     // units below the best

    Assigner(const double* catalogue, const double* logs, int64_t features, int topics, const AssignRule& rule, int64_t longest)
        : F_(catalogue), logs_(logs), some_(explained_features(catalogue, features, topics)),
          m_(static_cast<double>(std::count(some_.begin(), some_.end(), 1))), K_(topics), rule_(rule) {
        refit_.reserve(longest, std::min<int64_t>(topics, rule.most + 1));
        panel_.reserve((longest + 8) * static_cast<int64_t>(topics));
        extra_.reserve((longest + 8) * static_cast<int64_t>(std::min(topics, rule.most + 1)));
        single_.resize(topics);
        keys_.resize(topics);
        for (int k = 0; k < topics; ++k) keys_[k] = mixed((k + 1) * golden);
    }

    // The best set of a sample, or the one that is `given` (a byte per topic)
    void run(const Sparse& X, int64_t row, const double* odds, const uint8_t* given, const AssignOut& out) {
        odds_ = odds;
        double *exposures = out.exposures + row * K_, *probabilities = out.probabilities + row * K_, *gains = out.gains + row * K_;
        uint8_t* chosen = out.chosen + row * K_;
        double* numbers = out.numbers + row * 4;
        std::fill_n(exposures, K_, 0.0);
        std::fill_n(probabilities, K_, 0.0);
        std::fill_n(gains, K_, std::numeric_limits<double>::quiet_NaN());
        std::fill_n(chosen, K_, 0);
        std::fill_n(numbers, 4, 0.0);
        load_counts(X, row);
        if (!(refit_.total > 0)) return;
        const int best = given ? only(given + row * K_) : search();
        if (best < 0) return;                             // no topic is possible
        const Set set = sets_[best];
        for (int i = 0; i < set.size; ++i) {
            const int k = topics_[set.begin + i];
            exposures[k] = l_[set.begin + i];
            chosen[k] = 1;
            gains[k] = std::numeric_limits<double>::infinity();
            if (given || set.size == 1) continue;
            without(best, i);
            gains[k] = 0.5 * (sets_[fitted()].deviance - set.deviance);
        }
        double all = 0;
        for (const Set& one : sets_) {
            const double weight = std::exp(one.score - set.score);
            all += weight;
            for (int i = 0; i < one.size; ++i) probabilities[topics_[one.begin + i]] += weight;
        }
        for (int k = 0; k < K_; ++k) probabilities[k] /= all;
        numbers[0] = set.deviance;
        numbers[1] = dispersion(set.deviance);
        numbers[2] = set.score;
        numbers[3] = static_cast<double>(sets_.size());
    }

  private:
    struct Set {
        int64_t begin;
        int size;
        double deviance, plain, score;                    // scores with phi = 1, and with its own
        int next[additions];
        double steps[additions];
        int ranked = -1;                                  // additions that are known, -1: none were looked for
        bool expanded = false;
        int best_plain = -1, best = -1;                   // neighbours
    };

    double dispersion(double deviance) const { return rule_.dispersion > 0 ? rule_.dispersion : std::max(1.0, deviance / m_); }

    void load_counts(const Sparse& X, int64_t row) {
        const int64_t first = X.indptr[row], count = X.indptr[row + 1] - first, padded = round_up(count, 4);
        auto& x = refit_.x;
        X.read(first, count, x.data());
        for (int64_t p = 0; p < count; ++p)
            if (!some_[X.indices[first + p]]) x[p] = 0;
        for (int64_t p = count; p < padded; ++p) x[p] = 0;
        refit_.count = padded;
        refit_.total = sum(x.data(), count);
        std::fill(single_.begin(), single_.end(), 0.0);
        double saturated = 0;
        for (int64_t p = 0; p < count; ++p) {
            const int64_t at = static_cast<int64_t>(X.indices[first + p]) * K_;
            for (int k = 0; k < K_; ++k) {
                panel_[k * padded + p] = F_[at + k];
                single_[k] += x[p] * logs_[at + k];
            }
            if (x[p] > 0) saturated += x[p] * fast_log(x[p] / refit_.total);
        }
        for (int k = 0; k < K_; ++k) {
            for (int64_t p = count; p < padded; ++p) panel_[k * padded + p] = 0;
            single_[k] = std::max(2 * (saturated - single_[k]), 0.0);
        }
        sets_.clear();
        topics_.clear();
        l_.clear();
        places_.clear();
    }
    const double* column(int k) const { return panel_.data() + k * refit_.count; }

    // The set in `wanted_` (sorted): its number, -1 if it was not fitted
    int find() {
        hash_ = 0;
        for (int k : wanted_) hash_ ^= keys_[k];
        const auto [from, to] = places_.equal_range(hash_);
        for (auto it = from; it != to; ++it) {
            const Set& set = sets_[it->second];
            if (set.size == static_cast<int>(wanted_.size()) && std::equal(wanted_.begin(), wanted_.end(), topics_.begin() + set.begin)) return it->second;
        }
        return -1;
    }
    // The set in `wanted_`, fitted from `start_`
    int fitted() {
        if (const int known = find(); known >= 0) return known;
        const int size = static_cast<int>(wanted_.size());
        Set set{};
        set.begin = static_cast<int64_t>(topics_.size());
        set.size = size;
        set.ranked = -1;
        set.best = set.best_plain = -1;
        double against = 0;
        for (int k : wanted_) against += odds_[k];
        double volume = 0;
        int free = 0;
        if (size == 1) {
            set.deviance = single_[wanted_[0]];
            start_[0] = refit_.total;
        } else {
            for (int i = 0; i < size; ++i) refit_.columns[i] = column(wanted_[i]);
            refit_.solve(start_.data(), size);
            set.deviance = refit_.deviance(start_.data(), size);
            if (rule_.volume) free = size - 1;
        }
        topics_.insert(topics_.end(), wanted_.begin(), wanted_.end());
        l_.insert(l_.end(), start_.begin(), start_.begin() + size);
        const double phi = dispersion(set.deviance), plain = rule_.dispersion > 0 ? rule_.dispersion : 1.0;
        if (free) information(size);
        volume = free ? this->volume(size, plain) : 0.0;
        set.plain = -0.5 * (m_ * std::log(plain) + set.deviance / plain) + volume - against;
        if (free && phi != plain) volume = this->volume(size, phi);
        set.score = -0.5 * (m_ * std::log(phi) + set.deviance / phi) + volume - against;
        const int number = static_cast<int>(sets_.size());
        sets_.push_back(set);
        places_.emplace(hash_, number);
        return number;
    }
    // log |B'HB|, and what z is made of, at the refit that was just made
    void information(int size) {
        const double* l = start_.data();
        const int64_t count = refit_.count;
        int big = 0;
        for (int i = 1; i < size; ++i)
            if (l[i] > l[big]) big = i;
        refit_.gradient(size);
        int n = 0;
        shape_.resize(2 * size);
        for (int i = 0; i < size; ++i) {
            if (i == big) continue;
            double* difference = extra_.data() + n * count;
            const double *one = column(wanted_[i]), *other = column(wanted_[big]);
            for (int64_t p = 0; p < count; p += 4) store(difference + p, load(one + p) - load(other + p));
            shape_[n] = l[i];
            shape_[size + n] = refit_.g[i];
            ++n;
        }
        for (int a = 0; a < n; ++a) {
            refit_.weigh(extra_.data() + a * count, refit_.weighted.data());
            for (int b = 0; b <= a; ++b) refit_.H[a * n + b] = refit_.along(refit_.weighted.data(), extra_.data() + b * count);
        }
        double* L = refit_.lower.data();                  // lower lower' = B'HB / t^2; a pivot keeps a millionth of its topic's curvature
        log_det_ = 0;
        for (int i = 0; i < n; ++i)
            for (int j = 0; j <= i; ++j) {
                double rest = refit_.H[i * n + j];
                for (int c = 0; c < j; ++c) rest -= L[i * n + c] * L[j * n + c];
                if (i > j) { L[i * n + j] = rest / L[j * n + j]; continue; }
                L[i * n + i] = std::sqrt(std::max(rest, 1e-12 * refit_.H[i * n + i] + 1e-300));
                log_det_ += 2 * std::log(L[i * n + i]);
            }
        deviations_.assign(n, 0.0);                       // square roots of the diagonal of the inverse
        for (int k = 0; k < n; ++k) {
            std::fill_n(refit_.step.data(), n, 0.0);
            refit_.step[k] = 1;
            double squares = 0;
            for (int i = k; i < n; ++i) {
                double rest = refit_.step[i];
                for (int j = k; j < i; ++j) rest -= L[i * n + j] * refit_.step[j];
                refit_.step[i] = rest / L[i * n + i];
                squares += refit_.step[i] * refit_.step[i];
            }
            deviations_[k] = std::sqrt(squares);
        }
    }
    double volume(int size, double phi) const {
        const int n = size - 1;
        const double root = std::sqrt(phi);
        double value = std::lgamma(size) + 0.5 * n * (1.83787706640934548356 + std::log(phi)) - n * std::log(refit_.total) - 0.5 * log_det_;
        for (int i = 0; i < n; ++i) {
            const bool at_zero = !(shape_[i] > 0);
            const double z = at_zero ? std::min(shape_[size + i], 0.0) * deviations_[i] / root : shape_[i] / (deviations_[i] * root);
            value += log_cut(z, at_zero);
        }
        return std::min(value, 0.0);
    }

    // The topics that promise most when they are added: gain by the curvature that is left after those of the set
    void rank(int number) {
        Set& set = sets_[number];
        set.ranked = 0;
        if (set.size >= rule_.most) return;
        const int size = set.size;
        const int64_t count = refit_.count;
        const double phi = dispersion(set.deviance);
        const double* l = l_.data() + set.begin;
        const int* has = topics_.data() + set.begin;
        for (int i = 0; i < size; ++i) refit_.columns[i] = column(has[i]);
        refit_.look(l, size);
        refit_.curvature(size);
        refit_.free.assign(size, 0);
        for (int i = 0; i < size; ++i) refit_.free[i] = l[i] > 0;
        refit_.decompose(refit_.H.data(), size, size, refit_.free);
        for (int i = 0; i < size; ++i) refit_.weigh(column(has[i]), extra_.data() + i * count);
        double values[additions];
        for (int k = 0, i = 0; k < K_; ++k) {
            if (i < size && has[i] == k) { ++i; continue; }
            if (!std::isfinite(odds_[k])) continue;
            const double slope = refit_.along(column(k), refit_.ratio.data()) - 1;
            if (!(slope > 0)) continue;
            refit_.weigh(column(k), refit_.weighted.data());
            const double own = refit_.along(refit_.weighted.data(), column(k));
            double* b = refit_.step.data();
            for (int c = 0; c < size; ++c) b[c] = refit_.along(column(k), extra_.data() + c * count);
            refit_.forward(b, size);
            double left = own;
            for (int c = 0; c < size; ++c) left -= b[c] * b[c];
            left = std::max(left, 1e-9 * own);
            const double value = 0.5 * slope * slope / left / phi - odds_[k];
            int at = set.ranked;
            if (at == additions && !(value > values[at - 1])) continue;
            if (at < additions) ++set.ranked; else --at;
            for (; at > 0 && value > values[at - 1]; --at) {
                values[at] = values[at - 1];
                set.next[at] = set.next[at - 1];
                set.steps[at] = set.steps[at - 1];
            }
            values[at] = value;
            set.next[at] = k;
            set.steps[at] = slope / left;
        }
    }

    // `wanted_` and `start_`: a set with one topic more, or without its i-th
    void with(int number, int place) {
        const Set& set = sets_[number];
        const int k = set.next[place];
        const double added = std::min(set.steps[place], 0.3 * refit_.total);
        wanted_.assign(topics_.begin() + set.begin, topics_.begin() + set.begin + set.size);
        start_.assign(l_.begin() + set.begin, l_.begin() + set.begin + set.size);
        for (double& value : start_) value = std::max(value * (1 - added / refit_.total), 1e-3 * refit_.total);
        const auto at = std::lower_bound(wanted_.begin(), wanted_.end(), k);
        start_.insert(start_.begin() + (at - wanted_.begin()), added);
        wanted_.insert(at, k);
    }
    void without(int number, int i) {
        const Set& set = sets_[number];
        wanted_.assign(topics_.begin() + set.begin, topics_.begin() + set.begin + set.size);
        start_.assign(l_.begin() + set.begin, l_.begin() + set.begin + set.size);
        wanted_.erase(wanted_.begin() + i);
        start_.erase(start_.begin() + i);
        for (double& value : start_) value = std::max(value, 1e-3 * refit_.total);
    }

    void expand(int number) {
        if (sets_[number].expanded) return;
        sets_[number].expanded = true;
        int best = -1, best_plain = -1;
        const auto judge = [&](int other) {
            if (best < 0 || sets_[other].score > sets_[best].score) best = other;
            if (best_plain < 0 || sets_[other].plain > sets_[best_plain].plain) best_plain = other;
        };
        if (sets_[number].ranked < 0) rank(number);
        for (int a = 0; a < sets_[number].ranked; ++a) {
            with(number, a);
            judge(fitted());
        }
        if (sets_[number].size > 1)
            for (int i = 0; i < sets_[number].size; ++i) {
                const int gone = topics_[sets_[number].begin + i];
                without(number, i);
                const int smaller = fitted();
                judge(smaller);
                if (sets_[smaller].ranked < 0) rank(smaller);
                for (int a = 0, made = 0; a < sets_[smaller].ranked && made < swaps; ++a) {
                    if (sets_[smaller].next[a] == gone) continue;
                    with(smaller, a);
                    judge(fitted());
                    ++made;
                }
            }
        sets_[number].best = best;
        sets_[number].best_plain = best_plain;
    }

    int search() {
        start_.resize(1);
        int at = -1;
        for (int k = 0; k < K_; ++k) {
            if (!std::isfinite(odds_[k])) continue;
            wanted_.assign(1, k);
            start_.resize(1);
            const int number = fitted();
            if (at < 0 || sets_[number].plain > sets_[at].plain) at = number;
        }
        if (at < 0) return at;
        for (;;) {
            expand(at);
            const int next = sets_[at].best_plain;
            if (next < 0 || !(sets_[next].plain > sets_[at].plain)) break;
            at = next;
        }
        for (;;) {
            expand(at);
            const int next = sets_[at].best;
            if (next < 0 || !(sets_[next].score > sets_[at].score)) break;
            at = next;
        }
        const auto best_of = [&](bool fresh) {
            int best = -1;
            for (int i = 0; i < static_cast<int>(sets_.size()); ++i)
                if (!(fresh && sets_[i].expanded) && (best < 0 || sets_[i].score > sets_[best].score)) best = i;
            return best;
        };
        for (int expanded = 0; expanded < most_expanded; ++expanded) {
            const int next = best_of(true);
            if (next < 0 || sets_[next].score < sets_[best_of(false)].score - near) break;
            expand(next);
        }
        for (;;) {                                        // what is chosen has been compared with its neighbours
            const int best = best_of(false);
            if (sets_[best].expanded) return best;
            expand(best);
        }
    }
    int only(const uint8_t* given) {
        wanted_.clear();
        for (int k = 0; k < K_; ++k)
            if (given[k]) wanted_.push_back(k);
        start_.assign(wanted_.size(), refit_.total / static_cast<double>(wanted_.size()));
        return fitted();
    }

    const double *F_, *logs_;
    std::vector<uint8_t> some_;
    double m_;
    int K_;
    AssignRule rule_;
    Refit refit_;
    Buffer<double> panel_, extra_;
    std::vector<double> single_, l_, start_, shape_, deviations_;
    std::vector<uint64_t> keys_;
    std::vector<Set> sets_;
    std::vector<int> topics_, wanted_;
    std::unordered_multimap<uint64_t, int> places_;
    uint64_t hash_ = 0;
    double log_det_ = 0;
    const double* odds_ = nullptr;
};

// How far counts are from their fit beside draws from it: each draw is fitted again on the same topics.
class Residuals {
  public:
    static constexpr int enough = 10;                     // draws with as large a deviance end the test (Besag and Clifford 1991)

    Residuals(const double* catalogue, int64_t features, int topics)
        : F_(catalogue), some_(explained_features(catalogue, features, topics)), m_(features), K_(topics) {
        draws_.reserve(features, topics);
        columns_.reserve((features + 4) * static_cast<int64_t>(topics));
        mean_.reserve(features + 4);
    }

    // numbers: p, share of counts that are unexplained beyond noise, cosine of the counts and their rates
    void run(const Sparse& X, int64_t row, uint64_t seed, int most, const double* exposures, const uint8_t* chosen, double* numbers) {
        std::fill_n(numbers, 3, std::numeric_limits<double>::quiet_NaN());
        const int64_t first = X.indptr[row], padded = round_up(m_, 4);
        topics_.clear();
        for (int k = 0; k < K_; ++k)
            if (chosen[k]) topics_.push_back(k);
        const int size = static_cast<int>(topics_.size());
        l_.clear();
        for (int i = 0; i < size; ++i) {
            double* to = columns_.data() + i * padded;
            for (int64_t j = 0; j < padded; ++j) to[j] = j < m_ ? F_[j * K_ + topics_[i]] : 0.0;
            draws_.columns[i] = to;
            l_.push_back(exposures[topics_[i]]);
        }
        draws_.count = padded;
        std::fill_n(draws_.x.data(), padded, 0.0);
        for (int64_t p = first; p < X.indptr[row + 1]; ++p) {
            double value;
            X.read(p, 1, &value);
            draws_.x[X.indices[p]] = some_[X.indices[p]] ? value : 0.0;
            seed = mixed(seed + golden * (X.indices[p] + 1)) ^ std::bit_cast<uint64_t>(value);      // the same wherever the sample stands
        }
        draws_.total = sum(draws_.x.data(), padded);
        if (!(draws_.total > 0) || size == 0) return;
        draws_.look(l_.data(), size);
        std::copy_n(draws_.rate.data(), padded, mean_.data());
        numbers[2] = draws_.along(draws_.x.data(), mean_.data()) /
                     std::sqrt(draws_.along(draws_.x.data(), draws_.x.data()) * draws_.along(mean_.data(), mean_.data()));
        const double deviance = draws_.deviance(l_.data(), size), apart = distance();
        Xoshiro random = seeded(seed);
        int made = 0, worse = 0;
        double noise = 0;
        while (made < most && worse < enough) {
            double total = 0;
            for (int64_t j = 0; j < m_; ++j) total += draws_.x[j] = poisson(mean_[j], random);
            ++made;
            if (!(total > 0)) { noise += 1; continue; }
            draws_.total = total;
            refit_ = l_;
            for (double& value : refit_) value = std::max(value, 1e-3 * total);
            draws_.solve(refit_.data(), size);
            worse += draws_.deviance(refit_.data(), size) >= deviance;
            noise += distance();
        }
        numbers[0] = worse >= enough ? static_cast<double>(worse) / made : (worse + 1.0) / (made + 1.0);
        numbers[1] = std::max(apart - noise / made, 0.0);
    }

  private:
    double distance() const {                             // half the absolute differences of counts and rates, as a share
        double value = 0;
        for (int64_t j = 0; j < m_; ++j) value += std::abs(draws_.x.data()[j] - draws_.rate.data()[j]);
        return 0.5 * value / draws_.total;
    }

    const double* F_;
    std::vector<uint8_t> some_;
    int64_t m_;
    int K_;
    Refit draws_;
    Buffer<double> columns_, mean_;
    std::vector<int> topics_;
    std::vector<double> l_, refit_;
};

}  // namespace unmix
