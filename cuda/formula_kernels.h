// Kernels of formulas, compiled when they are first needed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "core/formula/cuda_source.h"
#include "cuda/device.h"
#ifndef NORMLAB_CUDA_EMULATED
#include "cuda/nvrtc.h"
#endif

namespace normlab::NORMLAB_CUDA_NAMESPACE {

using FormulaKernel = void (*)(formula::FormulaArguments);

/// `finish` may be null.
struct FormulaFunctions {
  FormulaKernel rows = nullptr, finish = nullptr;
};
#ifdef NORMLAB_CUDA_EMULATED
/// What tests have compiled, by formula::text_hash().
std::map<std::uint64_t, FormulaFunctions>& emulated_formulas();
/// FormulaKernels::compiler(), which tests of one that is missing replace.
extern std::string (*emulated_formula_compiler)();
#endif

class FormulaKernels {
 public:
  struct Compiled : FormulaFunctions {
    formula::CudaSource source;  // its text is empty
  };
  const Compiled& of(const formula::Programs&, bool backward, DType, int vector);
  /// What compiles them; its version and flags.
  std::string compiler();

 private:
  FormulaFunctions compile(const formula::Programs&, const formula::CudaSource&);
  // By the number of the programs, since making a text takes time; and by the text.
  std::map<std::tuple<std::uint64_t, bool, DType, int>, const Compiled*> known_;
  std::map<std::string, Compiled> by_text_;
#ifndef NORMLAB_CUDA_EMULATED
  const Nvrtc& nvrtc();
  std::unique_ptr<Nvrtc> nvrtc_;
#endif
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
