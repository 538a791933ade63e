// All learnable tensors of a network in one flat buffer, with gradient buffers for its lanes, a bf16 copy where products
// read one, and the buffers that are not learnt. Names are those in checkpoints, fixtures and random streams.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "nn/model/roles.h"

namespace normlab {

class Backend;
class ShardPool;
struct SiteRow;  // nn/model/sites.h

/// The function of a parameter in the network.
struct ParameterUse {
  Role role = Role::gain;
  Place place{};
  const SiteRow* site = nullptr;  // of a norm
  bool decays = false;            // weight decay applies when only matrices decay: true for weights
  std::int64_t fan_in = 0;        // of a linear layer, and of a matrix of a norm that is drawn
  double start = 1.0;             // of other parameters of norms and of gains, which no initialiser draws
  bool stacked = false;           // no gap to the previous parameter: one product reads them as one matrix
  bool fixed = false;             // computed before the training, which freezes it
};

struct ParameterInfo : ParameterUse {
  std::string name;
  Shape shape;
  std::int64_t offset;  // in elements of the flat buffer
  bool frozen = false;  // never changes, and has no gradient
};

class ParameterSet {
 public:
  /// Allocates from `memory`, which must outlive the set and belong to the backend that works on it.
  explicit ParameterSet(Memory& memory = host_memory()) : device_memory_(memory), memory_(memory) {}
  /// Declares a parameter and returns its number. Only before allocate().
  int add(std::string name, const Shape& shape, const ParameterUse& use = {});
  /// Declares a running statistic of `width` channels at `place` that starts at `initial`.
  int add_buffer(std::string name, const Place& place, std::int64_t width, double initial);
  /// Declares a constant table outside of checkpoints; allocate() calls `values`.
  int add_constant(const Shape& shape, std::function<std::vector<double>()> values);
  /// Freezes the marked parameters, one mark for each: they get no gradients and no optimiser state. Their values lie
  /// after all others in the flat buffer. Parameters declared as stacked are marked together. Only before allocate().
  void freeze(const std::vector<bool>& marks);
  /// Allocates: `dtype` f32 or f64, `lanes` gradient buffers (0 for none). All zero, buffers at their start values.
  /// `bf16_copy`, for f32: keeps a rounded copy of all values for weight(). `panel_rows`: weight() comes with panels of
  /// that many rows (Backend::panel_rows()); 0: without.
  void allocate(DType dtype, std::int64_t lanes, bool bf16_copy = false, std::int64_t panel_rows = 0);

  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  const std::vector<ParameterInfo>& buffers() const { return buffers_; }
  /// The number of that name, or -1.
  int find(std::string_view name) const;
  int find_buffer(std::string_view name) const;
  /// Number of learnable values.
  std::int64_t count() const;
  std::int64_t trained_count() const;  // without frozen parameters
  bool is_frozen(int parameter) const { return parameters_[static_cast<std::size_t>(parameter)].frozen; }
  /// Whether the stem, block or merging at `place` has parameters, all of them frozen.
  bool is_frozen_part(const Place& place) const;

  /// Writable by the caller. With a bf16 copy, the tensor is stale (throws) from the next step on; that step's
  /// refresh_copy() picks up what was written.
  Tensor value(int parameter) const { return view(flat_values(), parameters_[static_cast<std::size_t>(parameter)]); }
  /// For the forward pass, which only reads. Here and below, `count` parameters that were declared stacked are one
  /// tensor, joined along the first axis.
  Tensor read(int first, int count = 1) const { return view(values_, first, count); }
  /// The weight or bias of a product: the rounded copy if there is one. Throws InputError if values were handed out
  /// since the copy was last made. Panels hold the values of the last refresh_copy().
  Tensor weight(int first, int count = 1) const;
  /// Rounds all values again if any were handed out, and packs the panels. Call it before a pass, not during a step.
  void refresh_copy(Backend& backend, ShardPool& pool);
  Tensor buffer(int number) const { return view(buffer_values_, buffers_[static_cast<std::size_t>(number)]); }
  Tensor constant(int number) const { return constants_[static_cast<std::size_t>(number)].value; }
  /// The gradient summed in lane `lane`. After the lanes were summed, lane 0 holds the total.
  Tensor gradient(std::int64_t lane, int first, int count = 1) const { return view(flat_lane(lane), first, count); }

  /// The first shard of a lane assigns gradients and the others add, so they need no clearing. Call begin_lane() before
  /// the shards run and end_lane() after them, which zeroes gradients that no shard has written.
  void begin_lane(std::int64_t lane);
  void end_lane(std::int64_t lane);
  /// The flags of `count` parameters from `first` on, for Tape::parameter().
  std::span<std::uint8_t> written(std::int64_t lane, int first, int count) const {
    const std::size_t at = static_cast<std::size_t>(lane) * parameters_.size() + static_cast<std::size_t>(first);
    return {written_.get() + at, static_cast<std::size_t>(count)};
  }

  /// The first numbers of the flat buffers, which belong to parameters that are not frozen.
  std::int64_t trained_size() const { return trained_size_; }
  Tensor flat_values() const;  // including padding (zero)
  /// For the optimiser, which writes both: the values, and their rounded copy or an empty tensor.
  struct Update {
    Tensor values, copy;
  };
  Update update() const { return {values_, copy_}; }
  Tensor flat_lane(std::int64_t lane) const;               // [trained_size]
  const Tensor& flat_lanes() const { return gradients_; }  // [lanes, trained_size]
  std::int64_t lanes() const { return lanes_; }
  DType dtype() const { return dtype_; }
  /// A zeroed tensor in the layout of the flat buffer; `view_flat` returns its slices.
  Tensor make_flat() { return make_zeroed({flat_size_}, dtype_); }
  /// The same for optimiser state, of trained parameters only, with values first to first + count zeroed. The others are
  /// undefined, and take no memory of the host until they are used.
  Tensor make_trained(DType dtype, std::int64_t first, std::int64_t count);
  /// A zeroed tensor in the same memory.
  Tensor make_zeroed(const Shape& shape, DType dtype);
  Tensor view_flat(const Tensor& flat, int parameter) const {
    return view(flat, parameters_[static_cast<std::size_t>(parameter)]);
  }
  /// All buffers as one tensor, another tensor of that layout, and one buffer's part of it.
  Tensor flat_buffers() const { return buffer_values_; }
  Tensor make_flat_buffers();
  Tensor view_flat_buffer(const Tensor& flat, int number) const {
    return view(flat, buffers_[static_cast<std::size_t>(number)]);
  }
  /// Swaps values and buffers with tensors of the same layout. Tensors handed out earlier keep the old memory. Not
  /// during a step.
  void exchange(Tensor& values, Tensor& buffers);

 private:
  static Tensor view(const Tensor& flat, const ParameterInfo& info);
  Tensor view(const Tensor& flat, int first, int count) const;
  bool has_panels(const ParameterInfo& info) const;
  /// `weight` with its panels. Stacked weights have them only if the panels of each are full: then they are contiguous.
  Tensor with_panels(const Tensor& weight, const ParameterInfo& first) const;
  Memory& device_memory_;
  Arena memory_;
  std::vector<ParameterInfo> parameters_, buffers_;
  std::vector<double> buffer_initial_;
  struct Constant {
    Shape shape;
    std::function<std::vector<double>()> numbers;
    Tensor value;
  };
  std::vector<Constant> constants_;
  std::unique_ptr<std::uint8_t[]> written_;  // [lanes, parameters]
  Tensor values_, gradients_, buffer_values_, copy_, panels_;
  std::vector<int> in_panels_;  // parameters with panels, at the same offsets
  std::int64_t panel_rows_ = 0;
  // With a copy: whether values were handed out since it was made. Their tensors carry the epoch, which the next
  // copy ends.
  mutable bool handed_out_ = false;
  std::uint64_t epoch_ = 1;
  std::vector<Place> frozen_parts_;
  std::int64_t flat_size_ = 0, trained_size_ = 0, buffer_size_ = 0, lanes_ = 0;
  DType dtype_ = DType::f32;
};

}  // namespace normlab
