#include "experiments/lab/trials/correctness_file.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "tests/lab/base/temporary_folder.h"

using namespace normlab;

namespace {

std::string error_of(const std::filesystem::path& path) {
  try {
    read_correctness(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("correctness: a file reads back for every remainder of eight") {
  const TemporaryFolder folder;
  for (const std::int64_t images : {0, 1, 7, 8, 9, 16, 1003}) {
    CAPTURE(images);
    Correctness written(images, "sha256:ab12");
    std::int64_t right = 0;
    for (std::int64_t i = 0; i < images; ++i) {
      written.set(i, true);
      written.set(i, i * i % 7 < 3);
      right += i * i % 7 < 3;
    }
    write_correctness(folder / kCorrectnessFile, written);
    const Correctness read = read_correctness(folder / kCorrectnessFile);
    CHECK(read == written);
    CHECK(read.images() == images);
    CHECK(read.data_hash() == "sha256:ab12");
    CHECK(read.count() == right);
    for (std::int64_t i = 0; i < images; ++i) CHECK(read[i] == (i * i % 7 < 3));
  }
}

TEST_CASE("correctness: a file is a line of text and one bit an image") {
  const TemporaryFolder folder;
  Correctness ten(10, "h");
  for (const int image : {0, 3, 8}) ten.set(image, true);
  write_correctness(folder / "bits", ten);
  CHECK(read_file(folder / "bits") == "normlab correct 1 10 h\n\x09\x01");
}

TEST_CASE("correctness: a damaged file is refused with its name and byte") {
  const TemporaryFolder folder;
  const auto with = [&](const std::string& bytes) {
    write_atomically(folder / "bits", bytes);
    return error_of(folder / "bits");
  };
  const auto says = [&](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != text.npos);
    CHECK(text.starts_with((folder / "bits").string() + ": byte "));
  };
  CHECK(with("normlab correct 1 10 h\n\x09\x01").empty());
  says(with(""), "byte 0: the file does not begin with");
  says(with("normlab correct 1 10 h"), "the first line does not end");
  says(with("normlab correct 2 10 h\n\x09\x01"), "byte 16: version \"2\", this program reads 1");
  says(with("normlab correct 1 ten h\n\x09\x01"), "byte 18: the number of images is not a number");
  says(with("normlab correct 1 -8 h\n"), "the number of images is not a number");
  says(with("normlab correct 1 99999999999999999999 h\n"), "the number of images is not a number");
  says(with("normlab correct 1 10\n\x09\x01"), "the data hash is missing");
  says(with("normlab correct 1 10 h i\n\x09\x01"), "the data hash is missing or has invalid characters");
  says(with("normlab correct 1\n\x09\x01"), "byte 17: the number of images is not a number");
  says(with("normlab correct 1 10 h\n\x09"), "byte 24: 10 images need 2 bytes, but there are 1");
  says(with("normlab correct 1 10 h\n\x09\x01\x01"), "10 images need 2 bytes, but there are 3");
  says(with("normlab correct 1 9223372036854775807 h\n\x09"), "but there are 1");
  says(with("normlab correct 1 10 h\n\x09\x04"), "byte 24: bits after the last image are set");
}

TEST_CASE("correctness: a file that is missing is an error of the environment") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_correctness(folder / "none"), EnvironmentError);
}

TEST_CASE("correctness: a negative count or a bad data hash is refused") {
  CHECK_THROWS_AS(Correctness(-1, "h"), InputError);
  CHECK_THROWS_AS(Correctness(1, ""), InputError);
  CHECK_THROWS_AS(Correctness(1, "a b"), InputError);
}
