#include "experiments/lab/weights/tensor_map.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "tests/lab/base/save_safetensors.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/base/tensor_values.h"

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

/// The error of reading these bytes; "" without an error.
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

std::string golden() { return file_of(0xd0, kGoldenHeader + std::string(7, ' '), 18); }

}  // namespace

TEST_CASE("safetensors: written bytes are those of the golden file") {
  const std::vector<std::int64_t> a{0};
  const std::vector<float> b{0, 0};
  const std::vector<std::uint16_t> c{0};
  CHECK(write_safetensors_bytes({{"k", "v"}, {"format", "np"}}, {view("c", "F16", {}, c), view("b", "F32", {2}, b),
                                                                 view("a", "I64", {1}, a)}) == golden());
}

TEST_CASE("safetensors: the golden file is read") {
  const SafetensorsFile file = SafetensorsFile::parse(golden(), "golden");
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "np"}, {"k", "v"}});
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.tensors()[2].name == "c");
  CHECK(file.get("c").shape.empty());
  CHECK(values_of<std::int64_t>(file.get("a")) == std::vector<std::int64_t>{0});
  CHECK(values_of<float>(file.get("b")) == std::vector<float>{0, 0});
  CHECK(values_of<std::uint16_t>(file.get("c")) == std::vector<std::uint16_t>{0});
}

TEST_CASE("safetensors: a missing tensor is named") {
  const SafetensorsFile file = SafetensorsFile::parse(golden(), "golden");
  CHECK(file.find("d") == nullptr);
  CHECK_THROWS_WITH_AS(file.get("d"), "golden: there is no tensor \"d\"", InputError);
}

TEST_CASE("safetensors: a saved file comes back") {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  const std::vector<float> floats{1.5f, -std::numeric_limits<float>::infinity(), 3e-42f};
  const std::vector<double> nothing;
  const auto path = folder / "checkpoint.safetensors";
  save_safetensors(path, {{"note", "ü \"quoted\""}},
                   {view("bytes", "U8", {3, 1}, bytes), view("floats", "F32", {3}, floats),
                    view("nothing", "F64", {0, 7}, nothing)});
  const SafetensorsFile file = SafetensorsFile::read(path);
  CHECK(file.metadata().at("note") == "ü \"quoted\"");
  CHECK(file.metadata().at("format") == "pt");
  CHECK(values_of<std::uint8_t>(file.get("bytes")) == bytes);
  CHECK(values_of<float>(file.get("floats")) == floats);
  CHECK(values_of<double>(file.get("nothing")).empty());
  CHECK(file.get("nothing").shape == std::vector<std::uint64_t>{0, 7});
}

TEST_CASE("safetensors: a copy of a file keeps its bytes") {
  const TemporaryFolder folder;
  const std::vector<float> floats{1.5f, 2.5f};
  save_safetensors(folder / "x.safetensors", {}, {view("floats", "F32", {2}, floats)});
  SafetensorsFile copy = SafetensorsFile::read(folder / "x.safetensors");
  const SafetensorsFile file = copy;
  copy = SafetensorsFile::parse(file_of("{}"), "empty");
  CHECK(copy.tensors().empty());
  CHECK(values_of<float>(file.get("floats")) == floats);
}

TEST_CASE("safetensors: a tensor may start at any byte") {
  const auto odd = SafetensorsFile::parse(
      file_of(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})",
          9),
      "odd");
  CHECK(values_of<double>(odd.get("b")) == std::vector<double>{0});
}

TEST_CASE("safetensors: unusual files that break no rule are read") {
  // These have no elements for the reference implementation.
  CHECK(refusal(file_of(R"({"t":{"dtype":"U64","shape":[4611686018427387904,0],"data_offsets":[0,0]}})")) == "");
  CHECK(refusal(file_of(R"({"t":{"dtype":"U8","shape":[0,18446744073709551615,2],"data_offsets":[0,0]}})")) == "");
  CHECK(refusal(file_of(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{"":"a\u0000b"}})", 1)) ==
        "");
  CHECK(refusal(file_of(R"({ "t" : { "data_offsets":[ 0 , 4 ], "shape":[], "dtype":"I32" } })", 4)) == "");
  CHECK(refusal(file_of("{}")) == "");
  CHECK(refusal(file_of("{}\n\t  ")) == "");
  CHECK(refusal(file_of(R"({"t":{"dtype":"I32","shape":[2,0],"data_offsets":[0,0]}})")) == "");
  CHECK(refusal(file_of(R"({"t":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", 1)) == "");
  // A tensor without elements sorts before the one that begins at the same byte.
  CHECK(
      refusal(file_of(
          R"({"z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
          2)) == "");
}

TEST_CASE("safetensors: damaged and hostile files are refused with their place") {
  const auto tensor = [](const std::string& rest) { return R"({"t":{"dtype":"I32",)" + rest + "}}"; };
  const auto says = [](const std::string& bytes, const std::string& expected) {
    const std::string message = refusal(bytes);
    CHECK_MESSAGE(message.find(expected) != message.npos, "expected \"", expected, "\", got \"", message, '"');
  };
  says("", "x.safetensors: byte 0: the file ends before");
  says(std::string(7, '\0'), "x.safetensors: byte 7: the file ends before");
  says(file_of(0, ""), "byte 8: the header does not begin with {");
  says(file_of(100'000'001, "{}"), "a header of 100000001 bytes is over the limit of 100000000");
  says(file_of(100'000'000, "{}"), "should have 100000000 bytes but 2 follow");
  says(file_of(3, "{}"), "should have 3 bytes but 2 follow");
  says(file_of(0xffffff000000003cULL, ""), "byte 0: a header of 18446742974197923900 bytes is over the limit");
  says(file_of(0xfffffffffffffff8ULL, "{}"), "over the limit");
  says(file_of(0x3c, ""), "byte 0: the header should have 60 bytes but 0 follow");
  says(file_of("\xff"), "byte 8: the header does not begin with {");
  says(file_of(" {}"), "byte 8: the header does not begin with {");
  says(file_of("\xef\xbb\xbf{}"), "byte 8: the header does not begin with {");
  says(file_of("{"), "byte 9: the header is not valid JSON");
  says(file_of("{}x"), "byte 10: the header is not valid JSON");
  says(file_of(std::string("{}\0{}", 5)), "byte 10: a NUL in the header");
  says(file_of("{\"a\xff\":1}"), "byte 11: the header is not valid JSON");
  says(file_of("{\"a\xc0\xaf\":1}"), "not valid JSON");      // an overlong encoding of /
  says(file_of("{\"a\xed\xa0\x80\":1}"), "not valid JSON");  // half of a surrogate pair
  says(file_of(R"({"a\ud800":1})"), "not valid JSON");
  says(file_of("{/**/}"), "byte 9: the header is not valid JSON");
  says(file_of("{}{}"), "byte 10: the header is not valid JSON");
  says(file_of("{}\v"), "byte 10: the header is not valid JSON");
  says(file_of(R"({"t":{},})"), "\"t\": no \"dtype\"");
  says(file_of(R"({"__metadata__":{},})"), "byte 27: the header is not valid JSON");
  const std::string good = file_of(tensor(R"("shape":[2,2],"data_offsets":[0,16])"), 16);
  CHECK(refusal(good) == "");
  says(good.substr(0, good.size() - 2), "the tensors need 16 bytes but 14 are there");
  says(good + "PK", "2 bytes after the last tensor");
  says(file_of(tensor(R"("shape":[2,2],"data_offsets":[0,4])"), 4),
       "\"t\": data_offsets span 4 bytes, its shape needs 16");
  // The place is that of the tensor's name, here after the brace at byte 8.
  says(file_of(tensor(R"("shape":[2,2],"data_offsets":[0,4])"), 4), "x.safetensors: byte 9: \"t\": data_offsets span");
  // Readers have taken the size from the shape and the length to copy from the offsets.
  says(file_of(tensor(R"("shape":[1],"data_offsets":[0,4096])"), 4096), "span 4096 bytes, its shape needs 4");
  says(file_of(tensor(R"("shape":[2],"data_offsets":[0,8])"), 4), "the tensors need 8 bytes but 4 are there");
  says(file_of(tensor(R"("shape":[1],"data_offsets":[18446744073709551612,18446744073709551615])"), 4), "span 3 bytes");
  says(file_of(tensor(R"("shape":[1],"data_offsets":[18446744073709551608,18446744073709551612])"), 4),
       "begins at 18446744073709551608 of the data");
  says(file_of(tensor(R"("shape":[4611686018427387904],"data_offsets":[0,0])")), "more elements than 64 bits");
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
  says(file_of(tensor(R"("shape":[1],"shape":[1],"data_offsets":[0,4])"), 4), "byte 40: \"t\": \"shape\" occurs twice");
  says(file_of(tensor(R"("shape":[1],"sh\u0061pe":[1],"data_offsets":[0,4])"), 4), "\"t\": \"shape\" occurs twice");
  says(file_of(tensor(R"("shape":[1],"data_offsets":[-1,3])"), 4), "\"data_offsets\": expected a list of non-negative");
  says(file_of(tensor(R"("shape":[1],"data_offsets":[0,4.0])"), 4), "byte 58: \"t\": \"data_offsets\": expected");
  says(file_of(tensor(R"("shape":[1],"data_offsets":[0])"), 4), "must have two numbers");
  says(file_of(tensor(R"("shape":null,"data_offsets":[0,4])"), 4), "found null");
  says(file_of(tensor(R"("shape":["1"],"data_offsets":[0,4])"), 4), "found a string");
  says(file_of(tensor(R"("shape":[true],"data_offsets":[0,4])"), 4), "found a boolean");
  says(file_of(tensor(R"("shape":{},"data_offsets":[0,4])"), 4), "found an object");
  says(file_of(R"({"t":{"shape":[1],"data_offsets":[0,4]}})", 4), "no \"dtype\"");
  says(file_of(R"({"t":{"dtype":"I32","data_offsets":[0,4]}})", 4), "no \"shape\"");
  says(file_of(R"({"\u001b[2J":{"dtype":"U\u00008","shape":[1],"data_offsets":[0,1]}})", 1),
       R"(byte 9: "\x1b[2J": unknown dtype "U\x008")");
  says(file_of(R"({"t":{"dtype":"i32","shape":[1],"data_offsets":[0,4]}})", 4), "unknown dtype \"i32\"");
  says(file_of(R"({"__metadata__":[]})"), "\"__metadata__\": expected an object, found an array");
  says(file_of(R"({"__metadata__":{"k":{}}})"), "expected a string, found an object");
  says(file_of(R"({"__metadata__":{"a\u0000":"b"}})"), "a NUL in a key");
  says(file_of(R"({"t":{"dtype":"X8","shape":[1],"data_offsets":[0,1]}})", 1), "unknown dtype \"X8\"");
  says(file_of(R"({"t":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1), "12 bits are not whole bytes");
  says(file_of(R"({"t":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1),
       "\"dtype\": expected a string, found a number");
  says(file_of(R"({"t":[]})"), "\"t\": expected an object, found an array");
  says(file_of(R"({"__metadata__":{"k":1}})"), "\"__metadata__\": \"k\": expected a string, found a number");
  says(file_of(R"({"__metadata__":{"k":"1","k":"2"}})"), "\"k\" occurs twice");
  says(file_of(R"({"__metadata__":{},"__metadata__":{}})"), "this name occurs twice");
  says(file_of(R"({"a\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), "a NUL in a key");
  says(
      file_of(
          R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2),
      "\"t\": this name occurs twice");
  says(
      file_of(
          R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}, "\u0074":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2),
      "byte 62: \"t\": this name occurs twice");
  says(
      file_of(
          R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"u":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          3),
      "byte 61: \"u\": begins at 1 of the data but the tensor before it ends at 2");
  says(file_of(std::string(100'000, '{')), "not valid JSON");
  says(file_of("{\"t\":" + std::string(100'000, '[')), "expected an object");

  std::string overlapping = "{";  // a reader that reserved the sum of the sizes would take gigabytes
  for (int i = 0; i < 100'000; ++i)
    overlapping +=
        (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1000],"data_offsets":[0,1000]})";
  says(file_of(overlapping + "}", 1000), "begins at 0 of the data but the tensor before it ends at 1000");
}

TEST_CASE("safetensors: every dtype has its size") {
  struct Size {
    const char* dtype;
    int bits;
  };
  const Size sizes[] = {{"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
                        {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F16", 16},    {"BF16", 16},
                        {"I16", 16},    {"U16", 16},        {"F32", 32},        {"I32", 32},    {"U32", 32},
                        {"F64", 64},    {"I64", 64},        {"U64", 64},        {"C64", 64},    {"F4", 4},
                        {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (const Size& size : sizes) {
    CAPTURE(size.dtype);
    const std::size_t bytes = std::size_t(size.bits);  // of eight elements
    const auto header = [&](std::size_t end) {
      return R"({"t":{"dtype":")" + std::string(size.dtype) + R"(","shape":[2,4],"data_offsets":[0,)" +
             std::to_string(end) + "]}}";
    };
    CHECK(refusal(file_of(header(bytes), bytes)) == "");
    CHECK(refusal(file_of(header(bytes + 1), bytes + 1)) != "");
    CHECK(refusal(file_of(header(bytes - 1), bytes - 1)) != "");
  }
}

TEST_CASE("safetensors: tensors are written in the order of the reference implementation") {
  // Dtypes descend as the format ranks them, then names ascend by byte, for any order of the input.
  const char* dtypes[] = {"BOOL",        "U8",  "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ",
                          "F8_E5M2FNUZ", "I16", "U16", "F16",     "BF16",    "I32",     "U32",
                          "F32",         "C64", "F64", "I64",     "U64"};
  const std::vector<std::byte> zeros(8);
  std::vector<TensorView> tensors;
  std::vector<std::string> expected;
  for (const char* dtype : dtypes)
    for (const char* name : {"b", "a", "Z", "\xc3\xbc"}) tensors.push_back({name + std::string(dtype), dtype, {0}, {}});
  for (auto dtype = std::rbegin(dtypes); dtype != std::rend(dtypes); ++dtype)
    for (const char* name : {"Z", "a", "b", "\xc3\xbc"}) expected.push_back(name + std::string(*dtype));
  const std::string bytes = write_safetensors_bytes({}, tensors);
  std::size_t last = 0;
  for (const std::string& name : expected) {
    const std::size_t at = bytes.find('"' + name + "\":{");
    REQUIRE(at != bytes.npos);
    CHECK(at > last);
    last = at;
  }
  CHECK(bytes.size() % 8 == 0);
  CHECK(SafetensorsFile::parse(bytes, "x").tensors().size() == tensors.size());
}

TEST_CASE("safetensors: numbers of any width are read as floats") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::uint16_t> half{0x3c00, 0xc000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x8000};
  const std::vector<std::uint16_t> brain{0x3f80, 0xc000, 0x0001, 0x7f7f, 0xff80, 0x7fc0};
  const std::vector<double> wide{0.1, -1e-60, 3.4028234663852886e38, double(inf), std::nan("")};
  const std::vector<float> single{0.1f, -inf};
  const std::vector<double> too_wide{1.0, 1e39};
  const std::vector<std::int32_t> whole{1};
  const auto file = SafetensorsFile::parse(
      write_safetensors_bytes({}, {view("half", "F16", {10}, half), view("brain", "BF16", {6}, brain),
                                   view("wide", "F64", {5}, wide), view("single", "F32", {2}, single),
                                   view("too_wide", "F64", {2}, too_wide), view("whole", "I32", {1}, whole)}),
      "x");
  const Tensors tensors = tensors_of(file, "x");
  std::vector<float> values = tensors.get("half").floats();
  CHECK(std::isnan(values[8]));
  CHECK(std::signbit(values[9]));
  values[8] = 0;
  CHECK(values == std::vector<float>{1, -2, std::ldexp(1.0f, -24), -std::ldexp(1023.0f, -24), std::ldexp(1.0f, -14),
                                     65504, inf, -inf, 0, 0});
  values = tensors.get("brain").floats();
  CHECK(std::isnan(values[5]));
  values.pop_back();
  CHECK(values == std::vector<float>{1, -2, std::ldexp(1.0f, -133), 0x1.fep127f, -inf});
  values = tensors.get("wide").floats();
  CHECK(std::isnan(values[4]));
  values.pop_back();
  CHECK(values == std::vector<float>{0.1f, -0.0f, std::numeric_limits<float>::max(), inf});
  CHECK(tensors.get("single").floats() == single);
  CHECK_THROWS_WITH_AS(tensors.get("too_wide").floats(),
                       "tensor \"too_wide\": value 1 is 1e+39, which a float cannot hold", InputError);
  CHECK(tensors.get("whole").floats() == std::vector<float>{1});
}

TEST_CASE("safetensors: cutting a file after it is read changes nothing") {
  const TemporaryFolder folder;
  const std::vector<float> values(4096, 2.5f);
  const auto path = folder / "model.safetensors";
  save_safetensors(path, {}, {view("t", "F32", {4096}, values)});
  const SafetensorsFile file = SafetensorsFile::read(path);
  std::filesystem::resize_file(path, 16);  // a mapping would raise SIGBUS from here on
  CHECK(values_of<float>(file.get("t")) == values);
  CHECK_THROWS_WITH_AS(SafetensorsFile::read(path), doctest::Contains("the header should have "), InputError);
}

TEST_CASE("safetensors: a missing file is an error") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(SafetensorsFile::read(folder / "none.safetensors"),
                       doctest::Contains("none.safetensors: No such file or directory"), EnvironmentError);
}

TEST_CASE("safetensors: every cut of a good file is refused") {
  for (std::size_t size = 0; size < golden().size(); ++size) CHECK(refusal(golden().substr(0, size)) != "");
}

TEST_CASE("safetensors: the writer refuses a tensor that does not fit its shape") {
  const std::vector<float> two{1, 2};
  CHECK_THROWS_WITH_AS(write_safetensors_bytes({}, {view("a", "F32", {3}, two)}),
                       "tensor \"a\" cannot be written: has 8 bytes, its shape needs 12", InputError);
}

TEST_CASE("safetensors: the writer refuses a name that is used twice or reserved") {
  const std::vector<float> two{1, 2};
  CHECK_THROWS_WITH_AS(write_safetensors_bytes({}, {view("a", "F32", {2}, two), view("a", "F32", {2}, two)}),
                       "tensor \"a\" cannot be written: this name is used twice or is reserved", InputError);
  CHECK_THROWS_WITH_AS(write_safetensors_bytes({}, {view("__metadata__", "F32", {2}, two)}),
                       "tensor \"__metadata__\" cannot be written: this name is used twice or is reserved", InputError);
}

TEST_CASE("safetensors: the writer refuses an unknown dtype") {
  const std::vector<float> two{1, 2};
  CHECK_THROWS_WITH_AS(write_safetensors_bytes({}, {view("a", "FLOAT", {2}, two)}),
                       "tensor \"a\" cannot be written: unknown dtype \"FLOAT\"", InputError);
}

TEST_CASE("safetensors: the writer refuses texts that are not UTF-8") {
  CHECK_THROWS_WITH_AS(write_safetensors_bytes({{"k", "\xff"}}, {}),
                       "a name or the metadata of a checkpoint is not valid UTF-8", InputError);
}
