#include "experiments/lab/data/jpeg_copy.h"

#include "core/error.h"
#include "experiments/lab/data/dataset.h"

namespace normlab {

bool is_lossless(std::string_view dataset) {
  const KnownDataset* const known = find_dataset(dataset);
  return known != nullptr && known->lossless;
}

std::string jpeg_copy(const std::string& dataset, const JpegFiles& jpegs, std::int64_t images) {
  if (jpegs.count == 0 || !is_lossless(dataset)) return "";
  const int lowest = *jpegs.qualities.begin(), highest = *jpegs.qualities.rbegin();
  return concat(dataset, jpegs.count < images ? " partly" : "", " as JPEG",
                lowest == 0 ? "" : concat(", quality ", lowest),
                lowest == 0 || lowest == highest ? "" : concat(" to ", highest));
}

std::string jpeg_copy(const std::string& dataset, const ImageSet& images) {
  return jpeg_copy(dataset, images.jpegs, images.size());
}

std::string jpeg_copy(const std::string& dataset, const DataPair& data) {
  JpegFiles jpegs;
  std::int64_t images = 0;
  for (const ImageSet* slice : {&data.train, &data.eval, data.minival ? &*data.minival : nullptr}) {
    if (slice == nullptr) continue;
    jpegs.add(slice->jpegs);
    images += slice->size();
  }
  return jpeg_copy(dataset, jpegs, images);
}

}  // namespace normlab
