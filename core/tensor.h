// A contiguous row-major view of memory owned elsewhere: an arena, a parameter buffer, a batch. Trivially copyable, so
// that closures on the tape can hold it.
#pragma once

#include <type_traits>

#include "core/dtype.h"
#include "core/shape.h"

namespace normlab {

class Tensor {
 public:
  Tensor() = default;
  /// `epoch`, if given, is the counter of the arena that owns the memory: resetting the arena makes the view stale.
  Tensor(void* data, Shape shape, DType dtype, const std::uint64_t* epoch = nullptr)
      : data_(data), shape_(shape), epoch_(epoch), made_at_(epoch ? *epoch : 0), dtype_(dtype) {}

  /// False for a default-constructed tensor, which means "absent".
  explicit operator bool() const { return data_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::int64_t size() const { return shape_.size(); }
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * size_of(dtype_); }
  void* raw() const { return data_; }
  bool stale() const { return epoch_ && *epoch_ != made_at_; }

  /// The elements; null if absent. Throws if the type differs or the memory was freed.
  template <class T>
  T* data() const {
    if (!data_) return nullptr;
    if (dtype_ != Storage<std::remove_const_t<T>>::dtype)
      throw InputError(concat("tensor ", shape_.str(), " holds ", to_string(dtype_), ", but is read as ",
                              to_string(Storage<std::remove_const_t<T>>::dtype)));
    if (stale())
      throw InputError(concat("tensor ", shape_.str(), " is stale: its arena was reset after it was created"));
    return static_cast<T*>(data_);
  }
  Tensor reshape(const Shape& shape) const {
    if (shape.size() != size()) throw InputError(concat("reshape: ", shape_.str(), " does not fit ", shape.str()));
    Tensor t = *this;
    t.shape_ = shape;
    t.panels_ = nullptr;
    return t;
  }
  /// Rows first .. first+count of the outermost axis.
  Tensor slice(std::int64_t first, std::int64_t count) const {
    if (shape_.rank() == 0 || first < 0 || count < 0 || first + count > shape_[0])
      throw InputError(concat("slice: ", first, " + ", count, " of ", shape_.str()));
    std::array<std::int64_t, Shape::kMaxRank> dims{};
    for (int i = 0; i < shape_.rank(); ++i) dims[static_cast<std::size_t>(i)] = shape_[i];
    dims[0] = count;
    Tensor t = *this;
    t.shape_ = Shape(dims.begin(), dims.begin() + shape_.rank());
    const auto row = shape_[0] ? bytes() / static_cast<std::size_t>(shape_[0]) : 0;
    t.data_ = static_cast<char*>(data_) + static_cast<std::size_t>(first) * row;
    t.panels_ = nullptr;
    return t;
  }
  /// This weight with the result of Kernels::pack_panels(), which products read instead.
  Tensor with_panels(const void* panels) const {
    Tensor t = *this;
    t.panels_ = panels;
    return t;
  }
  /// Null without panels.
  template <class T>
  const T* panels() const {
    return static_cast<const T*>(panels_);
  }

 private:
  void* data_ = nullptr;
  Shape shape_;
  const std::uint64_t* epoch_ = nullptr;
  std::uint64_t made_at_ = 0;
  const void* panels_ = nullptr;
  DType dtype_ = DType::f32;
};
static_assert(std::is_trivially_copyable_v<Tensor>);

}  // namespace normlab
