// All learnable tensors of a network in one flat buffer, with a gradient buffer a lane beside it, a copy rounded to
// bf16 where products read one, and the buffers that are not learnt. Everything has the name that checkpoints, fixtures
// and random streams use.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "nn/roles.h"

namespace normlab {

class Backend;
class ShardPool;
struct SiteRow;  // nn/sites.h

/// What a parameter is to the network.
struct ParameterUse {
  Role role = Role::gain;
  Place place{};
  const SiteRow* site = nullptr;  // of a norm
  bool decays = false;            // weight decay applies when only matrices decay: true for weights
  std::int64_t fan_in = 0;        // of a linear layer
  double start = 1.0;             // of norms and gains, which no initialiser draws
  bool stacked = false;           // no gap lies after the parameter before: one product reads them as one matrix
};

struct ParameterInfo : ParameterUse {
  std::string name;
  Shape shape;
  std::int64_t offset;  // elements into the flat buffer
};

class ParameterSet {
 public:
  /// What is allocated comes from `memory`, which must outlive it: that of the backend which works on it.
  explicit ParameterSet(Memory& memory = host_memory()) : device_memory_(memory), memory_(memory) {}
  /// Declares a parameter and gives its number. Only before allocate().
  int add(std::string name, const Shape& shape, const ParameterUse& use = {});
  /// Declares a running statistic of `width` channels that starts at `initial`.
  int add_buffer(std::string name, std::int64_t width, double initial);
  /// Declares a table that never changes and is no part of a checkpoint; allocate() asks for its values.
  int add_constant(const Shape& shape, std::function<std::vector<double>()> values);
  /// Takes memory: `dtype` f32 or f64, `lanes` gradient buffers (0 for none). All zero, buffers at their start.
  /// `bf16_copy`, for f32: a rounded copy of all values is kept for weight(). `panel_rows`: weight() comes with panels
  /// of so many rows (Backend::panel_rows()); 0: without.
  void allocate(DType dtype, std::int64_t lanes, bool bf16_copy = false, std::int64_t panel_rows = 0);

  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  const std::vector<ParameterInfo>& buffers() const { return buffers_; }
  /// Number of that name, or -1.
  int find(std::string_view name) const;
  int find_buffer(std::string_view name) const;
  /// Number of learnable values.
  std::int64_t count() const;

  /// For anybody: may be written. With a bf16 copy, what was handed out here is stale (a Tensor that throws) from the
  /// next step on, whose refresh_copy() takes over what was written.
  Tensor value(int parameter) const { return view(flat_values(), parameters_[static_cast<std::size_t>(parameter)]); }
  /// For the forward pass, which only reads.
  Tensor read(int parameter) const { return view(values_, parameters_[static_cast<std::size_t>(parameter)]); }
  /// The same for the weight or bias of a product: the rounded copy where there is one. Throws InputError where values
  /// were handed out since the copy was last made. Panels hold the values of the last refresh_copy().
  Tensor weight(int parameter) const;
  /// Rounds all values again where any were handed out, and packs the panels. Before a pass; not while a step runs.
  void refresh_copy(Backend& backend, ShardPool& pool);
  Tensor buffer(int number) const { return view(buffer_values_, buffers_[static_cast<std::size_t>(number)]); }
  Tensor constant(int number) const { return constants_[static_cast<std::size_t>(number)].value; }
  /// A parameter and those stacked after it as one tensor, their first axes joined: read(), weight() and gradient() of
  /// them.
  Tensor stacked_read(std::span<const int> parameters) const { return stacked_view(values_, parameters); }
  Tensor stacked_weight(std::span<const int> parameters) const;
  Tensor stacked_gradient(std::int64_t lane, std::span<const int> parameters) const {
    return stacked_view(flat_lane(lane), parameters);
  }
  /// The gradient that lane `lane` has added up. After the lanes were summed, lane 0 holds the total.
  Tensor gradient(std::int64_t lane, int parameter) const;

  /// A step's gradients are assigned by the first shard of a lane and added by the others, so that nobody has to clear
  /// them: begin_step() before the shards run, end_step() after them, which zeroes what no shard has written.
  void begin_step();
  void end_step();
  /// The flags of `count` parameters from `first` on, for Tape::parameter().
  std::span<std::uint8_t> written(std::int64_t lane, int first, int count) const {
    const std::size_t at = static_cast<std::size_t>(lane) * parameters_.size() + static_cast<std::size_t>(first);
    return {written_.get() + at, static_cast<std::size_t>(count)};
  }

  /// The flat buffers, padding included (zero): [flat_size].
  std::int64_t flat_size() const { return flat_size_; }
  Tensor flat_values() const;
  /// For the optimiser, which writes both: the values, and their rounded copy or an empty tensor.
  struct Update {
    Tensor values, copy;
  };
  Update update() const { return {values_, copy_}; }
  Tensor flat_lane(std::int64_t lane) const;
  std::int64_t lanes() const { return lanes_; }
  DType dtype() const { return dtype_; }
  /// A zeroed tensor of the same layout, for optimiser state; slices of it are found with `view_flat`. Its type is that
  /// of the parameters where none is given.
  Tensor make_flat() { return make_flat(dtype_); }
  Tensor make_flat(DType dtype);
  /// A zeroed tensor in the same memory.
  Tensor make_zeroed(const Shape& shape, DType dtype);
  Tensor view_flat(const Tensor& flat, int parameter) const {
    return view(flat, parameters_[static_cast<std::size_t>(parameter)]);
  }
  /// All buffers in one, another of that layout, and the part of it that belongs to one.
  Tensor flat_buffers() const { return buffer_values_; }
  Tensor make_flat_buffers();
  Tensor view_flat_buffer(const Tensor& flat, int number) const {
    return view(flat, buffers_[static_cast<std::size_t>(number)]);
  }
  /// Puts other values and buffers of the same layout in place of the network's, which are handed back in them. Tensors
  /// handed out before still see the memory they saw. Not while a step runs.
  void exchange(Tensor& values, Tensor& buffers);

 private:
  static Tensor view(const Tensor& flat, const ParameterInfo& info);
  Tensor stacked_view(const Tensor& flat, std::span<const int> parameters) const;
  bool has_panels(const ParameterInfo& info) const;
  /// `weight` with its panels. Stacked weights have them where those of each are whole: then they follow one another.
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
  std::vector<int> in_panels_;  // the parameters that have panels, at the same offsets
  std::int64_t panel_rows_ = 0;
  // Where a copy is kept: values handed out since it was made. Their tensors carry the epoch, which the next copy ends.
  mutable bool handed_out_ = false;
  std::uint64_t epoch_ = 1;
  std::int64_t flat_size_ = 0, buffer_size_ = 0, lanes_ = 0;
  DType dtype_ = DType::f32;
};

}  // namespace normlab
