// What every kernel shares: a view of the sparse matrix, the fixed factor in a padded aligned copy,
// and a parallel loop over blocks of rows that hears Ctrl-C and gives the same bits for any number of threads.
#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "simd.hpp"

namespace unmix {

struct Sparse {                       // CSR; row i holds the nonzeros indptr[i] .. indptr[i+1]
    const int64_t* indptr;
    const int32_t* indices;
    const double* data;
    int64_t rows;
    int64_t longest_row() const {
        int64_t longest = 0;
        for (int64_t i = 0; i < rows; ++i) longest = std::max(longest, indptr[i + 1] - indptr[i]);
        return longest;
    }
};

// Rows are cut into blocks of about equal work. The cut does not depend on the number of threads.
inline std::vector<int64_t> row_blocks(const int64_t* indptr, int64_t rows) {
    constexpr int64_t work = 1 << 14, per_row = 8;
    std::vector<int64_t> cuts{0};
    int64_t sum = 0;
    for (int64_t i = 0; i < rows; ++i) {
        sum += indptr[i + 1] - indptr[i] + per_row;
        if (sum >= work || i + 1 == rows) { cuts.push_back(i + 1); sum = 0; }
    }
    return cuts;
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
    std::vector<std::thread> pool;
    const int64_t extra = std::min<int64_t>(threads, blocks) - 1;
    pool.reserve(std::max<int64_t>(extra, 0));
    try {
        for (int64_t t = 0; t < extra; ++t) pool.emplace_back(work, false);
    } catch (const std::system_error&) {        // no more threads to be had: those that have started share the blocks
    } catch (const std::bad_alloc&) {           // nor memory to start one
    }
    work(true);
    for (auto& t : pool) t.join();
    if (error) std::rethrow_exception(error);
}

// The fixed factor with each column multiplied by scale[k], rows padded with zeros to `stride` and aligned to 32 bytes.
template <class T> struct Padded {
    Buffer<T>& buffer;
    int stride;
    // One buffer a calling thread, kept from call to call, so that its pages are touched for the first time only once.
    static Buffer<T>& kept() {
        static thread_local Buffer<T> buffer;
        return buffer;
    }
    Padded(const T* source, int64_t rows, int topics, int stride, const double* scale, int threads) : buffer(kept()), stride(stride) {
        buffer.reserve(static_cast<std::size_t>(rows) * stride + 64);
        std::vector<int64_t> cuts;
        for (int64_t i = 0; i < rows; i += 4096) cuts.push_back(i);
        cuts.push_back(rows);
        for_row_blocks(cuts, threads, [&] {
            return [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                    T* row = buffer.data() + i * stride;
                    const T* from = source + i * topics;
                    for (int k = 0; k < topics; ++k) row[k] = static_cast<T>(from[k] * scale[k]);
                    for (int k = topics; k < stride; ++k) row[k] = 0;
                }
            };
        });
    }
};

}  // namespace unmix
