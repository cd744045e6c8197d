// What one pass over part of the samples says of the factors: for every feature j, added to what other parts said,
//
//     B_jk += sum_i x_ij l_ik / rate_ij        H_jkl += r_j^2 sum_i x_ij l_ik l_il / rate_ij^2,    r_j = max_k f_jk
//
// (rows are features, columns samples). Curvature is kept in single precision, in units of the feature's largest entry, so that
// it neither under- nor overflows: a lower triangle for each block of topics. Then the step that those sums allow:
//
//     minimise  g.d + d'Hd/2   subject to  d_k >= -0.6838 f_k,     g = cost - B - s / f
//
// No rate falls by more than the entry that falls most, so phi(f + d) - phi(f) <= g.d + d'Hd (see newton.cpp), which is at most
// zero at the minimiser: 0 is allowed. No line search, no second pass.
#pragma once
#include "newton.hpp"

namespace unmix {

inline int64_t triangle(int64_t size) { return size * (size + 1) / 2; }

inline int64_t curvature_size(int topics) {
    const TopicBlocks blocks(topics);
    int64_t total = 0;
    for (int first = 0; first < topics; first += blocks.size) total += triangle(std::min(blocks.size, topics - first));
    return total;
}

template <class S>
void add_sums(const Sparse& Xt, const float* units, const S* right, int topics, const TopicBlocks& blocks, Held<S> held,
              const double* inverses, double* B, float* H, int threads) {
    const int64_t packed = curvature_size(topics);
    const std::vector<double> ones(topics, 1.0);
    for_rows(Xt, threads, [&] {
        return [&, owned = newton_row(units, nullptr, ones.data(), topics, Xt.longest, 1, 0.0),
                held_rows = held.rows(Xt.longest)](int64_t begin, int64_t end) {
            Newton& row = *owned;
            row.has_offset = held_rows != nullptr;
            row.inverses = inverses;
            if (held_rows) row.offset.reserve(Xt.longest + 8);
            for (int64_t j = begin; j < end; ++j) {
                row.enter(Xt, j);
                const S* f = right + j * topics;
                const double largest = *std::max_element(f, f + topics);
                if (row.count == 0 || !(largest > 0)) continue;
                for (int k = 0; k < topics; ++k) row.b[k] = f[k] / largest;
                if (held_rows) held.offset(*held_rows, j, largest, row);
                row.look();
                float* h = H + j * packed;
                for (int first = 0; first < topics; first += blocks.size) {
                    const int active = std::min(blocks.size, topics - first);
                    row.moments(first);
                    for (int k = 0; k < active; ++k) B[j * topics + first + k] += row.numerator[k] / largest;
                    for (int k = 0; k < active; ++k)
                        for (int l = 0; l <= k; ++l) *h++ += row.H[k * blocks.size + l];
                }
            }
        };
    });
}

constexpr int box_sweeps = 32;

// One feature: `f` moves along the minimiser of the quadratic model in the box. `total` is the feature's sum of counts.
struct BoxStep {
    int topics;
    TopicBlocks blocks;
    std::vector<double> cost, b, g, d, q, H;

    explicit BoxStep(int topics) : topics(topics), blocks(topics), cost(topics), b(topics), g(topics), d(topics), q(topics), H(blocks.size * blocks.size) {}

    template <class S>
    void solve(const S* f, S* out, const double* B, const float* packed, Shape costs, Shape shape, int64_t j, double total) {
        for (int k = 0; k < topics; ++k) cost[k] = costs(j, k);
        double largest = 0;
        for (int k = 0; k < topics; ++k) largest = std::max<double>(largest, f[k]);
        const bool has_prior = shape.data != nullptr;
        if (!(largest > 0) || !(total > 0)) {              // no counts: the prior's mode, or zero
            for (int k = 0; k < topics; ++k) out[k] = has_prior && cost[k] > 0 ? static_cast<S>(shape(j, k) / cost[k]) : S(0);
            return;
        }
        for (int k = 0; k < topics; ++k) {
            b[k] = f[k] / largest;
            g[k] = (cost[k] - B[k]) * largest - (has_prior ? shape(j, k) / b[k] : 0);
        }
        const double several = blocks.count;               // (sum of n terms)^2 <= n sum of squares: blocks move at once, and safely
        for (int first = 0; first < topics; first += blocks.size) {
            const int size = std::min(blocks.size, topics - first);
            double trace = 0;
            const float* h = packed;
            for (int k = 0; k < size; ++k)
                for (int l = 0; l <= k; ++l, ++h) H[k * size + l] = H[l * size + k] = several * *h;
            packed = h;
            for (int k = 0; k < size; ++k) trace += H[k * size + k];
            for (int k = 0; k < size; ++k) {
                H[k * size + k] += 1e-7 * trace;
                if (has_prior) H[k * size + k] += several * shape(j, first + k) / (b[first + k] * b[first + k]);
            }
            descend(first, size);
        }
        for (int k = 0; k < topics; ++k) {
            const double floor = share_floor * total / (cost[k] * largest), next = b[k] + d[k];
            out[k] = static_cast<S>(largest * (cost[k] > 0 && next < floor ? floor : next));
        }
    }

    // d: coordinate descent on g.d + d'Hd/2 over d >= -0.6838 b, scaled so that g.d <= -d'Hd
    void descend(int first, int size) {
        double* z = d.data() + first;
        for (int k = 0; k < size; ++k) { z[k] = 0; q[k] = g[first + k]; }
        double before = 0;
        for (int sweep = 0; sweep < box_sweeps; ++sweep) {
            double moved = 0;
            for (int k = 0; k < size; ++k) {
                const double* h = H.data() + k * size;
                if (!(h[k] > 0)) continue;
                const double next = std::max(-full_step_decrement * b[first + k], z[k] - q[k] / h[k]), change = next - z[k];
                if (change == 0) continue;
                z[k] = next;
                for (int l = 0; l < size; ++l) q[l] += change * h[l];
                moved += change * change * h[k];
            }
            if (sweep == 0) before = moved;
            if (!(moved > 1e-8 * before)) break;
        }
        double gd = 0, dHd = 0;
        for (int k = 0; k < size; ++k) { gd += g[first + k] * z[k]; dHd += z[k] * (q[k] - g[first + k]); }
        const double shrink = dHd > 0 && gd < 0 ? std::min(1.0, -gd / dHd) : 0.0;
        for (int k = 0; k < size; ++k) z[k] *= shrink;
    }
};

template <class S>
void box_step(const S* F, S* out, int64_t rows, int topics, const double* B, const float* H, Shape cost, const double* totals,
              Shape shape, int threads) {
    const int64_t packed = curvature_size(topics);
    std::vector<int64_t> cuts;
    for (int64_t j = 0; j < rows; j += 256) cuts.push_back(j);
    cuts.push_back(rows);
    for_row_blocks(cuts, threads, [&] {
        return [&, row = BoxStep(topics)](int64_t begin, int64_t end) mutable {
            for (int64_t j = begin; j < end; ++j)
                row.solve(F + j * topics, out + j * topics, B + j * topics, H + j * packed, cost, shape, j, totals[j]);
        };
    });
}

// The transpose of rows: column by column, in each the rows in their order. Threads take rows in turn and know where theirs go.
template <class T>
void transpose(const Sparse& X, const T* data, int64_t columns, int64_t* out_indptr, int32_t* out_indices, T* out_data, int threads) {
    const int64_t *indptr = X.indptr, rows = X.rows;
    const int32_t* indices = X.indices;
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(threads, rows));
    std::vector<int64_t> cuts;
    for (int64_t t = 0; t <= parts; ++t) {                 // of about as many nonzeros
        const int64_t want = indptr[0] + (indptr[rows] - indptr[0]) / parts * t;
        cuts.push_back(t == parts ? rows : std::lower_bound(indptr, indptr + rows, want) - indptr);
    }
    std::vector<int64_t> at(parts * columns, 0);
    auto each_part = [&](auto&& work) {
        std::vector<int64_t> one_each;
        for (int64_t t = 0; t <= parts; ++t) one_each.push_back(t);
        for_row_blocks(one_each, threads, [&] { return [&](int64_t begin, int64_t end) { for (int64_t t = begin; t < end; ++t) work(t); }; });
    };
    each_part([&](int64_t t) {
        X.require_inside(cuts[t], cuts[t + 1]);
        int64_t* count = at.data() + t * columns;
        for (int64_t p = indptr[cuts[t]]; p < indptr[cuts[t + 1]]; ++p) ++count[indices[p]];
    });
    int64_t sum = 0;
    for (int64_t j = 0; j < columns; ++j) {
        out_indptr[j] = sum;
        for (int64_t t = 0; t < parts; ++t) {
            const int64_t count = at[t * columns + j];
            at[t * columns + j] = sum;
            sum += count;
        }
    }
    out_indptr[columns] = sum;
    each_part([&](int64_t t) {
        int64_t* next = at.data() + t * columns;
        for (int64_t i = cuts[t]; i < cuts[t + 1]; ++i)
            for (int64_t p = indptr[i]; p < indptr[i + 1]; ++p) {
                const int64_t to = next[indices[p]]++;
                out_indices[to] = static_cast<int32_t>(i);
                out_data[to] = data[p];
            }
    });
}

}  // namespace unmix
