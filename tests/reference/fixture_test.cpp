#include "tests/reference/fixture.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "experiments/lab/base/strict_json.h"
#include "tests/devices.h"
#include "tests/lab/base/tensor_values.h"

namespace normlab::reference {
namespace {

template <class T>
std::vector<double> widened(const std::vector<T>& values) {
  return std::vector<double>(values.begin(), values.end());
}

nlohmann::json object_in(const SafetensorsFile& file, const std::string& name, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) throw InputError(concat(name, ": the metadata have no \"", key, '"'));
  nlohmann::json value = parse_strict_json(found->second, concat(name, ": ", key));
  if (!value.is_object()) throw InputError(concat(name, ": \"", key, "\" is not an object"));
  return value;
}

}  // namespace

Fixture::Fixture(std::string name, SafetensorsFile file) : name_(std::move(name)), file_(std::move(file)) {
  const auto op = file_.metadata().find("op");
  if (op == file_.metadata().end()) throw InputError(concat(name_, ": the metadata have no \"op\""));
  op_ = op->second;
  config_ = object_in(file_, name_, "config");
  atol_ = take_numbers(object_in(file_, name_, "atol"), nullptr, concat(name_, ": atol"));
  if (atol_.empty()) throw InputError(concat(name_, ": \"atol\" names no tensor, so there is nothing to compare"));
}

Shape Fixture::shape(const std::string& tensor) const {
  const auto& dims = file_.get(tensor).shape;
  return Shape(dims.begin(), dims.end());
}

std::vector<std::string> Fixture::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const TensorView& t : file_.tensors())
    if (t.name.starts_with(prefix)) found.push_back(t.name.substr(prefix.size()));
  return found;
}

std::vector<double> Fixture::numbers(const std::string& tensor) const {
  const std::string& dtype = file_.get(tensor).dtype;
  if (dtype == "I64") return widened(values_of<std::int64_t>(file_.get(tensor)));
  if (dtype == "I32") return widened(values_of<std::int32_t>(file_.get(tensor)));
  if (dtype == "U8") return widened(values_of<std::uint8_t>(file_.get(tensor)));
  return widened(values_of<float>(file_.get(tensor)));
}

template <class T>
Tensor Fixture::copy(Arena& arena, const std::string& tensor) const {
  const std::vector<double> values = numbers(tensor);
  const Tensor t = arena.empty(shape(tensor), Storage<T>::dtype);
  for (std::size_t i = 0; i < values.size(); ++i) t.data<T>()[i] = static_cast<T>(values[i]);
  return t;
}

Tensor Fixture::floats(Arena& arena, const std::string& tensor) const { return copy<float>(arena, tensor); }
Tensor Fixture::labels(Arena& arena, const std::string& tensor) const { return copy<std::int32_t>(arena, tensor); }
Tensor Fixture::mask(Arena& arena, const std::string& tensor) const {
  for (const double value : numbers(tensor))
    if (value != 0.0 && value != 1.0) throw InputError(concat(name_, ": ", tensor, " holds ", value, ", not 0 or 1"));
  return copy<std::uint8_t>(arena, tensor);
}

void Results::add(const std::string& name, const Shape& shape, std::vector<double> numbers) {
  if (!tensors.emplace(name, Values{shape, std::move(numbers)}).second)
    throw InputError(concat(name, " was computed twice"));
}

void Results::add(const std::string& name, const Tensor& value) {
  current_device().backend.synchronize();
  const auto n = static_cast<std::size_t>(value.size());
  if (value.dtype() == DType::f64)
    add(name, value.shape(), std::vector<double>(value.data<double>(), value.data<double>() + n));
  else
    add(name, value.shape(), std::vector<double>(value.data<float>(), value.data<float>() + n));
}

void Results::add_gradient(const std::string& name, const Var& leaf) {
  if (const Tensor gradient = leaf.grad())
    add(name, gradient);
  else
    add(name, leaf.shape(), std::vector<double>(static_cast<std::size_t>(leaf.shape().size()), 0.0));
}

Comparison compare(const Fixture& fixture, const Results& results) {
  Comparison comparison;
  const auto fail = [&](const auto&... parts) {
    comparison.failures.push_back(concat(fixture.name(), " (", results.how, "): ", parts...));
  };
  for (const auto& [name, atol] : fixture.atol()) {
    const auto found = results.tensors.find(name);
    if (!fixture.has(name)) {
      fail(name, " has a tolerance but is not in the file");
    } else if (found == results.tensors.end()) {
      fail(name, " was not computed");
    } else if (!(found->second.shape == fixture.shape(name))) {
      fail(name, " is ", found->second.shape.str(), ", stored ", fixture.shape(name).str());
    } else {
      const std::vector<double>& ours = found->second.numbers;
      const std::vector<double> stored = fixture.numbers(name);
      std::size_t worst = 0, outside = 0;
      double largest = -1.0;
      for (std::size_t i = 0; i < stored.size(); ++i) {
        const double error = std::abs(ours[i] - stored[i]);
        if (!(error <= atol)) ++outside;
        // NaN is the worst of all and stays so.
        if (!(error <= largest) && !std::isnan(largest)) largest = error, worst = i;
      }
      if (outside > 0)
        fail(name, ": ", outside, " of ", stored.size(), " values outside ", atol, ", worst at ", worst, ": ",
             ours[worst], ", stored ", stored[worst], ", off by ", largest);
      else if (atol > 0 && largest / atol > comparison.share)
        comparison.share = largest / atol, comparison.tightest = name;
    }
  }
  return comparison;
}

namespace {

Fixture case_of(const std::string& atol, const std::vector<float>& stored) {
  const TensorView view{"out/y", "F32", {stored.size()}, std::as_bytes(std::span(stored))};
  return Fixture("ops/made_up", SafetensorsFile::parse(
                                    write_safetensors_bytes({{"op", "x"}, {"config", "{}"}, {"atol", atol}}, {view}),
                                    "made_up.safetensors"));
}
std::vector<std::string> failures(const Fixture& fixture, const Shape& shape, std::vector<double> numbers) {
  Results results{"once"};
  results.add("out/y", shape, std::move(numbers));
  return compare(fixture, results).failures;
}

}  // namespace

TEST_CASE("reference: a value outside its tolerance is a failure") {
  const Fixture fixture = case_of(R"({"out/y": 0.5})", {1, 2, 3});
  CHECK(failures(fixture, {3}, {1.5, 2, 2.5}).empty());
  CHECK(failures(fixture, {3}, {1, 2.5625, 3}) ==
        std::vector<std::string>{
            "ops/made_up (once): out/y: 1 of 3 values outside 0.5, worst at 1: 2.5625, stored 2, off by 0.5625"});
}

TEST_CASE("reference: NaN is a failure and the worst value") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(failures(case_of(R"({"out/y": 0.5})", {1, 2, 3}), {3}, {1, nan, 9}) ==
        std::vector<std::string>{
            "ops/made_up (once): out/y: 2 of 3 values outside 0.5, worst at 1: nan, stored 2, off by nan"});
  CHECK(failures(case_of(R"({"out/y": 0.5})", {1, nan, 3}), {3}, {1, nan, 3}) ==
        std::vector<std::string>{
            "ops/made_up (once): out/y: 1 of 3 values outside 0.5, worst at 1: nan, stored nan, off by nan"});
}

TEST_CASE("reference: a tensor of another shape is a failure") {
  CHECK(failures(case_of(R"({"out/y": 0.5})", {1, 2, 3}), {1, 3}, {1, 2, 3}) ==
        std::vector<std::string>{"ops/made_up (once): out/y is [1, 3], stored [3]"});
}

TEST_CASE("reference: a tensor that was not computed or not stored is a failure") {
  CHECK(compare(case_of(R"({"out/y": 0.5})", {1, 2, 3}), Results{"once"}).failures ==
        std::vector<std::string>{"ops/made_up (once): out/y was not computed"});
  CHECK(failures(case_of(R"({"out/y": 0.5, "out/z": 0})", {1}), {1}, {1}) ==
        std::vector<std::string>{"ops/made_up (once): out/z has a tolerance but is not in the file"});
}

TEST_CASE("reference: a file without tolerances is refused") {
  CHECK_THROWS_WITH_AS(case_of("{}", {1}), doctest::Contains("\"atol\" names no tensor"), InputError);
}

}  // namespace normlab::reference
