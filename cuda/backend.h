// The GPU's backend. Only this function is known outside of cuda/.
#pragma once

#include <memory>

namespace normlab {

class Backend;

/// The CUDA backend on the current device. Throws EnvironmentError where the binary was built without it, saying how to
/// build with it, and without a GPU, a driver or cuBLAS that it can use.
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace normlab
