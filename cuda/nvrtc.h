// NVIDIA's compiler of CUDA C++, opened at run time, so that only networks with formulas need it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace normlab {

/// The functions that are used, as nvrtc.h declares them. Results are nvrtcResult.
class Nvrtc {
 public:
  /// Opens the library of CUDA's major version `major`. Throws EnvironmentError if there is none.
  explicit Nvrtc(int major);
  /// Version and flags, on which bits depend: "13.0 --fmad=false -std=c++17".
  const std::string& words() const { return words_; }
  /// The machine code of `text` for this compute capability, which the driver only has to load. Throws EnvironmentError
  /// if this version does not know the GPU, and std::logic_error with the compiler's words for a wrong text.
  std::vector<char> machine_code(const std::string& text, int major, int minor) const;

 private:
  using Program = void*;
  void check(const char* call, int result) const;
  int (*version_)(int*, int*);
  const char* (*error_)(int);
  int (*create_)(Program*, const char* text, const char* name, int, const char* const*, const char* const*);
  int (*compile_)(Program, int, const char* const* options);
  int (*log_size_)(Program, std::size_t*);
  int (*log_)(Program, char*);
  int (*code_size_)(Program, std::size_t*);
  int (*code_)(Program, char*);
  int (*destroy_)(Program*);
  std::string words_;
};

}  // namespace normlab
