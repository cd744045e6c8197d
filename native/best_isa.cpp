// Tells CMake the best instruction set of the machine it runs on.
#include "cpu.hpp"

#include <cstdio>

int main() { std::puts(unmix::has_avx512() ? "avx512" : unmix::has_avx2() ? "avx2" : "baseline"); }
