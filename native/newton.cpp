// Newton: one EM step, then up to `rounds` times, for each block of topics, a step towards the minimiser of phi's quadratic
// model over b >= floor. A row whose round promised next to nothing is done.
//
//     g_k = w_k - sum_p y_p m_pk / rate_p - s_k / b_k        H_kl = sum_p y_p m_pk m_pl / rate_p^2 + [k = l] s_k / b_k^2
//
// Two precisions. Neither g nor H changes when a row m_p is multiplied by a number, so the fixed factor is copied to single
// precision with its rows scaled to a largest entry of one: nothing under- or overflows, and a nonzero costs one gather of
// half the size. That g is good to about 2e-7 of its terms. Where the row is nearly solved (EM would hardly move it, or the step
// promises no more than such an error might), g is worked out in double precision from the factor itself, so the solution is exact.
// H stays in single precision: it changes the path, but not the solution.
//
// Step length. Let e_p = m_p.d / rate_p be the relative change of each rate (and d_k / b_k that of each share with a prior).
// (e - log(1 + e)) / e^2 falls with e and is 1 at e = -0.6838, so as long as no e is below that,
// phi(b + d) - phi(b) <= g.d + d'Hd, which is <= 0 once d is scaled to g.d <= -d'Hd. No line search, no logarithm.
// No rate falls by more than the share that falls most, so where no share falls that far rates need not be looked at.
#include "newton.hpp"

namespace unmix {

// N is the number of 8-topic vectors in a padded row if all topics are one block (0: known only at run time, in blocks or not).
template <int N> struct NewtonRow final : Newton {
    static constexpr int sweeps = 8;                      // of coordinate descent on the quadratic model
    static constexpr int64_t chunk = 128;                 // nonzeros whose scaled rows stay in the innermost cache
    static constexpr float doubtful = 2e-6f;              // ten times the error of a gradient in single precision
    const float* units;                                   // the fixed factor, in single precision
    const double* inverse;                                // 1 / c
    int vectors, block_vectors;                           // of a padded row, of a block
    int rounds;
    double enough;                                        // a row that gains less than this needs no further round
    Buffer<int32_t> at;                                   // index, y and its root, filled up to whole groups of eight
    Buffer<float> yf, root, rate;
    Buffer<float> more;                                   // what held topics add to the rates of units
    Buffer<float> narrow;                                 // b, or d, in single precision
    Buffer<float> scaled;                                 // sqrt(y_p) m_pk / rate_p of one chunk and block, a row a nonzero
    Buffer<float> reciprocal, slope, q, z, low;           // of the quadratic model: 1 / H_kk, g, g + Hz, its solution z >= low
    float trace = 0;                                      // of H
    Buffer<int> open;
    Buffer<double> g, d;
    std::unique_ptr<Exact> exact;
    double decrement = 0;                                 // d'Hd

    NewtonRow(const float* units, std::unique_ptr<Exact> exact_, const double* inverse, int topics, TopicBlocks blocks, int64_t longest,
              int rounds, double enough)
        : Newton(topics, blocks.padded(), longest), units(units), inverse(inverse), vectors(blocks.padded() / 8),
          block_vectors(blocks.size / 8), rounds(rounds), enough(enough), exact(std::move(exact_)) {
        at.reserve(longest + 8);
        for (auto* buffer : {&yf, &root, &rate}) buffer->reserve(longest + 8);
        const std::size_t padded = blocks.padded(), size = blocks.size;
        for (auto* buffer : {&narrow, &reciprocal, &slope, &q, &z, &low}) buffer->reserve(padded);
        for (auto* buffer : {&numerator, &g, &d}) {
            buffer->reserve(padded);
            std::fill_n(buffer->data(), padded, 0.0);
        }
        open.reserve(size);
        scaled.reserve(chunk * size);
        H.reserve(size * size);
        std::fill_n(H.data(), size * size, 0.0f);         // also where no topic is, which is never written
    }
    int all() const { return N ? N : vectors; }
    int part() const { return N ? N : block_vectors; }
    bool one_block() const { return N || vectors == block_vectors; }

    void solve() override {
        fill_up();
        weigh_topics();
        if (one_topic()) return;
        const bool near = nearly_solved();
        if (!near) em_step();
        const int size = 8 * part();
        for (int round = 0; round < rounds; ++round) {
            double gain = 0;                              // twice what the quadratic model promised, in units of the log-likelihood
            if (!one_block()) rates();
            for (int first = 0; first < topics; first += size) {
                model(first);
                if ((near && round == 0) || steepest(first) <= doubtful || !direction(first) ||
                    decrement <= doubtful * length_of_step(first)) {
                    if (!near || round > 0 || first > 0) exact_numerators();
                    exact_gradient(first);
                    if (!direction(first)) continue;
                }
                gain += total * decrement;
                step(first);
            }
            if (gain <= enough * std::min(1.0, total)) break;
        }
    }

    double xlog() override {
        exact->weigh([&](int k) { return b[k] * unit * inverse[k]; });
        exact->rates(index, index_end, count);
        if (has_offset) for (int64_t p = 0; p < count; ++p) exact->rate[p] += offset[p] * unit;
        return total * sum_y_log(y, exact->rate, count);
    }

    void fill_up() {
        const int64_t whole = round_up(count, 8);
        for (int64_t p = 0; p < count; ++p) at[p] = index[p];
        for (int64_t p = 0; p < count; ++p) yf[p] = static_cast<float>(y[p]);
        for (int64_t p = count; p < whole; ++p) { at[p] = index[count - 1]; yf[p] = 0; }
        for (int64_t p = 0; p < whole; ++p) root[p] = std::sqrt(yf[p]);
        if (!has_offset) return;
        more.reserve(whole);
        // where no free topic has anything, the rate does not matter
        for (int64_t p = 0; p < count; ++p) more[p] = static_cast<float>(std::min(1e30, offset[p] * inverses[index[p]]));
        for (int64_t p = count; p < whole; ++p) more[p] = more[count - 1];
    }

    struct Eight { const float* row[8]; };
    template <bool first_visit = false> Eight eight(int64_t p) const {
        constexpr int ahead = 40;
        const int64_t stride = 8 * all();
        Eight e;
        for (int i = 0; i < 8; ++i) e.row[i] = units + at.data()[p + i] * stride;
        if constexpr (first_visit)
            for (int i = 0; i < 8 && index_end - index >= p + ahead + 8; ++i) {
                const char* next = reinterpret_cast<const char*>(units + index[p + ahead + i] * stride);
                for (int line = 0; line < 4 * stride; line += 64) __builtin_prefetch(next + line);
            }
        return e;
    }

    // m_p . w of eight nonzeros over `count` vectors of topics from `first` on
    static Vec<float> dots(const Eight& e, int first, const float* w, int count) {
        Vec<float> total[8] = {};
        for (int v = 0; v < (N ? N : count); ++v) {
            const Vec<float> weights = load(w + 8 * v);
            for (int i = 0; i < 8; ++i) total[i] += load(e.row[i] + first + 8 * v) * weights;
        }
        return sums(total);
    }
    static Vec<float> positive(Vec<float> rate) {         // a row of zeros in the fixed factor would make a rate of zero
        const Vec<float> least = Vec<float>{} + 1e-30f;
        return rate > least ? rate : least;
    }
    Vec<float> rates_of(const Eight& e, int64_t p) const {
        const Vec<float> free = dots(e, 0, narrow.data(), all());
        return positive(has_offset ? free + load(more.data() + p) : free);
    }

    void narrow_shares() {
        for (int k = 0; k < 8 * all(); ++k) narrow[k] = static_cast<float>(b[k]);
    }

    void rates() {
        narrow_shares();
        for (int64_t p = 0; p < count; p += 8) store(rate.data() + p, rates_of(eight(p), p));
    }

    // Adds w_p m_p of eight nonzeros to `sums`, by two short chains of additions that do not wait for those of the last eight.
    template <class Rows> static void add(const Rows& row, const float* w, float* sums, int count) {
        for (int v = 0; v < (N ? N : count); ++v) {
            Vec<float> even{}, odd{};
            for (int i = 0; i < 8; i += 2) {
                even += w[i] * load(row(i) + 8 * v);
                odd += w[i + 1] * load(row(i + 1) + 8 * v);
            }
            store(sums + 8 * v, load(sums + 8 * v) + (even + odd));
        }
    }

    // numerator_k = sum_p y_p m_pk / rate_p. Sums run in single precision within a chunk, and over chunks in double.
    void weigh_topics() {
        narrow_shares();
        const int padded = 8 * all();
        for (int k = 0; k < padded; ++k) numerator[k] = 0;
        float* sums = q.data();
        for (int64_t begin = 0; begin < count; begin += chunk) {
            for (int k = 0; k < padded; ++k) sums[k] = 0;
            const int64_t end = std::min(count, begin + chunk);
            for (int64_t p = begin; p < end; p += 8) store(rate.data() + p, load(yf.data() + p) / rates_of(eight<true>(p), p));
            for (int64_t p = begin; p < end; p += 8) {
                const Eight e = eight(p);
                add([&](int i) { return e.row[i]; }, rate.data() + p, sums, all());
            }
            for (int k = 0; k < padded; ++k) numerator[k] += sums[k];
        }
    }

    // Where all topics but one are at the floor, rates are proportional to that one's share, which is one at the solution; if the
    // others then want to stay where they are, the row is solved. Half of the words of a corpus end so.
    bool one_topic() {
        if (has_prior || has_offset) return false;        // shares need not sum to one
        constexpr double near_floor = 4 * share_floor;    // the scale of shares has changed since they were put there
        constexpr double slack = 1.0 - static_cast<double>(1 - doubtful);
        const int topic = static_cast<int>(std::max_element(b.data(), b.data() + topics) - b.data());
        int others = 0;
        for (int k = 0; k < topics; ++k) others += int{b[k] > near_floor} | int{numerator[k] * b[topic] * weight[topic] > weight[k] - slack};
        if (others != 1) return false;
        for (int k = 0; k < topics; ++k) b[k] = share_floor;
        b[topic] = (1 - (topics - 1) * share_floor) * inverse_weight[topic];
        return true;
    }

    // Whether EM would hardly move the row. Then it is left out, and the gradient is exact from the start.
    bool nearly_solved() {
        double change = 0;
        for (int k = 0; k < topics; ++k) change = std::max(change, std::abs((weighted ? b[k] * weight[k] : b[k]) - b[k] * numerator[k] - prior[k]));
        if (change > doubtful) return false;
        exact_numerators();
        return true;
    }

    void em_step() {
        for (int k = 0; k < topics; ++k) b[k] = std::max(share_floor, (b[k] * numerator[k] + prior[k]) * inverse_weight[k]);
    }

    void look() override {
        fill_up();
        if (!one_block()) rates();
    }
    void moments(int first) override {
        const int size = 8 * part(), active = std::min(size, topics - first);
        if (one_block()) narrow_shares();
        for (int k = 0; k < size; ++k) numerator[k] = 0;
        float* sums = q.data();
        for (int64_t begin = 0; begin < count; begin += chunk) {
            for (int k = 0; k < size; ++k) sums[k] = 0;
            const int64_t end = std::min(count, begin + chunk);
            if (one_block()) for (int64_t p = begin; p < end; p += 8) store(rate.data() + p, rates_of(eight(p), p));
            for (int64_t p = begin; p < end; p += 8) {
                const Eight e = eight(p);
                alignas(32) float weight[8];
                store(weight, load(root.data() + p) / load(rate.data() + p));
                float* out = scaled.data() + (p - begin) * size;
                for (int i = 0; i < 8; ++i)
                    for (int v = 0; v < part(); ++v) store(out + i * size + 8 * v, weight[i] * load(e.row[i] + first + 8 * v));
                add([&](int i) { return out + i * size; }, root.data() + p, sums, part());
            }
            for (int k = 0; k < size; ++k) numerator[k] += sums[k];
            curvature(end - begin, active, begin == 0);
        }
    }

    // g and H of one block, in single precision
    void model(int first) {
        const int size = 8 * part(), active = std::min(size, topics - first);
        moments(first);
        for (int k = 0; k < size; ++k) g[k] = weight[first + k] - numerator[k];
        for (int l = 8; l < active; ++l)                   // above the diagonal tiles, which are whole
            for (int k = 0; k < l / 8 * 8; ++k) H[k * size + l] = H[l * size + k];
        trace = 0;
        for (int k = 0; k < active; ++k) trace += H[k * size + k];
        for (int k = 0; k < active; ++k) H[k * size + k] += 1e-6f * trace;
        if (has_prior)
            for (int k = 0; k < active; ++k) {
                const double pull = prior[first + k] / b[first + k];
                g[k] -= pull;
                H[k * size + k] += static_cast<float>(pull / b[first + k]);
                trace += H[k * size + k];
            }
        keep_out(first);
        for (int k = 0; k < active; ++k) reciprocal[k] = 1 / H[k * size + k];
    }

    // Adds the products of the chunk's scaled rows to H, on and below the diagonal, in tiles that fit into registers.
    void curvature(int64_t rows, int active, bool anew) {
        for (int r = 0; r < active; r += 8) active - r > 4 ? tiles<8>(rows, r, anew) : tiles<4>(rows, r, anew);
    }
    template <int R> void tiles(int64_t rows, int r, bool anew) {
        int c = 0;
        const int columns = r / 8 + 1;
        for (; c + 2 <= columns; c += 2) tile<R, 2>(rows, r, c, anew);
        if (c < columns) tile<R, 1>(rows, r, c, anew);
    }
    template <int R, int C> void tile(int64_t rows, int r, int c, bool anew) {
        const int size = 8 * part();
        Vec<float> sums[R][C] = {};
        const float* row = scaled.data();
        for (int64_t p = 0; p < rows; ++p, row += size) {
            Vec<float> columns[C];
            for (int j = 0; j < C; ++j) columns[j] = load(row + 8 * (c + j));
#pragma GCC unroll 16
            for (int i = 0; i < R; ++i)
                for (int j = 0; j < C; ++j) sums[i][j] += row[r + i] * columns[j];
        }
        for (int i = 0; i < R; ++i)
            for (int j = 0; j < C; ++j) {
                float* h = H.data() + (r + i) * size + 8 * (c + j);
                store(h, anew ? sums[i][j] : load(h) + sums[i][j]);
            }
    }

    void exact_numerators() {
        exact->weigh([&](int k) { return b[k] * inverse[k]; });
        exact->rates(index, index_end, count);
        if (has_offset) for (int64_t p = 0; p < count; ++p) exact->rate[p] += offset[p];
        exact->numerators(index, y.data(), count);
    }
    void exact_gradient(int first) {                      // from the last numerators in double precision
        const int active = std::min(8 * part(), topics - first);
        for (int k = 0; k < active; ++k) g[k] = weight[first + k] - exact->numerator[first + k] * inverse[first + k];
        if (has_prior) for (int k = 0; k < active; ++k) g[k] -= prior[first + k] / b[first + k];
        keep_out(first);
    }
    void keep_out(int first) {                            // topics that are not allowed here: at the floor, and never up
        if (weighted) for (int k = 0; k < std::min(8 * part(), topics - first); ++k) if (!(weight[first + k] > 0)) g[k] = 1;
    }

    // the largest slope along which the block may move
    double steepest(int first) {
        double steepest = 0;
        for (int k = 0; k < std::min(8 * part(), topics - first); ++k)
            steepest = std::max(steepest, b[first + k] > share_floor ? std::abs(g[k]) : -g[k]);
        return steepest;
    }

    // d: rounds of coordinate descent on g.d + d'Hd/2 subject to b + d >= floor. After the first round only the topics
    // that are free to move are visited.
    bool direction(int first) {
        const int size = 8 * part(), active = std::min(size, topics - first);
        if (!(trace < std::numeric_limits<float>::infinity())) return false;
        for (int k = 0; k < size; ++k) {
            slope[k] = q[k] = static_cast<float>(g[k]);
            low[k] = static_cast<float>(share_floor - b[first + k]);
            z[k] = 0;
        }
        auto visit = [&](int k) {
            const float* h = H.data() + k * size;
            const float next = std::max(low[k], z[k] - q[k] * reciprocal[k]);
            const float change = next - z[k];
            z[k] = next;
            for (int c = 0; c < part(); ++c) store(q.data() + 8 * c, load(q.data() + 8 * c) + change * load(h + 8 * c));
            return change * change * h[k];
        };
        float first_sweep = 0;
        int opened = 0;
        for (int k = 0; k < active; ++k) {
            first_sweep += visit(k);
            open[opened] = k;
            opened += z[k] > low[k];
        }
        for (int sweep = 1; sweep < sweeps; ++sweep) {
            float moved = 0;
            for (int o = 0; o < opened; ++o) moved += visit(open[o]);
            if (moved <= 1e-4f * first_sweep) break;
        }
        Vec<float> curved{}, sloped{};
        for (int c = 0; c < part(); ++c) {
            const Vec<float> step = load(z.data() + 8 * c), before = load(slope.data() + 8 * c);
            curved += step * (load(q.data() + 8 * c) - before);
            sloped += step * before;
        }
        const double dHd = sum(curved), gd = sum(sloped);
        // beside held topics the curvature can be lost in the rounding of the slope, which is then all that matters
        if (!(dHd > 0 || has_offset) || !(gd < 0)) return false;
        const double shrink = dHd > 0 ? std::min(1.0, -gd / dHd) : 1;
        decrement = dHd > 0 ? shrink * shrink * dHd : -gd;
        // in double precision again, so that b + d is at the floor and not below
        for (int k = 0; k < active; ++k) d[k] = std::max(shrink * z[k], share_floor - b[first + k]);
        return true;
    }
    double length_of_step(int first) {
        double length = 0;
        for (int k = 0; k < std::min(8 * part(), topics - first); ++k) length += std::abs(d[k]);
        return length;
    }

    // Moves b along d as far as is safe, and the rates with it if another block needs them.
    void step(int first) {
        const int size = 8 * part(), active = std::min(size, topics - first);
        double lowest = 0;
        for (int k = 0; k < active; ++k) lowest = std::min(lowest, d[k] / b[first + k]);
        double length = 1;
        if (lowest < -full_step_decrement || !one_block()) {
            for (int k = 0; k < size; ++k) narrow[k] = k < active ? static_cast<float>(d[k]) : 0;
            Vec<float> least{};
            for (int64_t p = 0; p < count; p += 8) {
                const Vec<float> e = dots(eight(p), first, narrow.data(), part()) / load(rate.data() + p);
                least = e < least ? e : least;
            }
            lowest = 0;
            for (int i = 0; i < 8; ++i) lowest = std::min<double>(lowest, least[i]);
            if (has_prior)
                for (int k = 0; k < active; ++k) if (prior[first + k] > 0) lowest = std::min(lowest, d[k] / b[first + k]);
            if (lowest < -full_step_decrement) length = full_step_decrement / -lowest;
        }
        for (int k = 0; k < active; ++k) b[first + k] = std::max(share_floor, b[first + k] + length * d[k]);
        if (one_block()) return;
        for (int64_t p = 0; p < count; p += 8)
            store(rate.data() + p, positive(load(rate.data() + p) + static_cast<float>(length) * dots(eight(p), first, narrow.data(), part())));
    }
};

std::unique_ptr<Newton> newton_row(const float* units, std::unique_ptr<Exact> exact, const double* inverse, int topics, int64_t longest,
                                   int rounds, double enough) {
    const TopicBlocks blocks(topics);
    auto make = [&](auto n) -> std::unique_ptr<Newton> {
        return std::make_unique<NewtonRow<decltype(n)::value>>(units, std::move(exact), inverse, topics, blocks, longest, rounds, enough);
    };
    switch (blocks.padded() / 8) {
        case 1: return make(Number<1>{});
        case 2: return make(Number<2>{});
        case 3: return make(Number<3>{});
        case 4: return make(Number<4>{});
        default: return make(Number<0>{});
    }
}

}  // namespace unmix
