#include "cuda/backend.h"

#include "core/backend.h"
#include "core/trial_stack.h"
#ifdef NORMLAB_WITH_CUDA
#include "cuda/cuda_backend.h"
#include "cuda/trial_stack.h"
#else
#include "core/error.h"
#endif

namespace normlab {

#ifdef NORMLAB_WITH_CUDA
static std::unique_ptr<Backend> make_backend(int number, bool shared) { return cuda::make_backend(number, shared); }
static std::unique_ptr<TrialStack> make_stack(int places, int number, bool shared) {
  return cuda::make_stack(places, number, shared);
}
#else
[[noreturn]] static void refuse() {
  throw EnvironmentError(
      "--device cuda: this binary has no GPU kernels. They are built by `make CUDA=1` on a machine with nvcc. Run with "
      "--device cpu");
}
static std::unique_ptr<Backend> make_backend(int, bool) { refuse(); }
static std::unique_ptr<TrialStack> make_stack(int, int, bool) { refuse(); }
#endif

std::unique_ptr<Backend> (*cuda_backend_maker)(int number, bool shared) = make_backend;
std::unique_ptr<Backend> make_cuda_backend(int number, bool shared) { return cuda_backend_maker(number, shared); }
std::unique_ptr<TrialStack> (*cuda_stack_maker)(int places, int number, bool shared) = make_stack;
std::unique_ptr<TrialStack> make_cuda_stack(int places, int number, bool shared) {
  return cuda_stack_maker(places, number, shared);
}

}  // namespace normlab
