#include "experiments/lab/weights/npy.h"

#include <doctest/doctest.h>

#include "core/dtype.h"
#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;

namespace {

/// An .npy of this dict, padded only with the newline.
std::string npy_of(const std::string& dict, std::size_t data_bytes, char major = 1) {
  const std::string header = dict + '\n';
  std::string bytes = std::string("\x93NUMPY") + major + '\0';
  bytes += {char(header.size() & 255), char(header.size() >> 8)};
  if (major > 1) bytes += std::string(2, '\0');
  return bytes + header + std::string(data_bytes, '\0');
}
std::string npy_of_shape(const std::string& shape, std::size_t data_bytes = 0) {
  return npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }", data_bytes);
}
std::string npy_of_descr(const std::string& descr) {
  return npy_of("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }", 4);
}

HostTensor parse(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return parse_npy("x", "x.npy", std::as_bytes(std::span(*owner)), owner);
}

/// The error of reading these bytes; "" without an error.
std::string refusal(const std::string& bytes) {
  try {
    parse(bytes);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

/// The values of a tensor that is written and read.
std::vector<double> again(const HostTensor& tensor) {
  const HostTensor read = parse(write_npy_bytes(tensor));
  CHECK(read.dtype == tensor.dtype);
  CHECK(read.shape == tensor.shape);
  return read.doubles();
}

#define CHECK_REFUSES(bytes, words) \
  CHECK_MESSAGE(refusal(bytes).find(words) != std::string::npos, "said \"", refusal(bytes), "\", expected ", words)

}  // namespace

TEST_CASE("npy: written bytes are those of NumPy's save") {
  const HostTensor tensor = host_tensor("x", {2, 1}, std::vector<float>{1.0f, -2.0f});
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  const std::string expected = std::string("\x93NUMPY\x01\0\x76\0", 10) + dict + std::string(0x75 - dict.size(), ' ') +
                               '\n' + std::string("\0\0\x80\x3f\0\0\0\xc0", 8);
  CHECK(write_npy_bytes(tensor) == expected);
}

TEST_CASE("npy: a written file is read again, named by the file") {
  const HostTensor tensor = host_tensor("x", {2, 1}, std::vector<float>{1.0f, -2.0f});
  TemporaryFolder folder;
  write_npy(folder / "weights.npy", tensor);
  const HostTensor read = read_npy(folder / "weights.npy");
  CHECK(read.name == "weights");
  CHECK(read.shape == tensor.shape);
  CHECK(read.floats() == std::vector<float>{1.0f, -2.0f});
}

TEST_CASE("npy: a missing file is an error") {
  TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_npy(folder / "absent.npy"),
                       doctest::Contains("absent.npy: cannot be read: No such file or directory"), InputError);
}

TEST_CASE("npy: every dtype comes back") {
  CHECK(again(host_tensor("x", {2}, std::vector<bf16>{bf16(1.5f), bf16(-2.0f)})) == std::vector<double>{1.5, -2.0});
  CHECK(again(host_tensor("x", {2}, std::vector<std::int32_t>{-7, 7})) == std::vector<double>{-7, 7});
  CHECK(again(host_tensor("x", {1}, std::vector<std::int64_t>{1ll << 40})) == std::vector<double>{double(1ll << 40)});
  CHECK(again(host_tensor("x", {1}, std::vector<std::uint8_t>{255})) == std::vector<double>{255});
  const std::vector<std::uint16_t> halves{0x3c00, 0xc000, 0x0001, 0x7c00};
  CHECK(again({{"x", "F16", {4}, std::as_bytes(std::span(halves))}, nullptr}) ==
        std::vector<double>{1.0, -2.0, 5.9604644775390625e-08, std::numeric_limits<double>::infinity()});
  const std::vector<std::uint8_t> flags{0, 1};
  CHECK(again({{"x", "BOOL", {2}, std::as_bytes(std::span(flags))}, nullptr}) == std::vector<double>{0, 1});
}

TEST_CASE("npy: scalars and empty arrays come back") {
  CHECK(again(host_tensor("x", {}, std::vector<double>{0.1})) == std::vector<double>{0.1});
  CHECK(again(host_tensor("x", {3, 0, 2}, std::vector<float>{})).empty());
}

TEST_CASE("npy: arrays in Fortran order are read") {
  const HostTensor fortran = read_npy("tests/fuzz/corpus/npz/fortran.npy");
  CHECK(fortran.shape == std::vector<std::uint64_t>{2, 3, 4});
  std::vector<double> counting(24);
  for (int i = 0; i < 24; ++i) counting[static_cast<std::size_t>(i)] = i;
  CHECK(fortran.doubles() == counting);
  CHECK(refusal(npy_of("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 0)}", 0)).empty());
}

TEST_CASE("npy: a file of NumPy with bfloat16 is read") {
  CHECK(read_npy("tests/fuzz/corpus/npz/bfloat16.npy").floats() == std::vector<float>{1.0f, -2.0f});
}

TEST_CASE("npy: the header may be written in other ways that mean the same") {
  CHECK(refusal(npy_of_shape("(3,)", 12)).empty());
  CHECK(refusal(npy_of_shape("(3,  1)", 12)).empty());
  CHECK(refusal(npy_of_shape("(3, 1,)", 12)).empty());
  CHECK(refusal(npy_of_shape("()", 4)).empty());
  CHECK(refusal(npy_of("{\"shape\":(1,),'fortran_order':False,'descr':'<f4'}   ", 4, 2)).empty());
  CHECK(refusal(npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4, 3)).empty());
}

TEST_CASE("npy: a file cut anywhere is refused") {
  const std::string whole = write_npy_bytes(host_tensor("x", {5, 2}, std::vector<float>(10, 1.0f)));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CAPTURE(bytes);
    CHECK_REFUSES(whole.substr(0, bytes), "x.npy: byte ");
  }
  CHECK_REFUSES(whole.substr(0, 130), "byte 130: the array needs 40 bytes but 2 are there; the file is truncated");
}

TEST_CASE("npy: bytes after the array are refused") {
  const std::string whole = write_npy_bytes(host_tensor("x", {5, 2}, std::vector<float>(10, 1.0f)));
  CHECK_REFUSES(whole + '\0', "byte 168: 1 bytes after the array");
}

TEST_CASE("npy: magic, version and header size are checked") {
  CHECK_REFUSES("PK\3\4", "byte 0: this is not an .npy array");
  CHECK_REFUSES(npy_of("{}", 0, 4), "byte 6: version 4.0 of the format is not supported");
  CHECK_REFUSES(std::string("\x93NUMPY\x01\x01", 8), "version 1.1");
  CHECK_REFUSES(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14),
                "byte 8: a header of 4294967295 bytes exceeds the limit");
  CHECK_REFUSES(std::string("\x93NUMPY\x01\0\xff\xff{}", 12), "byte 8: the header should have 65535 bytes but 2");
  CHECK_REFUSES(std::string("\x93NUMPY\x01\0\0\0", 10), "byte 10: the header does not end with a newline");
  std::string without_newline = npy_of_shape("(1,)", 4);
  without_newline[without_newline.size() - 5] = ' ';
  CHECK_REFUSES(without_newline, "the header does not end with a newline");
}

TEST_CASE("npy: shapes that lie or overflow are refused before anything is allocated") {
  CHECK_REFUSES(npy_of_shape("(4611686018427387904, 4)"), "more elements than 64 bits can count");
  CHECK_REFUSES(npy_of_shape("(4294967296, 4294967296, 0)"), "more elements than 64 bits can count");
  CHECK_REFUSES(npy_of_shape("(99999999999999999999,)"), "a dimension beyond 63 bits");
  CHECK_REFUSES(npy_of_shape("(1000000000000,)"), "the array needs 4000000000000 bytes but 0 are there");
  CHECK_REFUSES(npy_of_shape("(-1,)"), "byte 61: a negative dimension");
  CHECK_REFUSES(npy_of_shape("(3)", 12), "expected \",\" after the only dimension, found \")\"");
  CHECK_REFUSES(npy_of_shape("3", 12), "expected \"(\", found \"3\"");
  CHECK_REFUSES(npy_of_shape("(3, , 1)", 12), "expected a dimension, found \",\"");
  CHECK_REFUSES(npy_of_shape("(03,)", 12), "leading zero");
  CHECK_REFUSES(npy_of_shape("(3L,)", 12), "found \"L\"");
  CHECK_REFUSES(npy_of_shape("(3.0,)", 12), "found \".\"");
  CHECK_REFUSES(npy_of_shape("(True,)", 4), "expected a dimension");
  CHECK_REFUSES(npy_of_shape("(1, 1", 4), "byte 67: expected a dimension, found \"}\"");
  CHECK_REFUSES(npy_of_shape("(1, 1}", 4), "byte 65: expected \")\", found \"}\"");
  std::string many = "(";
  for (int i = 0; i < 33; ++i) many += "1, ";
  CHECK_REFUSES(npy_of_shape(many + ")", 4), "more than 32 dimensions");
}

TEST_CASE("npy: a dict in any other form is refused") {
  CHECK_REFUSES(npy_of_descr("'O'"), "byte 20: pickled Python objects");
  CHECK_REFUSES(npy_of_descr("'|O'"), "pickled Python objects");
  CHECK_REFUSES(npy_of_descr("'>f4'"), "big-endian numbers (\">f4\")");
  CHECK_REFUSES(npy_of_descr("'<c8'"), "numbers of the type \"<c8\" are not supported");
  CHECK_REFUSES(npy_of_descr("'|V4'"), "numbers of the type \"|V4\" are not supported");
  CHECK_REFUSES(npy_of_descr("[('a', '<f4')]"), "a structured array");
  CHECK_REFUSES(npy_of_descr("\"'<f4'\""), "numbers of the type \"'<f4'\" are not supported");
  CHECK_REFUSES(npy_of_descr("'<f4\\''"), "found \"\\\"");
  CHECK_REFUSES(npy_of_descr("'<f4\""), "byte 20: numbers of the type \"<f4\\\", \" are not supported");
  CHECK_REFUSES(npy_of_descr("<f4"), "expected a string in quotes, found \"<\"");
  CHECK_REFUSES(npy_of("{'descr': '<f4", 0), "the string has no closing quote");
  CHECK_REFUSES(npy_of("{'descr': '<f4', 'fortran_order': false, 'shape': ()}", 4), "expected True or False");
  CHECK_REFUSES(npy_of("{'descr': '<f4', 'fortran_order': False}", 4), "the header has no \"shape\"");
  CHECK_REFUSES(npy_of("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': ()}", 4),
                "byte 27: the key \"descr\" occurs twice");
  CHECK_REFUSES(npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", 4), "unknown key \"x\"");
  CHECK_REFUSES(npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", 4), "expected spaces up to the end");
  CHECK_REFUSES(npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (),, }", 4), "expected a string in quotes");
  CHECK_REFUSES(npy_of("{'descr': '<f4' 'fortran_order': False, 'shape': ()}", 4), "expected \"}\", found \"'\"");
  CHECK_REFUSES(npy_of("", 0), "expected \"{\", found its end");
}

TEST_CASE("npy: tensors that the format cannot hold are not written") {
  const std::vector<std::uint16_t> numbers{1, 2};
  const auto data = std::as_bytes(std::span(numbers));
  CHECK_THROWS_WITH_AS(write_npy_bytes({"x", "U16", {2}, data}),
                       "tensor \"x\" cannot be written as .npy: the format has no dtype U16", InputError);
  CHECK_THROWS_WITH_AS(write_npy_bytes({"x", "F16", {3}, data}),
                       "tensor \"x\" cannot be written as .npy: has 4 bytes, but its shape needs 6", InputError);
  CHECK_THROWS_WITH_AS(write_npy_bytes({"x", "F16", std::vector<std::uint64_t>(33, 1), data.first(2)}),
                       "tensor \"x\" cannot be written as .npy: more than 32 dimensions", InputError);
}
