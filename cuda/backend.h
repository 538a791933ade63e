// The GPU backend. make_cuda_backend() is all that code outside of cuda/ uses.
#pragma once

#include <memory>

namespace normlab {

class Backend;
class TrialStack;

/// The CUDA backend on GPU `number` of those that this process sees, for the calling thread. `shared`: other workers use
/// the GPU too, so waiting for it takes no core. Throws EnvironmentError if the binary was built without CUDA, with
/// advice on the build, and if there is no usable GPU, driver or cuBLAS.
std::unique_ptr<Backend> make_cuda_backend(int number = 0, bool shared = false);
/// What it calls. Tests without a GPU put the emulated one here.
extern std::unique_ptr<Backend> (*cuda_backend_maker)(int number, bool shared);
/// The same for networks that this GPU trains together, and what it calls.
std::unique_ptr<TrialStack> make_cuda_stack(int places, int number = 0, bool shared = false);
extern std::unique_ptr<TrialStack> (*cuda_stack_maker)(int places, int number, bool shared);

}  // namespace normlab
