// The common form of weights for all readers and writers: named tensors in host memory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/lab/base/safetensors.h"

namespace normlab {

/// A tensor that keeps its memory alive; copies share it. `dtype` is a safetensors name ("F32", "BF16", "I64").
struct HostTensor : TensorView {
  std::shared_ptr<const void> owner;

  /// Number of elements; 1 for a scalar.
  std::uint64_t size() const;
  /// The elements, row-major, rounded to nearest if the requested type is narrower; BOOL as 0 and 1. InputError for
  /// dtypes that are not plain numbers (C64, F8 and below), and for a finite value beyond the range of float.
  std::vector<float> floats() const;
  std::vector<double> doubles() const;
};

/// A tensor of these values. InputError if the shape has another number of elements.
HostTensor host_tensor(std::string name, std::vector<std::uint64_t> shape, std::vector<float> values);

/// Tensors with unique names, in insertion order.
class Tensors {
 public:
  /// `source` names them in errors, usually the file.
  explicit Tensors(std::string source = "tensors") : source_(std::move(source)) {}

  /// InputError if the name exists.
  void add(HostTensor tensor);
  /// Null if there is no such name.
  const HostTensor* find(const std::string& name) const;
  /// InputError if there is no such name.
  const HostTensor& get(const std::string& name) const;

  const std::string& source() const { return source_; }
  std::size_t size() const { return tensors_.size(); }
  std::vector<HostTensor>::const_iterator begin() const { return tensors_.begin(); }
  std::vector<HostTensor>::const_iterator end() const { return tensors_.end(); }
  /// For writers; valid as long as the tensors live.
  std::vector<TensorView> views() const { return {tensors_.begin(), tensors_.end()}; }

 private:
  std::string source_;
  std::vector<HostTensor> tensors_;
  std::map<std::string, std::size_t> index_;
};

/// The tensors of a checkpoint, which stays in memory while any of them is used.
Tensors tensors_of(const SafetensorsFile& file, std::string source);

}  // namespace normlab
