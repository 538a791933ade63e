// A descriptor's "external": results that were not trained here, for tables. Not part of a trial or its id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/field.h"
#include "experiments/lab/descriptor/json_tree.h"

namespace normlab {

class Problems;

/// A line of the file.
struct ExternalValue {
  std::string row;
  std::uint64_t seed = 0;
  std::string metric;
  double value = 0;  // as results are stored: an accuracy is a share
};

struct ExternalNumbers {
  std::string label;
  std::string file;  // CSV with the columns row, seed, metric and value
  std::string text;  // of the file, for an archive, which cannot refer to it; "": the file is read
  std::vector<ExternalValue> values{};
};
template <std::same_as<ExternalNumbers> T>
constexpr auto rows_of(const T*) {
  return Fields{field("label", &T::label, "", kNotEmpty).needed(), field("file", &T::file, "", kNotEmpty).needed(),
                field("text", &T::text, "", kNotEmpty)};
}

/// Reads "external" of a descriptor, and writes into `root` the text of each file, so that the descriptor needs none.
/// Adds the files to `files`. Problems have the places in these files.
std::vector<ExternalNumbers> read_external(JsonNode& root, Sources& sources, Problems& problems,
                                           std::vector<std::filesystem::path>& files);

}  // namespace normlab
