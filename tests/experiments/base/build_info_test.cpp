#include "experiments/base/build_info.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("build info: every part is a line of text") {
  for (const std::string& text : {build_version(), build_flags(), cpu_model(), host_name()}) {
    CHECK(!text.empty());
    CHECK(text.find('\n') == text.npos);
  }
}

TEST_CASE("build info: the time is UTC in ISO 8601") {
  const std::string time = utc_time();
  CHECK(time.size() == 20);
  CHECK(time[10] == 'T');
  CHECK(time.back() == 'Z');
}
