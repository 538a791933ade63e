// Files that a user names are opened without waiting, and only where they are regular ones.
#include "experiments/base/regular_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/experiments/descriptor/descriptor_files.h"

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

}  // namespace

TEST_CASE("regular files: pipes, devices and folders are refused at once, with what they are") {
  DescriptorFiles files;
  const std::filesystem::path pipe = files.folder() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refused(pipe) == pipe.string() + ": cannot be read: it is a pipe, not a regular file; it has the labels");
  CHECK(refused("/dev/zero") == "/dev/zero: cannot be read: it is a device, not a regular file; it has the labels");
  CHECK(refused(files.folder()).find("it is a folder") != std::string::npos);
  CHECK(refused(files.folder() / "gone").find("No such file") != std::string::npos);
}

TEST_CASE("regular files: the whole text, a beginning of it, and through a link") {
  DescriptorFiles files;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += static_cast<char>(i % 251);
  const std::filesystem::path file = files.write("text", text), link = files.folder() / "link";
  std::filesystem::create_symlink(file, link);
  CHECK(RegularFile(file).read() == text);
  CHECK(RegularFile(link).read() == text);
  CHECK(RegularFile(link).identity() == RegularFile(file).identity());
  CHECK(RegularFile(file).read(10) == text.substr(0, 11));
  CHECK(RegularFile(files.write("empty", "")).read() == "");
  CHECK(RegularFile("/proc/self/status").read().size() > 100);  // says that it has no byte
}

TEST_CASE("regular files: a descriptor that is or extends a pipe or a device is refused, with its place") {
  DescriptorFiles files;
  REQUIRE(mkfifo((files.folder() / "pipe").c_str(), 0600) == 0);
  CHECK(files.problems(R"({"extends": "pipe"})") ==
        "d.json:1:13: /extends: pipe: cannot be read: it is a pipe, not a regular file");
  CHECK(files.problems(R"({"extends": "/dev/zero"})").find("/extends: /dev/zero: cannot be read: it is a device") !=
        std::string::npos);
  CHECK_THROWS_WITH_AS(load_experiment(files.folder() / "pipe"), doctest::Contains("it is a pipe"), InputError);
}

TEST_CASE("regular files: at most 64 descriptors stand on top of each other") {
  DescriptorFiles files;
  files.write("0.json", "{}");
  for (int i = 1; i < 200; ++i) files.write(concat(i, ".json"), concat(R"({"extends": ")", i - 1, ".json\"}"));
  CHECK(files.problems(R"({"extends": "62.json"})") == "");  // 64 files
  CHECK(files.problems(R"({"extends": "63.json"})") ==
        "1.json:1:13: /extends: more than 64 descriptors extend one another");
  CHECK(files.problems(R"({"extends": "199.json"})") ==
        "137.json:1:13: /extends: more than 64 descriptors extend one another");
}
