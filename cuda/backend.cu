#include "cuda/backend.h"

#include "core/backend.h"

namespace normlab {

std::unique_ptr<Backend> make_cuda_backend() {
  throw EnvironmentError(
      "--device cuda: this binary has no GPU kernels. They are built by `make CUDA=1` on a machine with nvcc from a "
      "source tree "
      "that has them; this one has the interface only. Run with --device cpu");
}

}  // namespace normlab
