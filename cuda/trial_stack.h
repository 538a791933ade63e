// A stack on a GPU. The steps of all networks become one CUDA graph: a branch of kernels for each network, and one call
// of cuBLASLt for equal products of adjacent networks, whose operands lie at equal distances (cuda/slabs.h). Kernels
// and algorithms are those of a network alone, so that its bits do not depend on its neighbours.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/trial_stack.h"
#include "cuda/formula_kernels.h"
#include "cuda/lt_products.h"
#include "cuda/slabs.h"
#include "cuda/transfer.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

class CudaStack final : public TrialStack {
 public:
  /// On the current device. Throws as a backend does.
  explicit CudaStack(int places);
  ~CudaStack() override;
  int places() const override { return static_cast<int>(places_.size()); }
  Backend& backend(int place) override;
  void run(FunctionRef<void(int place)> body) override;
  void wait(FunctionRef<bool()> ready) override;

 private:
  class Place;
  using Places = std::vector<Place*>;
  using Steps = std::vector<std::pair<std::size_t, StepKey>>;  // of the places by number
  static bool stale(const Steps& before, const Steps& now);
  void resume(Place& place);
  /// Runs the steps of all places that have reached one; false if none has.
  bool step_together();
  std::unique_ptr<Recording> record(const Places& all);
  static void multiply(const Places& waiting);
  static void multiply_adjacent(std::span<Place* const> some);
  static AtOnce multiply_at_once(std::span<Place* const> some);

  Stream stream_;  // of the graphs
  Event begun_, done_;
  Slabs memory_, buffers_;
  FormulaKernels formulas_;
  std::vector<std::unique_ptr<Place>> places_;
  std::map<Steps, std::unique_ptr<Recording>> graphs_;
  Place* running_ = nullptr;
};

/// On GPU `number`. `shared`: see use_device().
std::unique_ptr<TrialStack> make_stack(int places, int number = 0, bool shared = false);

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
