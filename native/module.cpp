// The Python module of the kernels: arrays in, arrays out, the GIL released. Compiled once per instruction set.
#include "arrays.hpp"

NB_MODULE(UNMIX_MODULE, m) {
    unmix::bind_updates(m);
    unmix::bind_passes(m);
    unmix::bind_beliefs(m);
    unmix::bind_sampling(m);
    unmix::bind_sums(m);
    unmix::bind_special(m);
    unmix::bind_posterior(m);
    m.def("cpu_supports", [](const std::string& isa) {
#if defined(__x86_64__)
        if (isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        if (isa == "avx512") return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
        return isa == "baseline";
    });
}
