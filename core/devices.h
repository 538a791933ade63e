// The devices by name, for code that only passes a backend on. What a backend can do is in core/backend.h.
#pragma once

namespace normlab {

class Backend;

/// The CPU: single-threaded kernels with products by OpenBLAS and, in bf16, oneDNN. Its only state is per-thread
/// scratch memory.
Backend& cpu_backend();

}  // namespace normlab
