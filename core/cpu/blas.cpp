#include "core/cpu/blas.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "core/library.h"

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
  std::size_t most_threads = 0;  // that may multiply at the same time
  BlasInfo info;
};

/// OpenBLAS has work buffers for twice the number of threads it was built for. Further threads get theirs from a list
/// that it creates on demand, and threads that do this concurrently can crash.
std::size_t work_buffers(std::string_view config) {
  constexpr std::string_view kKey = "MAX_THREADS=";
  constexpr std::size_t kLeast = 50;
  std::size_t threads = 0;
  if (const std::size_t at = config.find(kKey); at != config.npos)
    std::from_chars(config.data() + at + kKey.size(), config.data() + config.size(), threads);
  return std::max(kLeast, 2 * threads);
}

constexpr const char* kCore = "OPENBLAS_CORETYPE";

/// Sets the number of threads to one while OpenBLAS is loaded. It would start the other threads at once, and hang if
/// the address space is too small for them.
class OneThread {
 public:
  OneThread() {
    if (const char* value = getenv(kName)) inherited_ = value;
    setenv(kName, "1", 1);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() {
    if (inherited_)
      setenv(kName, inherited_->c_str(), 1);
    else
      unsetenv(kName);
  }

 private:
  static constexpr const char* kName = "OPENBLAS_NUM_THREADS";
  std::optional<std::string> inherited_;
};

Blas open() {
#if defined(NORMLAB_OPENBLAS_CORE)
  setenv(kCore, NORMLAB_OPENBLAS_CORE, 0);  // --blas-env keep may have kept another
#endif
  const OneThread environment;
  const auto open_library = [] {
    return Library("OpenBLAS", "libopenblas.so.0", "install it: apt-get install libopenblas0-pthread");
  };
  Library library = open_library();
  int (*get_parallel)() = nullptr;
  library.find("openblas_get_parallel", get_parallel);
  const int parallel = get_parallel();
  if (parallel == 0)
    throw EnvironmentError(
        "OpenBLAS: the serial build is installed, which gives wrong results when several threads call it; install the "
        "threaded build: apt-get install libopenblas0-pthread && update-alternatives --config "
        "libopenblas.so.0-$(uname -m)-linux-gnu");
  const auto core = [&] {
    char* (*get_corename)() = nullptr;
    library.find("openblas_get_corename", get_corename);
    return std::string(get_corename());
  };
  Blas blas;
  blas.info.core = core();
  std::vector<const char*> wider;
  if (!getenv(kCore)) wider = wider_blas_cores(blas.info.core, cpu_has);
  for (const char* wanted : wider) {
    library.close();
    setenv(kCore, wanted, 1);
    library = open_library();
    unsetenv(kCore);
    blas.info.core = core();
    if (blas.info.core == wanted) break;
  }
  if (!wider.empty() && blas.info.core != wider.front()) blas.info.wider = wider.front();
  void (*set_num_threads)(int) = nullptr;
  char* (*get_config)() = nullptr;
  library.find("openblas_set_num_threads", set_num_threads);
  library.find("openblas_get_config", get_config);
  library.find("cblas_sgemm", blas.sgemm);
  library.find("cblas_dgemm", blas.dgemm);
  if (parallel == 2) library.find("omp_set_num_threads", blas.omp_set_num_threads);
  set_num_threads(1);
  blas.info.config = get_config();
  blas.info.flavour = parallel == 2 ? "openmp" : "pthread";
  blas.most_threads = work_buffers(blas.info.config);
  return blas;
}

const Blas& blas() {
  static const Blas instance = open();
  return instance;
}

/// What a thread needs before its first product.
class ProductThread {
 public:
  explicit ProductThread(const Blas& blas) {
    if (blas.omp_set_num_threads) blas.omp_set_num_threads(1);  // an OpenMP build must not start its own team
    const std::lock_guard lock(mutex_);
    if (threads_ == blas.most_threads)
      throw EnvironmentError(
          concat("OpenBLAS supports at most ", blas.most_threads, " threads per process; use fewer --threads"));
    require_room((threads_ + 1) * kWorkMemory);
    ++threads_;
  }
  ProductThread(const ProductThread&) = delete;
  ProductThread& operator=(const ProductThread&) = delete;
  ~ProductThread() {
    const std::lock_guard lock(mutex_);
    --threads_;
  }

 private:
  /// OpenBLAS retries for ever if it gets no work memory. This checks beforehand that there is room for all threads
  /// that may still need theirs.
  static void require_room(std::size_t bytes) {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    void* const room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
      throw EnvironmentError(concat("OpenBLAS: the limit on address space does not leave ", kWorkMemory >> 20,
                                    " MB for the products of each thread; raise it (ulimit -v), or use fewer --workers "
                                    "and --threads"));
    munmap(room, bytes);
  }

  static constexpr std::size_t kWorkMemory = (std::size_t{128} << 20) + 4096;  // of 0.3.21; later versions take less
  static inline std::mutex mutex_;
  static inline std::size_t threads_ = 0;
};

const Blas& blas_of_this_thread() {
  thread_local const ProductThread thread(blas());
  return blas();
}

int narrow(std::int64_t n) {
  if (n > 0x7fffffff) throw InputError(concat("gemm: a size of ", n, " exceeds what BLAS can address"));
  return static_cast<int>(n);
}

}  // namespace

std::vector<const char*> wider_blas_cores(std::string_view core, bool (*has)(const char*)) {
  struct Kernels {
    const char *core, *needs;
  };
  static constexpr Kernels kKernels[] = {
      {"Cooperlake", "avx512bf16"}, {"SkylakeX", "avx512vl"}, {"Haswell", "avx2"}, {"Zen", "avx2"},
      {"Sandybridge", "avx"},       {"Nehalem", "sse4.2"},    {"Prescott", ""}};
  const auto chosen = std::find_if(std::begin(kKernels), std::end(kKernels), [&](auto& k) { return k.core == core; });
  std::vector<const char*> wider;
  if (chosen != std::end(kKernels))
    for (auto k = std::begin(kKernels); std::string_view(k->needs) != chosen->needs; ++k)
      if (has(k->needs)) wider.push_back(k->core);
  return wider;
}

void clear_blas_environment() {
  std::vector<std::string> names;
  for (char** e = environ; *e; ++e) {
    const std::string_view entry = *e;
    if (entry.starts_with("OPENBLAS_") || entry.starts_with("ONEDNN_") || entry.starts_with("DNNL_") ||
        entry.starts_with("GOTO_NUM_THREADS="))
      names.emplace_back(entry.substr(0, entry.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

const BlasInfo& blas_info() { return blas().info; }

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  blas_of_this_thread().sgemm(kRowMajor, transpose_a ? kTranspose : kNoTranspose,
                              transpose_b ? kTranspose : kNoTranspose, narrow(m), narrow(n), narrow(k), alpha, a,
                              narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
          const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
          std::int64_t ldc) {
  blas_of_this_thread().dgemm(kRowMajor, transpose_a ? kTranspose : kNoTranspose,
                              transpose_b ? kTranspose : kNoTranspose, narrow(m), narrow(n), narrow(k), alpha, a,
                              narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

}  // namespace normlab
