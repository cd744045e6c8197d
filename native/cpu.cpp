// The Python module that is asked which of the others may be loaded; compiled for every CPU.
#include "cpu.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

NB_MODULE(_cpu, m) {
    m.def("supports", [](const std::string& isa) { return unmix::cpu_supports(isa); }, nanobind::arg("isa"));
}
