// What readers of weights give and writers take: named tensors in host memory, whatever file they come from.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/base/safetensors.h"

namespace normlab {

/// A tensor that keeps its memory alive; copies share it. `dtype` is safetensors' word ("F32", "BF16", "I64").
struct HostTensor : TensorView {
  std::shared_ptr<const void> owner;

  /// Number of elements; 1 for a scalar.
  std::uint64_t size() const;
  /// The elements, row-major, rounded to nearest where the type asked for is narrower; BOOL as 0 and 1. InputError for
  /// dtypes that hold no plain numbers (C64, F8 and below), and for a finite value that float cannot hold.
  std::vector<float> floats() const;
  std::vector<double> doubles() const;
};

/// A tensor of these values. T: float, double, bf16, std::int32_t, std::int64_t or std::uint8_t. InputError where the
/// shape has another number of elements.
template <class T>
HostTensor host_tensor(std::string name, std::vector<std::uint64_t> shape, std::vector<T> values);

/// Tensors in the order in which they were added, each name once.
class Tensors {
 public:
  /// `source` names them in errors: the file.
  explicit Tensors(std::string source = "tensors") : source_(std::move(source)) {}

  /// InputError where the name is there already.
  void add(HostTensor tensor);
  /// Null where there is none of that name.
  const HostTensor* find(const std::string& name) const;
  /// InputError where there is none of that name.
  const HostTensor& get(const std::string& name) const;

  const std::string& source() const { return source_; }
  std::size_t size() const { return tensors_.size(); }
  std::vector<HostTensor>::const_iterator begin() const { return tensors_.begin(); }
  std::vector<HostTensor>::const_iterator end() const { return tensors_.end(); }
  /// For a writer; good as long as the tensors live.
  std::vector<TensorView> views() const { return {tensors_.begin(), tensors_.end()}; }

 private:
  std::string source_;
  std::vector<HostTensor> tensors_;
  std::map<std::string, std::size_t> index_;
};

/// The tensors of a checkpoint, which stays in memory as long as one of them does.
Tensors tensors_of(const SafetensorsFile& file, std::string source);

}  // namespace normlab
