// What every kernel shares: a view of the sparse matrix, the padded aligned copy of the fixed factor,
// and a parallel loop over blocks of rows that hears Ctrl-C and gives the same bits for any number of threads.
#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "simd.hpp"

namespace unmix {

// CSR; row i holds the nonzeros indptr[i] .. indptr[i+1]. `Matrix` (arrays.hpp) makes it, from arrays that it has checked.
struct Sparse {
    const int64_t* indptr;
    const int32_t* indices;
    const double* data;               // or, where all are whole numbers below 2^16 and memory counts, null and
    const uint16_t* narrow;           // these
    int64_t rows, columns;            // `columns` is above every index
    int64_t longest = 0;              // nonzeros of the longest row
    std::vector<int64_t> cuts{0};     // blocks of rows of about equal work, which do not depend on the number of threads

    Sparse(const int64_t* indptr, const int32_t* indices, const double* data, const uint16_t* narrow, int64_t rows, int64_t columns)
        : indptr(indptr), indices(indices), data(data), narrow(narrow), rows(rows), columns(columns) {
        constexpr int64_t work = 1 << 14, per_row = 8;
        int64_t sum = 0;
        for (int64_t i = 0; i < rows; ++i) {
            const int64_t count = indptr[i + 1] - indptr[i];
            longest = std::max(longest, count);
            sum += count + per_row;
            if (sum >= work || i + 1 == rows) { cuts.push_back(i + 1); sum = 0; }
        }
    }
    Sparse part(int64_t begin, int64_t end) const { return {indptr + begin, indices, data, narrow, end - begin, columns}; }
    const int32_t* index_end() const { return indices + indptr[rows]; }
    void read(int64_t start, int64_t count, double* out) const {
        if (narrow) std::copy_n(narrow + start, count, out);
        else std::copy_n(data + start, count, out);
    }
    // The sign bit of either term is set by an index below 0, or not below `columns`: no branch, no comparison of unsigned numbers.
    void require_inside(int64_t begin, int64_t end) const {
        const auto last = static_cast<uint32_t>(columns - 1);
        uint32_t outside = 0;
        for (int64_t p = indptr[begin]; p < indptr[end]; ++p) {
            const auto index = static_cast<uint32_t>(indices[p]);
            outside |= index | (last - index);
        }
        if (outside >> 31) throw std::invalid_argument("a column index was changed after the matrix was made, and leads outside it; make it again");
    }
};

// work(true) in this thread, and work(false) in up to `extra` others beside it.
template <class Work> void with_helpers(int64_t extra, const Work& work) {
    std::vector<std::thread> pool;
    pool.reserve(std::max<int64_t>(extra, 0));
    try {
        for (int64_t t = 0; t < extra; ++t) pool.emplace_back(work, false);
    } catch (const std::system_error&) {        // no more threads to be had: those that have started share the work
    } catch (const std::bad_alloc&) {           // nor memory to start one
    }
    work(true);
    for (auto& t : pool) t.join();
}

// Calls worker(begin, end) for every block; make_worker() is called once a thread and owns that thread's scratch space.
// Called with the GIL released; the calling thread takes it back for a moment now and then to look for an interrupt.
template <class MakeWorker>
void for_row_blocks(const std::vector<int64_t>& cuts, int threads, const MakeWorker& make_worker) {
    using clock = std::chrono::steady_clock;
    const int64_t blocks = static_cast<int64_t>(cuts.size()) - 1;
    std::atomic<int64_t> next{0};
    std::atomic<bool> stop{false};
    std::exception_ptr error;
    std::mutex guard;
    auto work = [&](bool listens) {
        try {
            auto worker = make_worker();
            auto last = clock::now();
            for (int64_t b; !stop && (b = next++) < blocks;) {
                worker(cuts[b], cuts[b + 1]);
                if (listens && clock::now() - last > std::chrono::milliseconds(100)) {
                    last = clock::now();
                    nanobind::gil_scoped_acquire gil;
                    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
                }
            }
        } catch (...) {
            std::lock_guard lock(guard);
            if (!error) error = std::current_exception();
            stop = true;
        }
    };
    with_helpers(std::min<int64_t>(threads, blocks) - 1, work);
    if (error) std::rethrow_exception(error);
}

// The same for the blocks of a matrix. Whoever made it may have changed its indices since: each thread looks at those of a block
// right before they are used, when they have to come to the cache anyway.
template <class MakeWorker> void for_rows(const Sparse& X, int threads, const MakeWorker& make_worker) {
    for_row_blocks(X.cuts, threads, [&] {
        return [&X, worker = make_worker()](int64_t begin, int64_t end) mutable {
            X.require_inside(begin, end);
            worker(begin, end);
        };
    });
}

// Blocks of equal size, for work that is the same on every row.
inline std::vector<int64_t> even_blocks(int64_t rows) {
    std::vector<int64_t> cuts;
    for (int64_t i = 0; i < rows; i += 4096) cuts.push_back(i);
    cuts.push_back(rows);
    return cuts;
}

// Writes the fixed factor, each column multiplied by scale[k] and its rows padded with zeros to `stride`, to `padded`.
// The memory is the caller's, and is lent to one kernel at a time: while a kernel listens for an interrupt, a signal handler
// may run another one in the same thread. Kept from call to call, its pages are touched for the first time only once.
template <class T>
void pad(const T* source, int64_t rows, int topics, int stride, const double* scale, T* padded, int threads) {
    for_row_blocks(even_blocks(rows), threads, [&] {
        return [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                T* row = padded + i * stride;
                const T* from = source + i * topics;
                for (int k = 0; k < topics; ++k) row[k] = static_cast<T>(from[k] * scale[k]);
                for (int k = topics; k < stride; ++k) row[k] = 0;
            }
        };
    });
}

// The length of a padded row: whole vectors of four for most kernels, whole blocks of topics in vectors of eight for Newton.
inline int padded_topics(int topics) { return static_cast<int>(round_up(topics, 4)); }
constexpr int largest_block = 64;
struct TopicBlocks {
    int count, size;
    explicit TopicBlocks(int topics)
        : count(std::max(1, (topics + largest_block - 1) / largest_block)), size(static_cast<int>(round_up((topics + count - 1) / count, 8))) {}
    int padded() const { return count * size; }
};

template <int N> struct Number { static constexpr int value = N; };      // a number of vectors, known when compiling

// Bytes of memory that hold a padded factor wherever in a cache line they begin.
constexpr std::size_t cache_line = 64;
inline std::size_t padded_bytes(std::size_t rows, int stride, std::size_t item) { return rows * stride * item + cache_line - 1; }

}  // namespace unmix
