// What row updates and passes over the nonzeros spend their time in, compiled once for every kind of factor.
#include "regression.hpp"

namespace unmix {

// V is the number of 4-topic vectors in a padded row (0: known only at run time).
template <int V, class S> static const S* m_of(const Regression<S>& row, int64_t p) {
    return row.fixed + static_cast<int64_t>(row.index[p]) * (4 * (V ? V : row.vectors));
}

template <int V, bool first_visit, class S> static void rates_of(Regression<S>& row) {
    constexpr int ahead = 12;
    Vec<double> bv[V ? V : 1];
    if constexpr (V > 0) for (int v = 0; v < V; ++v) bv[v] = load(row.b.data() + 4 * v);
    auto dot = [&](int64_t p) {
        if constexpr (first_visit) {
            if (row.index_end - row.index > p + ahead) {
                const char* next = reinterpret_cast<const char*>(m_of<V>(row, p + ahead));
                const int bytes = 4 * (V ? V : row.vectors) * static_cast<int>(sizeof(S));
                for (int line = 0; line < bytes; line += 64) __builtin_prefetch(next + line);
            }
        }
        const S* m = m_of<V>(row, p);
        Vec<double> total{};
        if constexpr (V > 0) {
            for (int v = 0; v < V; ++v) total += load4(m + 4 * v) * bv[v];
        } else {
            for (int v = 0; v < row.vectors; ++v) total += load4(m + 4 * v) * load(row.b.data() + 4 * v);
        }
        return total;
    };
    int64_t p = 0;
    for (; p + 4 <= row.count; p += 4) store(row.rate.data() + p, sums(dot(p), dot(p + 1), dot(p + 2), dot(p + 3)));
    for (; p < row.count; ++p) row.rate[p] = sum(dot(p));
}

// Up to four vectors of topics at a time, their sums in registers.
template <int V, int N, class S> static void some_numerators(Regression<S>& row, int first) {
    Vec<double> total[N] = {};
    for (int64_t p = 0; p < row.count; ++p) {
        const S* m = m_of<V>(row, p) + 4 * first;
        const double r = row.ratio[p];
        for (int v = 0; v < N; ++v) total[v] += r * load4(m + 4 * v);
    }
    for (int v = 0; v < N; ++v) store(row.numerator.data() + 4 * (first + v), total[v]);
}
template <int V, class S> static void numerators_of(Regression<S>& row) {
    if constexpr (V > 0) {
        some_numerators<V, V>(row, 0);
    } else {
        int v = 0;
        for (; v + 4 <= row.vectors; v += 4) some_numerators<0, 4>(row, v);
        for (; v < row.vectors; ++v) some_numerators<0, 1>(row, v);
    }
}

template <int V, class S> static typename Regression<S>::Loops loops_of() {
    return {rates_of<V, false, S>, rates_of<V, true, S>, numerators_of<V, S>};
}
template <class S> typename Regression<S>::Loops Regression<S>::loops_for(int vectors) {
    switch (vectors) {
        case 1: return loops_of<1, S>();
        case 2: return loops_of<2, S>();
        case 3: return loops_of<3, S>();
        case 4: return loops_of<4, S>();
        default: return loops_of<0, S>();
    }
}
template struct Regression<double>;
template struct Regression<float>;

template <class S> struct ExactRows final : Exact {
    const S* fixed;

    ExactRows(const S* fixed, int topics, int64_t longest) : Exact(topics, longest), fixed(fixed) {}
    const S* row(int32_t j) const { return fixed + static_cast<int64_t>(j) * topics; }
    Vec<double> four(const S* p) const {
        if (topics >= 4) return load4_anywhere(p);
        Vec<double> v{};
        for (int k = 0; k < topics; ++k) v[k] = p[k];
        return v;
    }

    void rates(const int32_t* index, const int32_t* index_end, int64_t count) override {
        switch (vectors) {
            case 2: return rates_of<2>(index, index_end, count);
            case 3: return rates_of<3>(index, index_end, count);
            case 4: return rates_of<4>(index, index_end, count);
            case 5: return rates_of<5>(index, index_end, count);
            default: return rates_of<0>(index, index_end, count);
        }
    }
    template <int V> void rates_of(const int32_t* index, const int32_t* index_end, int64_t count) {
        constexpr int ahead = 24;
        const int bytes = (V ? 4 * V : topics) * static_cast<int>(sizeof(S));
        for (int64_t p = 0; p < count; p += 4) {
            const S* rows[4];
            Vec<double> total[4] = {};
            for (int q = 0; q < 4; ++q) {
                rows[q] = row(index[std::min(p + q, count - 1)]);
                if (index_end - index >= p + ahead + 4) {
                    const char* next = reinterpret_cast<const char*>(row(index[p + q + ahead]));
                    for (int line = 0; line < bytes; line += 64) __builtin_prefetch(next + line);
                }
            }
            for (int v = 0; v < (V ? V : vectors); ++v) {
                const Vec<double> w = load(weights.data() + 4 * v);
                for (int q = 0; q < 4; ++q) total[q] += (V ? load4_anywhere(rows[q] + first(v)) : four(rows[q] + first(v))) * w;
            }
            store(rate.data() + p, sums(total[0], total[1], total[2], total[3]));
        }
    }
    void numerators(const int32_t* index, const double* y, int64_t count) override {
        for (int64_t p = 0; p < count; ++p) ratio[p] = y[p] / rate[p];
        for (int v = 0; v < vectors; v += 4) {
            const int some = std::min(4, vectors - v);
            Vec<double> total[4] = {};
            for (int64_t p = 0; p < count; ++p) {
                const S* from = row(index[p]);
                for (int u = 0; u < some; ++u) total[u] += ratio[p] * four(from + first(v + u));
            }
            for (int u = 0; u < some; ++u)
                for (int k = 0; k < std::min(4, topics); ++k) numerator[first(v + u) + k] = total[u][k];
        }
    }
};

template <class S> std::unique_ptr<Exact> exact_rows(const S* fixed, int topics, int64_t longest) {
    return std::make_unique<ExactRows<S>>(fixed, topics, longest);
}
template std::unique_ptr<Exact> exact_rows(const double*, int, int64_t);
template std::unique_ptr<Exact> exact_rows(const float*, int, int64_t);

}  // namespace unmix
