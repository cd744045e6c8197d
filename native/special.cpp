// Python bindings of digamma and log-gamma on arrays.
#include "arrays.hpp"
#include "special.hpp"

namespace unmix {

template <double (*function)(double)> static void elementwise(In1<double> x, Out1<double> out, int threads) {
    require(x.shape(0) == out.shape(0), "x and out must be of one length");
    require_aligned(x, out);
    constexpr int64_t block = 1 << 13;
    const auto size = static_cast<int64_t>(x.shape(0));
    std::vector<int64_t> cuts;
    for (int64_t i = 0; i < size; i += block) cuts.push_back(i);
    cuts.push_back(size);
    nb::gil_scoped_release release;
    for_row_blocks(cuts, threads, [&] {
        return [from = x.data(), to = out.data()](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) to[i] = function(from[i]);
        };
    });
}

void bind_special(nb::module_& m) {
    using namespace nb::literals;
    m.def("digamma", &elementwise<digamma>, "x"_a.noconvert(), "out"_a.noconvert(), "threads"_a);
    m.def("log_gamma", &elementwise<log_gamma>, "x"_a.noconvert(), "out"_a.noconvert(), "threads"_a);
}

}  // namespace unmix
