// Files that a user names are opened without waiting, and only if they are regular files.
#include "experiments/lab/base/regular_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

std::string refused(const std::filesystem::path& file) {
  try {
    RegularFile(file, "it has the labels").read();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// A file of 100,000 bytes.
struct LongFile : DescriptorFiles {
  LongFile() {
    for (int i = 0; i < 100'000; ++i) text += static_cast<char>(i % 251);
    file = write("text", text);
  }
  std::string text;
  std::filesystem::path file;
};

}  // namespace

TEST_CASE("regular files: a file of another kind is refused by its kind") {
  DescriptorFiles files;
  const std::filesystem::path pipe = files.folder() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refused(pipe) == pipe.string() + ": cannot be read: it is a pipe, not a regular file; it has the labels");
  CHECK(refused("/dev/zero") == "/dev/zero: cannot be read: it is a device, not a regular file; it has the labels");
  CHECK(refused(files.folder()).find("it is a folder") != std::string::npos);
}

TEST_CASE("regular files: a missing file is an error") {
  DescriptorFiles files;
  CHECK(refused(files.folder() / "gone").find("No such file") != std::string::npos);
}

TEST_CASE("regular files: the whole text is read") {
  const LongFile files;
  CHECK(RegularFile(files.file).read() == files.text);
}

TEST_CASE("regular files: a link is the file that it leads to") {
  const LongFile files;
  const std::filesystem::path link = files.folder() / "link";
  std::filesystem::create_symlink(files.file, link);
  CHECK(RegularFile(link).read() == files.text);
  CHECK(RegularFile(link).identity() == RegularFile(files.file).identity());
}

TEST_CASE("regular files: reading stops one byte after the limit") {
  const LongFile files;
  CHECK(RegularFile(files.file).read(10) == files.text.substr(0, 11));
}

TEST_CASE("regular files: an empty file is read") {
  DescriptorFiles files;
  CHECK(RegularFile(files.write("empty", "")).read() == "");
}

TEST_CASE("regular files: a file that states a size of 0 is read to its end") {
  CHECK(RegularFile("/proc/self/status").read().size() > 100);
}

TEST_CASE("regular files: a descriptor that extends a pipe or a device is refused") {
  DescriptorFiles files;
  REQUIRE(mkfifo((files.folder() / "pipe").c_str(), 0600) == 0);
  CHECK(files.problems(R"({"extends": "pipe"})") ==
        "d.json:1:13: /extends: pipe: cannot be read: it is a pipe, not a regular file");
  CHECK(files.problems(R"({"extends": "/dev/zero"})").find("/extends: /dev/zero: cannot be read: it is a device") !=
        std::string::npos);
}

TEST_CASE("regular files: a descriptor that is a pipe is refused") {
  DescriptorFiles files;
  REQUIRE(mkfifo((files.folder() / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(load_experiment(files.folder() / "pipe"), doctest::Contains("it is a pipe"), InputError);
}

TEST_CASE("regular files: at most 64 descriptors extend one another") {
  DescriptorFiles files;
  files.write("0.json", "{}");
  for (int i = 1; i < 200; ++i) files.write(concat(i, ".json"), concat(R"({"extends": ")", i - 1, ".json\"}"));
  CHECK(files.problems(R"({"extends": "62.json"})") == "");  // 64 files
  CHECK(files.problems(R"({"extends": "63.json"})") ==
        "1.json:1:13: /extends: more than 64 descriptors extend one another");
  CHECK(files.problems(R"({"extends": "199.json"})") ==
        "137.json:1:13: /extends: more than 64 descriptors extend one another");
}
