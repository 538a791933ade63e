// The devices by name, for code that only passes a backend on. What a backend can do is in core/backend.h.
#pragma once

#include <string>

namespace normlab {

class Backend;

/// The CPU: single-threaded kernels with products by OpenBLAS and, in bf16, oneDNN. Its only state is per-thread
/// scratch memory.
Backend& cpu_backend();

/// A file of algorithms for a GPU's products.
struct ProductAlgorithms {
  std::string file;    // its name, for errors
  std::string text;    // what Backend::product_choices() wrote
  std::string sha256;  // of `text`; empty: no file
};

}  // namespace normlab
