#include "experiments/lab/weights/tensor_map.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/dtype.h"
#include "core/error.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;

namespace {

template <class T>
HostTensor tensor_of(const std::string& dtype, const std::vector<T>& values) {
  const auto owner = std::make_shared<const std::vector<T>>(values);
  return {{"x", dtype, {values.size()}, std::as_bytes(std::span(*owner))}, owner};
}

Tensors two_tensors() {
  Tensors tensors("x.npz");
  tensors.add(host_tensor("b", {2}, std::vector<float>{1, 2}));
  tensors.add(host_tensor("a", {}, std::vector<bf16>{bf16(3.0f)}));
  return tensors;
}

}  // namespace

TEST_CASE("tensor_map: every dtype of numbers is read as floats and doubles") {
  const std::vector<double> expected{0, 1, 2};
  const auto check = [&](const HostTensor& tensor) {
    CAPTURE(tensor.dtype);
    CHECK(tensor.size() == 3);
    CHECK(tensor.doubles() == expected);
    CHECK(tensor.floats() == std::vector<float>(expected.begin(), expected.end()));
  };
  check(tensor_of<float>("F32", {0, 1, 2}));
  check(tensor_of<double>("F64", {0, 1, 2}));
  check(tensor_of<std::uint16_t>("F16", {0, 0x3c00, 0x4000}));
  check(tensor_of<std::uint16_t>("BF16", {0, 0x3f80, 0x4000}));
  check(tensor_of<std::int64_t>("I64", {0, 1, 2}));
  check(tensor_of<std::int32_t>("I32", {0, 1, 2}));
  check(tensor_of<std::int16_t>("I16", {0, 1, 2}));
  check(tensor_of<std::int8_t>("I8", {0, 1, 2}));
  check(tensor_of<std::uint64_t>("U64", {0, 1, 2}));
  check(tensor_of<std::uint32_t>("U32", {0, 1, 2}));
  check(tensor_of<std::uint16_t>("U16", {0, 1, 2}));
  check(tensor_of<std::uint8_t>("U8", {0, 1, 2}));
}

TEST_CASE("tensor_map: every value of BOOL but 0 is 1") {
  CHECK(tensor_of<std::uint8_t>("BOOL", {0, 1, 2}).floats() == std::vector<float>{0, 1, 1});
}

TEST_CASE("tensor_map: doubles are rounded to the nearest float") {
  CHECK(tensor_of<double>("F64", {0.1}).floats() == std::vector<float>{0.1f});
}

TEST_CASE("tensor_map: complex numbers are refused") {
  CHECK_THROWS_WITH_AS(tensor_of<float>("C64", {0, 1}).floats(),
                       "tensor \"x\": values of dtype C64 cannot be read as numbers here", InputError);
}

TEST_CASE("tensor_map: the edge values of half precision are exact") {
  const std::vector<double> halves =
      tensor_of<std::uint16_t>("F16", {0x8001, 0x03ff, 0x7bff, 0xfc00, 0x8000}).doubles();
  CHECK(halves[0] == -std::ldexp(1.0, -24));
  CHECK(halves[1] == std::ldexp(1023.0, -24));
  CHECK(halves[2] == 65504.0);
  CHECK(halves[3] == -std::numeric_limits<double>::infinity());
  CHECK(std::signbit(halves[4]));
  CHECK(std::isnan(tensor_of<std::uint16_t>("F16", {0x7e00}).floats()[0]));
}

TEST_CASE("tensor_map: tensors keep the order in which they were added") {
  const Tensors tensors = two_tensors();
  CHECK(tensors.begin()->name == "b");
  CHECK(tensors.views()[1].name == "a");
}

TEST_CASE("tensor_map: a missing tensor is named") {
  const Tensors tensors = two_tensors();
  CHECK(tensors.find("c") == nullptr);
  CHECK_THROWS_WITH_AS(tensors.get("c"), "x.npz: there is no tensor \"c\"", InputError);
}

TEST_CASE("tensor_map: a name occurs only once") {
  Tensors tensors = two_tensors();
  CHECK_THROWS_WITH_AS(tensors.add(host_tensor("a", {}, std::vector<float>{1})), "x.npz: the tensor \"a\" occurs twice",
                       InputError);
}

TEST_CASE("tensor_map: the memory of a tensor outlives its map") {
  Tensors tensors = two_tensors();
  const HostTensor kept = tensors.get("b");
  tensors = Tensors();
  CHECK(kept.floats() == std::vector<float>{1, 2});
}

TEST_CASE("tensor_map: a shape must have as many values as are given") {
  CHECK_THROWS_WITH_AS(host_tensor("x", {3, 2}, std::vector<float>{1}), "tensor \"x\": 1 values for a shape of 6",
                       InputError);
}

TEST_CASE("tensor_map: the tensors of a safetensors file are read") {
  const HostTensor kept = two_tensors().get("b");
  const std::string bytes = write_safetensors_bytes({}, {kept, host_tensor("z", {1}, std::vector<std::int64_t>{9})});
  const Tensors read = tensors_of(SafetensorsFile::parse(bytes, "x.safetensors"), "x.safetensors");
  CHECK(read.get("z").doubles() == std::vector<double>{9});
  CHECK(read.get("b").floats() == std::vector<float>{1, 2});
}
