#include "nn/model/parameters.h"

#include <algorithm>
#include <cstring>

#include "autograd/tape.h"
#include "core/backend.h"
#include "core/for_type.h"
#include "core/shards.h"

namespace normlab {
namespace {
// Every tensor starts on a cache line, whatever its type, so that no vector load crosses one.
constexpr std::int64_t kAlignElements = 16;
constexpr std::uint8_t kOld = 0;  // besides kWritten: a gradient at the start of a step
std::int64_t padded(std::int64_t n) { return (n + kAlignElements - 1) / kAlignElements * kAlignElements; }

/// The same stem, block, merging or end of the network, whatever the branch.
bool same_part(const Place& a, const Place& b) {
  return a.layer == b.layer && a.block == b.block && a.stage == b.stage;
}

int find_in(const std::vector<ParameterInfo>& list, std::string_view name) {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].name == name) return static_cast<int>(i);
  return -1;
}
}  // namespace

int ParameterSet::add(std::string name, const Shape& shape, const ParameterUse& use) {
  if (use.stacked) flat_size_ = parameters_.back().offset + parameters_.back().shape.size();
  parameters_.push_back({use, std::move(name), shape, flat_size_});
  trained_size_ = flat_size_ = padded(flat_size_ + shape.size());
  return static_cast<int>(parameters_.size()) - 1;
}

void ParameterSet::freeze(const std::vector<bool>& marks) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) parameters_[p].frozen = marks[p];
  for (const ParameterInfo& p : parameters_) {
    const auto of_part = [&](const ParameterInfo& other) { return !same_part(other.place, p.place) || other.frozen; };
    if (!is_frozen_part(p.place) && std::all_of(parameters_.begin(), parameters_.end(), of_part))
      frozen_parts_.push_back(p.place);
  }
  std::int64_t end = 0;
  for (const bool frozen : {false, true}) {
    std::int64_t last = 0;  // without padding
    for (ParameterInfo& p : parameters_) {
      if (p.frozen != frozen) continue;
      p.offset = p.stacked ? last : end;
      last = p.offset + p.shape.size();
      end = padded(last);
    }
    (frozen ? flat_size_ : trained_size_) = end;
  }
}

int ParameterSet::add_buffer(std::string name, const Place& place, std::int64_t width, double initial) {
  buffers_.push_back({{.role = Role::norm, .place = place}, std::move(name), {width}, buffer_size_});
  buffer_initial_.push_back(initial);
  buffer_size_ += padded(width);
  return static_cast<int>(buffers_.size()) - 1;
}

int ParameterSet::add_constant(const Shape& shape, std::function<std::vector<double>()> values) {
  constants_.push_back({shape, std::move(values), {}});
  return static_cast<int>(constants_.size()) - 1;
}

Tensor ParameterSet::make_zeroed(const Shape& shape, DType dtype) {
  const Tensor t = memory_.empty(shape, dtype);
  device_memory_.clear(t.raw(), t.bytes());
  return t;
}

Tensor ParameterSet::make_trained(DType dtype, std::int64_t first, std::int64_t count) {
  const Tensor t = memory_.empty({trained_size_}, dtype), used = t.slice(first, count);
  device_memory_.clear(used.raw(), used.bytes());
  return t;
}

Tensor ParameterSet::make_flat_buffers() { return make_zeroed({buffer_size_}, dtype_); }

void ParameterSet::exchange(Tensor& values, Tensor& buffers) {
  std::swap(values_, values);
  std::swap(buffer_values_, buffers);
  handed_out_ = bool(copy_);  // the copy belongs to the other values
}

void ParameterSet::allocate(DType dtype, std::int64_t lanes, bool bf16_copy, std::int64_t panel_rows) {
  if (bf16_copy && dtype != DType::f32) throw InputError("parameters: a bf16 copy needs f32 values");
  dtype_ = dtype;
  lanes_ = lanes;
  values_ = make_flat();
  if (bf16_copy) copy_ = make_zeroed({flat_size_}, DType::bf16);
  if (panel_rows > 0) {
    panel_rows_ = panel_rows;
    panels_ = make_flat();
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      if (has_panels(parameters_[p])) in_panels_.push_back(static_cast<int>(p));
  }
  if (lanes > 0) {
    gradients_ = make_zeroed({lanes, trained_size_}, dtype);
    written_ = std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(lanes) * parameters_.size());
  }
  // The host fills fresh memory, so that it need not wait for a device to clear it.
  const auto fill = [&](const Tensor& t, auto&& number) {
    for_param_type("parameters", dtype, [&]<class P>(Type<P>) {
      for (std::int64_t i = 0; i < t.size(); ++i) t.data<P>()[i] = static_cast<P>(number(i));
    });
  };
  buffer_values_ = memory_.empty({buffer_size_}, dtype);
  std::memset(buffer_values_.raw(), 0, buffer_values_.bytes());
  for (std::size_t b = 0; b < buffers_.size(); ++b)
    fill(buffer(static_cast<int>(b)), [&](std::int64_t) { return buffer_initial_[b]; });
  for (Constant& c : constants_) {
    c.value = memory_.empty(c.shape, dtype);
    const std::vector<double> numbers = c.numbers();
    fill(c.value, [&](std::int64_t i) { return numbers[static_cast<std::size_t>(i)]; });
  }
}

void ParameterSet::begin_lane(std::int64_t lane) {  // its buffer may hold a sum of lanes
  std::ranges::fill(written(lane, 0, static_cast<int>(parameters_.size())), kOld);
}

void ParameterSet::end_lane(std::int64_t lane) {
  for (int p = 0; p < static_cast<int>(parameters_.size()); ++p) {
    if (written(lane, p, 1)[0] == kWritten || is_frozen(p)) continue;
    const Tensor g = gradient(lane, p);
    device_memory_.clear(g.raw(), g.bytes());
  }
}

int ParameterSet::find(std::string_view name) const { return find_in(parameters_, name); }
int ParameterSet::find_buffer(std::string_view name) const { return find_in(buffers_, name); }

bool ParameterSet::is_frozen_part(const Place& place) const {
  return std::any_of(frozen_parts_.begin(), frozen_parts_.end(),
                     [&](const Place& part) { return same_part(part, place); });
}

std::int64_t ParameterSet::count() const {
  std::int64_t n = 0;
  for (const ParameterInfo& p : parameters_) n += p.shape.size();
  return n;
}

std::int64_t ParameterSet::trained_count() const {
  std::int64_t n = 0;
  for (const ParameterInfo& p : parameters_) n += p.frozen ? 0 : p.shape.size();
  return n;
}

Tensor ParameterSet::flat_values() const {
  if (!copy_) return values_;
  handed_out_ = true;
  return Tensor(values_.raw(), values_.shape(), dtype_, &epoch_);
}

Tensor ParameterSet::weight(int first, int count) const {
  const ParameterInfo& info = parameters_[static_cast<std::size_t>(first)];
  if (!copy_) return with_panels(read(first, count), info);
  if (handed_out_)
    throw InputError(concat("parameter ", info.name, ": its bf16 copy may be outdated; call refresh_copy() first"));
  return view(copy_, first, count);
}

bool ParameterSet::has_panels(const ParameterInfo& info) const {
  return panel_rows_ > 0 && is_linear(info.role) && info.decays && info.shape[0] >= panel_rows_;
}

Tensor ParameterSet::with_panels(const Tensor& weight, const ParameterInfo& first) const {
  const bool alone = weight.size() == first.shape.size();
  if (!has_panels(first) || (!alone && first.shape[0] % panel_rows_ != 0)) return weight;
  return weight.with_panels(panels_.slice(first.offset, weight.size()).raw());
}

void ParameterSet::refresh_copy(Backend& backend, ShardPool& pool) {
  pool.for_blocks(static_cast<std::int64_t>(in_panels_.size()), [&](std::int64_t i) {
    const int p = in_panels_[static_cast<std::size_t>(i)];
    backend.pack_panels(read(p), view(panels_, parameters_[static_cast<std::size_t>(p)]));
  });
  if (!handed_out_) return;
  backend.round_to_bf16(values_, copy_);
  handed_out_ = false;
  ++epoch_;
}

Tensor ParameterSet::view(const Tensor& flat, const ParameterInfo& info) {
  return flat.slice(info.offset, info.shape.size()).reshape(info.shape);
}

Tensor ParameterSet::view(const Tensor& flat, int first, int count) const {
  const ParameterInfo& info = parameters_[static_cast<std::size_t>(first)];
  if (count == 1) return view(flat, info);
  const std::int64_t rows = count * info.shape[0];
  return flat.slice(info.offset, count * info.shape.size())
      .reshape(info.shape.rank() == 1 ? Shape{rows} : Shape{rows, info.shape[1]});
}

Tensor ParameterSet::flat_lane(std::int64_t lane) const { return gradients_.slice(lane, 1).reshape({trained_size_}); }

}  // namespace normlab
