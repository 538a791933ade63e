#include "experiments/lab/weights/npy.h"

#include <archive.h>
#include <archive_entry.h>
#include <doctest/doctest.h>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/data/archive.h"
#include "experiments/lab/weights/npy.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;

namespace {

std::string three_floats() { return write_npy_bytes(host_tensor("x", {3}, std::vector<float>{1, 2, 3})); }

std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  ZipWriter zip;
  for (const auto& [name, content] : members) zip.add(name, content);
  return zip.finish();
}

/// One deflated member x.npy.
std::string deflated_zip(const std::string& content) {
  std::string bytes(content.size() + 1000, '\0');
  std::size_t used = 0;
  archive* writer = archive_write_new();
  archive_write_set_format_zip(writer);
  archive_write_set_bytes_in_last_block(writer, 1);
  archive_write_open_memory(writer, bytes.data(), bytes.size(), &used);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, "x.npy");
  archive_entry_set_filetype(entry, AE_IFREG);
  CHECK(archive_write_header(writer, entry) == ARCHIVE_OK);
  CHECK(archive_write_data(writer, content.data(), content.size()) == static_cast<la_ssize_t>(content.size()));
  archive_entry_free(entry);
  CHECK(archive_write_close(writer) == ARCHIVE_OK);
  archive_write_free(writer);
  return bytes.substr(0, used);
}

/// The error of reading these bytes; "" without an error.
std::string refusal(const std::string& bytes) {
  try {
    parse_npz(std::as_bytes(std::span(bytes)), "x.npz");
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

#define CHECK_REFUSES(bytes, words) \
  CHECK_MESSAGE(refusal(bytes).find(words) != std::string::npos, "said \"", refusal(bytes), "\", expected ", words)

/// The zip with the field of `width` bytes at `offset` of its first entry of the directory set to `value`.
std::string with_directory_field(std::string zip, std::size_t offset, std::size_t width, std::uint64_t value) {
  const std::size_t entry = zip.find("PK\1\2");
  REQUIRE(entry != zip.npos);
  std::memcpy(zip.data() + entry + offset, &value, width);
  return zip;
}

std::vector<double> counting(std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = double(i);
  return values;
}

Tensors two_tensors() {
  Tensors tensors("made here");
  tensors.add(host_tensor("b/kernel", {2, 3}, std::vector<double>(counting(6))));
  tensors.add(host_tensor("a", {}, std::vector<std::int64_t>{-1}));
  return tensors;
}

}  // namespace

TEST_CASE("npz: stored archives of NumPy are read") {
  const Tensors stored = read_npz("tests/fuzz/corpus/npz/stored.npz");
  REQUIRE(stored.size() == 2);
  CHECK(stored.begin()->name == "Transformer/encoder_norm/scale");
  CHECK(stored.get("Transformer/encoder_norm/scale").floats() == std::vector<float>{1, 2, 3});
  CHECK(stored.get("step").dtype == "I64");
  CHECK(stored.get("step").doubles() == std::vector<double>{7});
}

TEST_CASE("npz: deflated archives of NumPy are read") {
  const Tensors deflated = read_npz("tests/fuzz/corpus/npz/deflated.npz");
  CHECK(deflated.get("embedding/kernel").shape == std::vector<std::uint64_t>{2, 2, 3, 4});
  CHECK(deflated.get("embedding/kernel").doubles() == counting(48));
  CHECK(deflated.get("half").floats() == std::vector<float>{0.5f, -2.0f});
  CHECK(deflated.get("flags").floats() == std::vector<float>{1.0f, 0.0f});
}

TEST_CASE("npz: tensors come back from a file in their order") {
  const Tensors tensors = two_tensors();
  TemporaryFolder folder;
  write_npz(folder / "x.npz", tensors);
  const Tensors read = read_npz(folder / "x.npz");
  REQUIRE(read.size() == 2);
  CHECK(read.begin()->name == "b/kernel");
  CHECK(read.get("b/kernel").doubles() == counting(6));
  CHECK(read.get("a").dtype == "I64");
}

TEST_CASE("npz: a written file has the bytes of the tensors") {
  const Tensors tensors = two_tensors();
  TemporaryFolder folder;
  write_npz(folder / "x.npz", tensors);
  CHECK(write_npz_bytes(tensors.views()) == read_file(folder / "x.npz"));
}

TEST_CASE("npz: equal tensors give equal bytes at any time") {
  const Tensors tensors = two_tensors();
  const std::string bytes = write_npz_bytes(tensors.views());
  REQUIRE(bytes.substr(0, 4) == "PK\3\4");
  CHECK(bytes.substr(10, 4) == std::string("\0\0\x21\0", 4));  // 1980-01-01 00:00, the earliest time of a zip
}

TEST_CASE("npz: errors of a member name its file and byte") {
  const std::string bad = zip_of({{"fine.npy", three_floats()}, {"p/bad.npy", three_floats() + '\0'}});
  CHECK_REFUSES(bad, "x.npz: member \"p/bad.npy\" (from byte ");
  CHECK_REFUSES(bad, "): byte 140: 1 bytes after the array");
}

TEST_CASE("npz: a missing file or a folder is an error") {
  CHECK_THROWS_WITH_AS(read_npz("absent.npz"), "absent.npz: cannot be opened: No such file or directory",
                       EnvironmentError);
  CHECK_THROWS_AS(read_npz("tests"), EnvironmentError);
}

TEST_CASE("npz: an archive cut anywhere is refused") {
  TemporaryFolder folder;
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::string whole = read_file(std::filesystem::path("tests/fuzz/corpus/npz") / name);
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      CAPTURE(bytes);
      CHECK_REFUSES(whole.substr(0, bytes), concat("x.npz: byte ", bytes, ": no zip directory at the end"));
    }
    write_atomically(folder / "cut.npz", whole.substr(0, 300));
    CHECK_THROWS_AS(read_npz(folder / "cut.npz"), InputError);
  }
}

TEST_CASE("npz: a file that is not a zip is refused") {
  TemporaryFolder folder;
  write_atomically(folder / "text.npz", "These are no weights.");
  CHECK_THROWS_WITH_AS(
      read_npz(folder / "text.npz"),
      (folder / "text.npz: byte 21: no zip directory at the end; this is not a zip, or it is truncated").c_str(),
      InputError);
}

TEST_CASE("npz: data that does not fit its checksum is refused") {
  const std::string zip = zip_of({{"x.npy", three_floats()}});
  std::string other_data = zip;
  other_data[zip.find("NUMPY") + 127] ^= 1;
  CHECK_REFUSES(other_data, "ZIP bad CRC");
  CHECK_REFUSES(with_directory_field(zip, 16, 4, 0x12345678), "CRC");
}

TEST_CASE("npz: sizes and offsets that do not fit the archive are refused") {
  const std::string zip = zip_of({{"x.npy", three_floats()}});
  CHECK_REFUSES(with_directory_field(zip, 20, 4, 100), "x.npz: byte ");  // packed size
  CHECK_REFUSES(with_directory_field(zip, 24, 4, 139), "x.npz: byte ");  // unpacked size
  CHECK_REFUSES(with_directory_field(zip, 24, 4, 141), "x.npz: byte ");
  CHECK_REFUSES(with_directory_field(zip, 42, 4, 5), "x.npz: byte ");  // the offset of its header
  CHECK_REFUSES(with_directory_field(zip, 42, 4, 0xfffffff0), "x.npz: byte ");
}

TEST_CASE("npz: members of other compressions are refused") {
  std::string zip = zip_of({{"x.npy", three_floats()}});
  zip[8] = 1;  // an obsolete compression
  CHECK_REFUSES(with_directory_field(zip, 10, 2, 1), "x.npz: byte ");
}

TEST_CASE("npz: encrypted members are refused") {
  std::string zip = zip_of({{"x.npy", three_floats()}});
  zip[6] |= 1;
  CHECK_REFUSES(with_directory_field(zip, 8, 2, 1 | 8), "x.npz: byte ");
}

TEST_CASE("npz: a directory that claims too much is refused before anything is unpacked") {
  std::string zip = with_directory_field(zip_of({{"x.npy", three_floats()}}), 24, 4, 300u << 20);
  zip.replace(22, 4, zip.substr(zip.find("PK\1\2") + 24, 4));  // and in the header before the data
  CHECK_REFUSES(zip, "byte 59, member \"x.npy\": has 314572800 bytes by its header, so the members exceed 256 MiB");
}

TEST_CASE("npz: a member that unpacks to more than its header gives is refused") {
  // A hundred bytes are claimed, and a mebibyte comes out.
  const std::string bomb = with_directory_field(deflated_zip(std::string(1 << 20, '\0')), 24, 4, 100);
  CHECK_REFUSES(bomb, "member \"x.npy\": holds more than the 100 bytes that its header gives");
}

TEST_CASE("npz: names that no tensor may have are refused by reader and writer") {
  const std::string array = three_floats();
  for (const std::string name : {"../x", "/x", "a//x", "a/./x", "a/../x", "b/a\\x", "a\nx", "", "a/"}) {
    CAPTURE(name);
    CHECK_REFUSES(zip_of({{concat(name, ".npy"), array}}), "has a name with");
    const std::vector<float> values{1};
    CHECK_THROWS_WITH_AS(write_npz_bytes({{name, "F32", {1}, std::as_bytes(std::span(values))}}),
                         doctest::Contains("cannot be written as .npz: "), InputError);
  }
}

TEST_CASE("npz: an archive without arrays is refused by reader and writer") {
  CHECK_THROWS_WITH_AS(write_npz_bytes({}),
                       "an .npz file without arrays cannot be written, because no reader accepts it", InputError);
  CHECK_REFUSES(zip_of({}), "x.npz: byte 22: no zip directory");
  CHECK_REFUSES("stub" + zip_of({}), "x.npz: holds no arrays");
}

TEST_CASE("npz: members that are not arrays are refused") {
  const std::string array = three_floats();
  CHECK_REFUSES(zip_of({{"x.npy", array}, {"readme.txt", "hello"}}), "member \"readme.txt\"");
  CHECK_REFUSES(zip_of({{"x.npy", array}, {"readme.txt", "hello"}}),
                "is not an .npy array; an .npz file holds only those");
  CHECK_REFUSES(zip_of({{"x", array}}), "is not an .npy array");
  CHECK_REFUSES(zip_of({{"folder/", ""}}), "is not a regular file");
}

TEST_CASE("npz: a name that occurs twice is refused by reader and writer") {
  CHECK_REFUSES(zip_of({{"a.npy", three_floats()}, {"b.npy", three_floats()}, {"a.npy", three_floats()}}),
                "occurs twice");
  const std::vector<float> values{1};
  const TensorView tensor{"a", "F32", {1}, std::as_bytes(std::span(values))};
  CHECK_THROWS_WITH_AS(write_npz_bytes({tensor, tensor}), "tensor \"a\" occurs twice", InputError);
}
