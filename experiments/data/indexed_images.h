// The files of an ImageIndex, read when they are needed.
#pragma once

#include <string>
#include <vector>

#include "experiments/data/image_index.h"

namespace normlab {

/// Files are opened whenever one is read: there may be more than a process can hold open. Sizes are those found when it
/// was made; a file that is shorter by then is an error.
class IndexedImages final : public EncodedImages {
 public:
  /// Looks at the sizes of files of their own. One that is not there is an error once it is read.
  IndexedImages(ImageIndex index, int threads);

  void read(std::int64_t i, std::vector<std::uint8_t>& bytes) const override;
  std::string where(std::int64_t i) const override;
  /// Of the file, or of the member; -1 where it is not there.
  std::int64_t bytes(std::int64_t i) const;
  /// Drops the entries that are not `good`.
  void keep(const std::vector<bool>& good);
  const ImageIndex& index() const { return index_; }

 private:
  const ImageEntry& at(std::int64_t i) const { return index_.entries[static_cast<std::size_t>(i)]; }
  std::filesystem::path file(const ImageEntry& entry) const;
  std::string missing_reason(const ImageEntry& entry) const;

  ImageIndex index_;
};

}  // namespace normlab
