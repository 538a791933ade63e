// A network's place in a stack, as its backend sees it.
#pragma once

#include "core/device.h"
#include "cuda/formula_kernels.h"
#include "cuda/lt_products.h"
#include "cuda/slabs.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

class StackPlace {
 public:
  StackPlace(SlabPlace memory_, SlabPlace buffers_, FormulaKernels& formulas_)
      : memory(memory_), buffers(buffers_), formulas(formulas_) {}
  virtual ~StackPlace() = default;
  /// See Device::run_together().
  virtual void run_together(const StepKey& key, FunctionRef<void()> step) = 0;
  /// Whether the step is being recorded, so that product() is to be asked.
  virtual bool records() const = 0;
  /// `alone`(op, p, with), or the same product together with that of other networks that have reached theirs.
  virtual bool product(LtProducts& alone, const char* op, const LtProduct& p, const LtOperands& with) = 0;
  /// Before the host waits for the device: first the other networks give it work.
  virtual void before_waiting() = 0;

  const SlabPlace memory, buffers;
  FormulaKernels& formulas;  // of all places
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
