// The devices by name, for code that hands a backend on and asks nothing of it. What a backend can do is in
// core/backend.h.
#pragma once

namespace normlab {

class Backend;

/// The CPU: single-threaded kernels, products by OpenBLAS and, in bf16, oneDNN. Stateless but for scratch memory of
/// each thread.
Backend& cpu_backend();

}  // namespace normlab
