#include "experiments/lab/weights/tensor_map.h"

#include <cmath>
#include <limits>

#include "core/dtype.h"
#include "core/error.h"
#include "core/visible_text.h"

namespace normlab {
namespace {

struct Bool {
  std::uint8_t value;
  explicit operator float() const { return value != 0 ? 1.0f : 0.0f; }
  explicit operator double() const { return value != 0 ? 1.0 : 0.0; }
};

struct Half {
  std::uint16_t bits;
  explicit operator double() const {
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31)
      return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
  }
  explicit operator float() const { return static_cast<float>(double(*this)); }
};

template <class From, class To>
std::vector<To> converted(const TensorView& tensor) {
  std::vector<To> values(tensor.data.size() / sizeof(From));
  for (std::size_t i = 0; i < values.size(); ++i) {
    From from;
    std::memcpy(&from, tensor.data.data() + i * sizeof(From), sizeof(From));
    values[i] = static_cast<To>(from);
    if constexpr (std::is_same_v<From, double> && std::is_same_v<To, float>)
      if (std::isinf(values[i]) && !std::isinf(from))
        throw InputError(
            concat("tensor ", in_quotes(tensor.name), ": value ", i, " is ", from, ", which a float cannot hold"));
  }
  return values;
}

template <class To>
std::vector<To> numbers(const TensorView& tensor) {
  const std::string& dtype = tensor.dtype;
  if (dtype == "F32") return converted<float, To>(tensor);
  if (dtype == "F64") return converted<double, To>(tensor);
  if (dtype == "F16") return converted<Half, To>(tensor);
  if (dtype == "BF16") return converted<bf16, To>(tensor);
  if (dtype == "I64") return converted<std::int64_t, To>(tensor);
  if (dtype == "I32") return converted<std::int32_t, To>(tensor);
  if (dtype == "I16") return converted<std::int16_t, To>(tensor);
  if (dtype == "I8") return converted<std::int8_t, To>(tensor);
  if (dtype == "U64") return converted<std::uint64_t, To>(tensor);
  if (dtype == "U32") return converted<std::uint32_t, To>(tensor);
  if (dtype == "U16") return converted<std::uint16_t, To>(tensor);
  if (dtype == "U8") return converted<std::uint8_t, To>(tensor);
  if (dtype == "BOOL") return converted<Bool, To>(tensor);
  throw InputError(
      concat("tensor ", in_quotes(tensor.name), ": values of dtype ", dtype, " cannot be read as numbers here"));
}

}  // namespace

std::uint64_t HostTensor::size() const {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) count *= extent;
  return count;
}

std::vector<float> HostTensor::floats() const { return numbers<float>(*this); }
std::vector<double> HostTensor::doubles() const { return numbers<double>(*this); }

HostTensor host_tensor(std::string name, std::vector<std::uint64_t> shape, std::vector<float> values) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count)) count = std::numeric_limits<std::uint64_t>::max();
  if (count != values.size())
    throw InputError(concat("tensor ", in_quotes(name), ": ", values.size(), " values for a shape of ", count));
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  return {{std::move(name), "F32", std::move(shape), std::as_bytes(std::span(*owner))}, owner};
}

void Tensors::add(HostTensor tensor) {
  if (!index_.try_emplace(tensor.name, tensors_.size()).second)
    throw InputError(concat(source_, ": the tensor ", in_quotes(tensor.name), " occurs twice"));
  tensors_.push_back(std::move(tensor));
}

const HostTensor* Tensors::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const HostTensor& Tensors::get(const std::string& name) const {
  const HostTensor* tensor = find(name);
  if (tensor == nullptr) throw InputError(concat(source_, ": there is no tensor ", in_quotes(name)));
  return *tensor;
}

Tensors tensors_of(const SafetensorsFile& file, std::string source) {
  const auto owner = std::make_shared<const SafetensorsFile>(file);
  Tensors tensors(std::move(source));
  for (const TensorView& tensor : owner->tensors()) tensors.add({tensor, owner});
  return tensors;
}

}  // namespace normlab
