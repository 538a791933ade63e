#include "experiments/lab/base/build_info.h"

#include <doctest/doctest.h>

#include "experiments/lab/base/files.h"

using namespace normlab;

TEST_CASE("build info: every part is a line of text") {
  for (const std::string& text : {build_version(), build_flags(), build_level(), cpu_model(), host_name()}) {
    CHECK(!text.empty());
    CHECK(text.find('\n') == text.npos);
  }
}

TEST_CASE("build info: the version is the changelog's number and a commit") {
  const std::string version = build_version();
  const auto plus = version.find('+');
  REQUIRE(plus != version.npos);
  const std::string changes = read_file("CHANGELOG.md");
  const auto heading = changes.find("\n## ");
  REQUIRE(heading != changes.npos);
  CHECK(changes.substr(heading + 4, changes.find('\n', heading + 1) - heading - 4) == version.substr(0, plus));
  CHECK(version.size() > plus + 7);  // of a build outside git: "unknown"
}

TEST_CASE("build info: the time is UTC in ISO 8601") {
  const std::string time = utc_time();
  CHECK(time.size() == 20);
  CHECK(time[10] == 'T');
  CHECK(time.back() == 'Z');
}
