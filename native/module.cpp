// The Python module of the kernels: arrays in, arrays out, the GIL released. Compiled once per instruction set.
#include "arrays.hpp"

NB_MODULE(UNMIX_MODULE, m) {
    nanobind::set_leak_warnings(false);      // of matrices that the interpreter still holds when it ends
    unmix::bind_updates(m);
    unmix::bind_passes(m);
    unmix::bind_beliefs(m);
    unmix::bind_sampling(m);
    unmix::bind_sums(m);
    unmix::bind_special(m);
    unmix::bind_posterior(m);
    unmix::bind_assign(m);
}
