// The lines of decode_golden.txt, which golden.py wrote with Pillow.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "experiments/lab/data/image.h"

namespace normlab::test {

/// The rest of each line that begins with `kind`.
inline std::vector<std::string> golden_lines(const std::string& kind) {
  std::ifstream in("tests/lab/data/decode_golden.txt");
  REQUIRE_MESSAGE(in, "run the tests from the repository's root");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(kind + " ")) lines.push_back(line.substr(kind.size() + 1));
  return lines;
}

/// FNV-1a, 64 bits, in hexadecimal.
inline std::string golden_hash(const Image& image) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const std::uint8_t byte : image.pixels) value = (value ^ byte) * 0x100000001b3u;
  return fmt::format("{:016x}", value);
}

}  // namespace normlab::test
