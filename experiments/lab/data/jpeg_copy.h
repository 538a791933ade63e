// Copies of known data sets that are published without loss, but arrive as JPEGs.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace normlab {

struct DataPair;
struct ImageSet;

/// How the JPEGs among image files were compressed.
struct JpegFiles {
  std::int64_t count = 0;
  std::set<int> qualities{};  // of jpeg_quality(); 0: unknown

  void add(int quality) { ++count, qualities.insert(quality); }
  void add(const JpegFiles& other) {
    count += other.count, qualities.insert(other.qualities.begin(), other.qualities.end());
  }
};

/// Whether this is the name of a data set that is published as pixels or PNG.
bool is_lossless(std::string_view dataset);

/// "cifar10 as JPEG, quality 75", "cifar10 partly as JPEG, quality 75 to 90", "cifar10 as JPEG" of tables that are not
/// libjpeg's. "" if no image is a JPEG, and for other data sets. All slices of the data count.
std::string jpeg_copy(const std::string& dataset, const JpegFiles& jpegs, std::int64_t images);
std::string jpeg_copy(const std::string& dataset, const ImageSet& images);
std::string jpeg_copy(const std::string& dataset, const DataPair& data);

/// Follows each of these texts.
inline constexpr const char* kNotPublished = ": not the published pixels";

}  // namespace normlab
