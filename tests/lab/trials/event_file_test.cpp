#include "experiments/lab/trials/event_file.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "tests/lab/base/temporary_folder.h"

using namespace normlab;

namespace {

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// The contents of a TFRecord file. Its lengths and checksums are checked.
std::vector<std::string> records(std::string_view file) {
  std::vector<std::string> out;
  while (!file.empty()) {
    const std::uint64_t length = little_endian(file.substr(0, 8));
    REQUIRE(file.size() >= length + 16);
    out.emplace_back(file.substr(12, length));
    CHECK(tf_record(out.back()) == file.substr(0, length + 16));
    file.remove_prefix(length + 16);
  }
  return out;
}

}  // namespace

TEST_CASE("event file: CRC-32C gives the values of RFC 3720 B.4") {
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
  CHECK(crc32c("123456789") == 0xE3069283U);
  CHECK(crc32c("") == 0);
}

TEST_CASE("event file: a record is its content within 16 bytes of length and checksums") {
  CHECK(little_endian(std::string_view(tf_record("abc")).substr(0, 8)) == 3);
  CHECK(tf_record("").size() == 16);
}

TEST_CASE("event file: checksums are masked as TensorFlow masks them") {
  // CRC-32C 0xE3069283, rotated right by 15 bits, plus 0xA282EAD8.
  CHECK(little_endian(std::string_view(tf_record("123456789")).substr(21)) == 0xC78AB0E5U);
}

TEST_CASE("event file: an event is a message of protocol buffers") {
  const std::string event = scalar_event({300, 0.5, {{"eval/loss", 1.5}}}, 2.0);
  std::string expected;
  expected += "\x09";
  expected.append("\0\0\0\0\0\0\0\x40", 8);  // wall_time 2.0
  expected += "\x10\xAC\x02";                // step 300
  expected += "\x2A\x12\x0A\x10";            // summary, its value
  expected += "\x0A\x09";
  expected += "eval/loss";
  expected += "\x15";
  expected.append("\0\0\xC0\x3F", 4);  // 1.5f
  CHECK(event == expected);
}

TEST_CASE("event file: a resumed trial's file has each step once") {
  const TemporaryFolder folder;
  const MetricsLine first{1, 0.5, {{"train/loss", 2.0}}}, second{2, 1.0, {{"train/loss", 1.0}, {"x", NAN}}};
  { EventFile(folder / "t", {first}).append({2, 1.0, {{"train/loss", 9.0}}}); }
  EventFile events(folder / "t", {first});
  events.append(second);
  const std::vector<std::string> all = records(read_file((folder / "t") / EventFile::kName));
  REQUIRE(all.size() == 3);
  CHECK(all[0].find("brain.Event:2") != std::string::npos);
  CHECK(all[1].substr(9) == scalar_event(first, 0).substr(9));
  CHECK(all[2].substr(9) == scalar_event(second, 0).substr(9));
}

TEST_CASE("event file: a folder that cannot be made is an error of the environment") {
  CHECK_THROWS_AS(EventFile("/proc/none", {}), EnvironmentError);
}
