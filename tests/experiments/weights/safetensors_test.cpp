#include "experiments/weights/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "tests/experiments/results/temporary_folder.h"

using namespace normlab;

namespace {

std::string file_of(std::uint64_t header_bytes, const std::string& header, std::size_t data_bytes = 0) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &header_bytes, 8);
  return bytes + header + std::string(data_bytes, '\0');
}
std::string file_of(const std::string& header, std::size_t data_bytes = 0) {
  return file_of(header.size(), header, data_bytes);
}

/// What the reader says about these bytes; "" where it takes them.
std::string refusal(const std::string& bytes) {
  try {
    SafetensorsFile::parse(bytes, "x.safetensors");
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

template <class T>
TensorView view(const std::string& name, const std::string& dtype, std::vector<std::uint64_t> shape,
                const std::vector<T>& values) {
  return {name, dtype, std::move(shape), std::as_bytes(std::span(values))};
}

const std::string kGoldenHeader =
    R"({"__metadata__":{"format":"np","k":"v"},"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"c":{"dtype":"F16","shape":[],"data_offsets":[16,18]}})";

}  // namespace

TEST_CASE("safetensors: the golden file is written and read") {
  const std::vector<std::int64_t> a{0};
  const std::vector<float> b{0, 0};
  const std::vector<std::uint16_t> c{0};
  const std::string golden = file_of(0xd0, kGoldenHeader + std::string(7, ' '), 18);
  CHECK(write_safetensors_bytes({{"k", "v"}, {"format", "np"}}, {view("c", "F16", {}, c), view("b", "F32", {2}, b),
                                                                 view("a", "I64", {1}, a)}) == golden);

  const SafetensorsFile file = SafetensorsFile::parse(golden, "golden");
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "np"}, {"k", "v"}});
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.tensors()[2].name == "c");
  CHECK(file.get("c").shape.empty());
  CHECK(file.values<std::int64_t>("a") == a);
  CHECK(file.values<float>("b") == b);
  CHECK(file.values<std::uint16_t>("c") == c);
  CHECK(file.find("d") == nullptr);
  CHECK_THROWS_WITH_AS(file.get("d"), "golden: there is no tensor \"d\"", InputError);
  CHECK_THROWS_WITH_AS(file.values<double>("b"), "golden: \"b\": its dtype F32 is not the one expected here",
                       InputError);
}

TEST_CASE("safetensors: a saved file comes back, values at odd offsets included") {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  const std::vector<float> floats{1.5f, -std::numeric_limits<float>::infinity(), 3e-42f};
  const std::vector<double> nothing;
  const auto path = folder / "checkpoint.safetensors";
  save_safetensors(path, {{"note", "ü \"quoted\""}},
                   {view("bytes", "U8", {3, 1}, bytes), view("floats", "F32", {3}, floats),
                    view("nothing", "F64", {0, 7}, nothing)});
  SafetensorsFile copy = SafetensorsFile::read(path);
  const SafetensorsFile file = copy;  // copies share the bytes
  copy = SafetensorsFile::parse(file_of("{}"), "empty");
  CHECK(file.metadata().at("note") == "ü \"quoted\"");
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.values<std::uint8_t>("bytes") == bytes);
  CHECK(file.values<float>("floats") == floats);
  CHECK(file.values<double>("nothing").empty());
  CHECK(file.get("nothing").shape == std::vector<std::uint64_t>{0, 7});
  CHECK(copy.tensors().empty());

  // A tensor may start at any byte.
  const auto odd = SafetensorsFile::parse(
      file_of(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})",
          9),
      "odd");
  CHECK(odd.values<double>("b") == std::vector<double>{0});
}

TEST_CASE("safetensors: files that break no rule") {
  CHECK(refusal(file_of("{}")) == "");
  CHECK(refusal(file_of("{}\n\t  ")) == "");
  CHECK(refusal(file_of(R"({"t":{"dtype":"I32","shape":[2,0],"data_offsets":[0,0]}})")) == "");
  CHECK(refusal(file_of(R"({"t":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", 1)) == "");
  // A tensor without elements sorts before the one that begins where it stands.
  CHECK(
      refusal(file_of(
          R"({"z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
          2)) == "");
}

TEST_CASE("safetensors: damaged and hostile files are refused with the place") {
  const auto tensor = [](const std::string& rest) { return R"({"t":{"dtype":"I32",)" + rest + "}}"; };
  const auto says = [](const std::string& bytes, const std::string& expected) {
    const std::string message = refusal(bytes);
    CHECK_MESSAGE(message.find(expected) != message.npos, "expected \"", expected, "\", got \"", message, '"');
  };
  says("", "x.safetensors: byte 0: the file ends before");
  says(file_of(0xffffff000000003cULL, ""), "byte 0: a header of 18446742974197923900 bytes is over the limit");
  says(file_of(0xfffffffffffffff8ULL, "{}"), "over the limit");
  says(file_of(0x3c, ""), "byte 0: the header is said to have 60 bytes but 0 follow");
  says(file_of("\xff"), "byte 8: the header does not begin with {");
  says(file_of(" {}"), "byte 8: the header does not begin with {");
  says(file_of("\xef\xbb\xbf{}"), "byte 8: the header does not begin with {");
  says(file_of("{"), "byte 9: the header is not valid JSON");
  says(file_of("{}x"), "byte 10: the header is not valid JSON");
  says(file_of(std::string("{}\0{}", 5)), "byte 10: a NUL in the header");
  says(file_of("{\"a\xff\":1}"), "not valid JSON");
  const std::string good = file_of(tensor(R"("shape":[2,2],"data_offsets":[0,16])"), 16);
  CHECK(refusal(good) == "");
  says(good.substr(0, good.size() - 2), "the tensors need 16 bytes but 14 are there");
  says(good + "PK", "2 bytes after the last tensor");
  says(file_of(tensor(R"("shape":[2,2],"data_offsets":[0,4])"), 4),
       "\"t\": data_offsets span 4 bytes, its shape needs 16");
  says(file_of(tensor(R"("shape":[2,2],"data_offsets":[8,4])"), 8), "end at 4 before they begin at 8");
  says(file_of(tensor(R"("shape":[2,18446744073709551614],"data_offsets":[0,8])"), 8), "more elements than 64 bits");
  says(file_of(tensor(R"("shape":[2,9223372036854775807],"data_offsets":[0,8])"), 8), "more elements than 64 bits");
  says(file_of(tensor(R"("shape":[4294967296,4294967296],"data_offsets":[0,0])")), "more elements than 64 bits");
  says(file_of(tensor(R"("shape":[0,18446744073709551616],"data_offsets":[0,0])")),
       "found the number 18446744073709551616");
  says(file_of(tensor(R"("shape":[1.0],"data_offsets":[0,4])"), 4),
       "\"t\": \"shape\": expected a list of non-negative integers, found the number 1.0");
  says(file_of(tensor(R"("shape":[-1],"data_offsets":[0,4])"), 4), "found a negative number");
  says(file_of(tensor(R"("shape":[-0],"data_offsets":[0,0])")), "found a negative number");
  says(file_of(tensor(R"("shape":[1e3],"data_offsets":[0,4])"), 4), "found the number 1e3");
  says(file_of(tensor(R"("shape":[[1]],"data_offsets":[0,4])"), 4), "found an array");
  says(file_of(tensor(R"("shape":4,"data_offsets":[0,4])"), 4), "found a number");
  says(file_of(tensor(R"("shape":[1],"data_offsets":[0,4,4])"), 4), "must have two numbers");
  says(file_of(tensor(R"("shape":[1])"), 4), "no \"data_offsets\"");
  says(file_of(tensor(R"("shape":[1],"data_offsets":[4,8])"), 8),
       "begins at 4 of the data but the tensor before it ends at 0");
  says(file_of(tensor(R"("shape":[1],"data_offsets":[0,4],"more":"x")"), 4), "unknown field \"more\"");
  says(file_of(tensor(R"("shape":[1],"shape":[1],"data_offsets":[0,4])"), 4), "\"t\": \"shape\" comes twice");
  says(file_of(R"({"t":{"dtype":"X8","shape":[1],"data_offsets":[0,1]}})", 1), "unknown dtype \"X8\"");
  says(file_of(R"({"t":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1), "12 bits are not whole bytes");
  says(file_of(R"({"t":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1),
       "\"dtype\": expected a string, found a number");
  says(file_of(R"({"t":[]})"), "\"t\": expected an object, found an array");
  says(file_of(R"({"__metadata__":{"k":1}})"), "\"__metadata__\": \"k\": expected a string, found a number");
  says(file_of(R"({"__metadata__":{"k":"1","k":"2"}})"), "\"k\" comes twice");
  says(file_of(R"({"__metadata__":{},"__metadata__":{}})"), "this name comes twice");
  says(file_of(R"({"a\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), "a NUL in a key");
  says(
      file_of(
          R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2),
      "\"t\": this name comes twice");
  says(file_of(std::string(100'000, '{')), "not valid JSON");
  says(file_of("{\"t\":" + std::string(100'000, '[')), "expected an object");

  std::string overlapping = "{";  // a reader that reserved the sum of the sizes would take gigabytes
  for (int i = 0; i < 100'000; ++i)
    overlapping +=
        (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1000],"data_offsets":[0,1000]})";
  says(file_of(overlapping + "}", 1000), "begins at 0 of the data but the tensor before it ends at 1000");
}

TEST_CASE("safetensors: every cut of a good file is refused") {
  const std::string good = file_of(0xd0, kGoldenHeader + std::string(7, ' '), 18);
  for (std::size_t size = 0; size < good.size(); ++size) CHECK(refusal(good.substr(0, size)) != "");
}

TEST_CASE("safetensors: the writer refuses what the format cannot hold") {
  const std::vector<float> two{1, 2};
  CHECK_THROWS_WITH_AS(write_safetensors_bytes({}, {view("a", "F32", {3}, two)}),
                       "tensor \"a\" cannot be written: has 8 bytes, its shape needs 12", InputError);
  CHECK_THROWS_AS(write_safetensors_bytes({}, {view("a", "F32", {2}, two), view("a", "F32", {2}, two)}), InputError);
  CHECK_THROWS_AS(write_safetensors_bytes({}, {view("__metadata__", "F32", {2}, two)}), InputError);
  CHECK_THROWS_AS(write_safetensors_bytes({}, {view("a", "FLOAT", {2}, two)}), InputError);
  CHECK_THROWS_AS(write_safetensors_bytes({{"k", "\xff"}}, {}), InputError);
}
