// The kernels of a formula as CUDA C++ text, which needs no header. It depends on the formula, the width of its rows,
// the storage type and the size of vectors alone.
//
// A team of some warps has a row in its registers. Values of a row are computed where they are needed: once for each
// group of reductions that do not wait for each other, and once for the result. A block takes some rows, or an image if
// reductions are over its tokens, which then takes several passes.
#pragma once

#include "core/dtype.h"
#include "core/formula/program.h"

/// What the kernels take, once for the host and once as text.
#define NORMLAB_FORMULA_ARGUMENTS                                                            \
  struct FormulaArguments {                                                                  \
    const void *x, *gate, *dy;                                                               \
    void *out, *dgate, *lasting; /* out: y or dx */                                          \
    const void* parameters[7];                                                               \
    void* gradients[7];                                                                      \
    double *partial, *scratch; /* sums over all rows [chunks, partial]; [chunks, scratch] */ \
    long long images, rows, chunk_rows, chunks;                                              \
    int adds; /* a bit for each parameter's gradient, then one for out and one for dgate */  \
  };

namespace normlab::formula {

NORMLAB_FORMULA_ARGUMENTS

struct CudaSource {
  std::string text;  // of the kernel `rows` and, if there are sums over all rows or gradients, of `finish`
  int threads = 0, teams = 0;
  int blocks = 0;                  // that a multiprocessor's registers hold
  bool by_image = false;           // a block takes an image
  bool sums = false;               // over all rows: the blocks fix their order
  std::size_t shared = 0;          // bytes that `rows` asks for
  std::int64_t partial = 0;        // sums of a chunk
  std::int64_t scratch = 0;        // numbers of a chunk that shared memory does not hold
  std::int64_t finish_blocks = 0;  // 0: nothing to do
};
inline constexpr int kFinishThreads = 256;

/// Names a text.
std::uint64_t text_hash(std::string_view text);

/// `vector`: values that are read at once, which divides the width; 1 for any address.
CudaSource cuda_source(const Programs& programs, bool backward, DType dtype, int vector);

}  // namespace normlab::formula
