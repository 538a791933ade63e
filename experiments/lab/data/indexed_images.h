// Reads the files of an ImageIndex on demand.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/data/image_index.h"

namespace normlab {

/// Opens a file for each read, since there may be too many to keep open. Sizes are recorded at construction; a file
/// that is shorter when read is an error.
class IndexedImages final : public EncodedImages {
 public:
  /// Records the sizes of separate files. A missing one is an error only when read.
  IndexedImages(ImageIndex index, int threads);

  void read(std::int64_t i, std::vector<std::uint8_t>& bytes) const override;
  std::string where(std::int64_t i) const override;
  /// Of the file or member; -1 if missing.
  std::int64_t bytes(std::int64_t i) const;
  /// The first `count` bytes, or all; none of a file that cannot be read.
  std::vector<std::uint8_t> head(std::int64_t i, std::size_t count) const;
  void keep(const std::vector<bool>& good);
  const ImageIndex& index() const { return index_; }

 private:
  const ImageEntry& at(std::int64_t i) const { return index_.entries[static_cast<std::size_t>(i)]; }
  std::filesystem::path file(const ImageEntry& entry) const;
  std::string missing_reason(const ImageEntry& entry) const;

  ImageIndex index_;
};

}  // namespace normlab
