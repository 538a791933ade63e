// The lines of decode_golden.txt and ops/policy_golden.txt, which golden.py and policy_golden.py wrote.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "experiments/lab/data/image.h"

namespace normlab::test {

/// The rest of each line that begins with `kind`.
inline std::vector<std::string> golden_lines(const std::string& kind, const std::string& file = "decode_golden.txt") {
  std::ifstream in("tests/lab/data/" + file);
  REQUIRE_MESSAGE(in, "run the tests from the repository's root");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(kind + " ")) lines.push_back(line.substr(kind.size() + 1));
  return lines;
}

/// The formula of golden.py and policy_golden.py.
inline Image golden_picture(std::int64_t height, std::int64_t width) {
  Image image;
  image.resize(height, width);
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < 3; ++c)
        image.row(y)[x * 3 + c] = static_cast<std::uint8_t>(x * 7 + y * 5 + c * 60 + x * y / 9 + (x > y ? 90 : 0));
  return image;
}

/// FNV-1a, 64 bits, in hexadecimal, of images one after the other.
inline std::string golden_hash(const std::vector<Image>& images) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const Image& image : images)
    for (const std::uint8_t byte : image.pixels) value = (value ^ byte) * 0x100000001b3u;
  return fmt::format("{:016x}", value);
}
inline std::string golden_hash(const Image& image) { return golden_hash(std::vector<Image>{image}); }

}  // namespace normlab::test
