// The sizes of a tensor, outermost first. Stored inline: a shape never allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/error.h"

namespace normlab {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(dims.begin(), dims.end()) {}
  template <class Iterator>
  Shape(Iterator first, Iterator last) {
    for (; first != last; ++first) {
      if (rank_ == kMaxRank) throw InputError(concat("shape: rank is above ", kMaxRank));
      dims_[static_cast<std::size_t>(rank_++)] = static_cast<std::int64_t>(*first);
    }
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  /// Width of the last axis; 1 for a scalar.
  std::int64_t back() const { return rank_ == 0 ? 1 : dims_[static_cast<std::size_t>(rank_ - 1)]; }
  /// Number of elements; 1 for a scalar.
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= (*this)[i];
    return n;
  }
  /// Product of all axes but the last.
  std::int64_t rows() const { return back() == 0 ? 0 : size() / back(); }
  bool operator==(const Shape& other) const {
    return rank_ == other.rank_ && std::equal(dims_.begin(), dims_.begin() + rank_, other.dims_.begin());
  }
  /// "[2, 65, 192]"
  std::string str() const {
    std::string text = "[";
    for (int i = 0; i < rank_; ++i) {
      if (i > 0) text += ", ";
      text += std::to_string((*this)[i]);
    }
    text += "]";
    return text;
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// Throws "op: argument is [64], expected [192]".
inline void require_shape(const char* op, const char* argument, const Shape& actual, const Shape& expected) {
  if (!(actual == expected))
    throw InputError(concat(op, ": ", argument, " is ", actual.str(), ", expected ", expected.str()));
}

}  // namespace normlab
