#include "core/cpu/blas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace normlab {
namespace {

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*,
                       int);

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;  // enum values of cblas.h

struct Blas {
  Sgemm sgemm = nullptr;
  Dgemm dgemm = nullptr;
  void (*omp_set_num_threads)(int) = nullptr;
  BlasInfo info;
};

std::atomic<bool> keep_environment{false};

template <class F>
F symbol(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (!address) throw EnvironmentError(concat("OpenBLAS: symbol ", name, " is missing; install libopenblas0-pthread"));
  return reinterpret_cast<F>(address);
}

void clear_environment() {
  std::vector<std::string> names;
  for (char** e = environ; *e; ++e) {
    const std::string_view entry = *e;
    if (entry.starts_with("OPENBLAS_") || entry.starts_with("ONEDNN_") || entry.starts_with("DNNL_") ||
        entry.starts_with("GOTO_NUM_THREADS="))
      names.emplace_back(entry.substr(0, entry.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

Blas open() {
  if (!keep_environment) clear_environment();
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw EnvironmentError(
        concat("OpenBLAS cannot be loaded (", dlerror(), "); install it: apt-get install libopenblas0-pthread"));
  const int parallel = symbol<int (*)()>(library, "openblas_get_parallel")();
  if (parallel == 0)
    throw EnvironmentError(
        "OpenBLAS: the serial build is installed, which gives wrong results when several threads call it; install the "
        "other one: "
        "apt-get install libopenblas0-pthread && update-alternatives --config libopenblas.so.0-x86_64-linux-gnu");
  Blas blas;
  symbol<void (*)(int)>(library, "openblas_set_num_threads")(1);
  blas.sgemm = symbol<Sgemm>(library, "cblas_sgemm");
  blas.dgemm = symbol<Dgemm>(library, "cblas_dgemm");
  blas.info.config = symbol<char* (*)()>(library, "openblas_get_config")();
  blas.info.core = symbol<char* (*)()>(library, "openblas_get_corename")();
  blas.info.flavour = parallel == 2 ? "openmp" : "pthread";
  if (parallel == 2) {
    blas.omp_set_num_threads = symbol<void (*)(int)>(RTLD_DEFAULT, "omp_set_num_threads");
    blas.omp_set_num_threads(1);
  }
  return blas;
}

const Blas& blas() {
  static const Blas instance = open();
  return instance;
}

int narrow(std::int64_t n) {
  if (n > 0x7fffffff) throw InputError(concat("gemm: a size of ", n, " is beyond what BLAS can address"));
  return static_cast<int>(n);
}

}  // namespace

void blas_keep_environment() { keep_environment = true; }

const BlasInfo& blas_info() { return blas().info; }

void blas_thread_init() {
  if (blas().omp_set_num_threads) blas().omp_set_num_threads(1);
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  blas().sgemm(kRowMajor, transpose_a ? kTranspose : kNoTranspose, transpose_b ? kTranspose : kNoTranspose, narrow(m),
               narrow(n), narrow(k), alpha, a, narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
          const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
          std::int64_t ldc) {
  blas().dgemm(kRowMajor, transpose_a ? kTranspose : kNoTranspose, transpose_b ? kTranspose : kNoTranspose, narrow(m),
               narrow(n), narrow(k), alpha, a, narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

}  // namespace normlab
