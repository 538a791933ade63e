#include "cuda/backend.h"

#include "core/backend.h"
#ifdef NORMLAB_WITH_CUDA
#include "cuda/cuda_backend.h"
#else
#include "core/error.h"
#endif

namespace normlab {

static std::unique_ptr<Backend> make_backend([[maybe_unused]] int number, [[maybe_unused]] bool shared) {
#ifdef NORMLAB_WITH_CUDA
  return cuda::make_backend(number, shared);
#else
  throw EnvironmentError(
      "--device cuda: this binary has no GPU kernels. They are built by `make CUDA=1` on a machine with nvcc. Run with "
      "--device cpu");
#endif
}

std::unique_ptr<Backend> (*cuda_backend_maker)(int number, bool shared) = make_backend;
std::unique_ptr<Backend> make_cuda_backend(int number, bool shared) { return cuda_backend_maker(number, shared); }

}  // namespace normlab
