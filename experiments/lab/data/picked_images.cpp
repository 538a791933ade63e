#include "experiments/lab/data/picked_images.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"

namespace normlab {
namespace {

/// Files of other sets.
template <class... Out>
class FilesOfSets final : public StoredFiles<Out...> {
 public:
  using Set = std::shared_ptr<const StoredFiles<Out...>>;
  void add(const Set& set, std::int64_t index) { places_.emplace_back(set, index); }
  void read(std::int64_t i, Out&... out, std::vector<std::uint8_t>& bytes) const override {
    const auto& [set, index] = places_.at(static_cast<std::size_t>(i));
    set->read(index, out..., bytes);
  }
  std::string where(std::int64_t i) const override {
    const auto& [set, index] = places_.at(static_cast<std::size_t>(i));
    return set->where(index);
  }

 private:
  std::vector<std::pair<Set, std::int64_t>> places_;
};

template <class... Out>
std::shared_ptr<const StoredFiles<Out...>> picked_files(const std::shared_ptr<const StoredFiles<Out...>>& from,
                                                        const std::vector<std::size_t>& picked) {
  if (!from) return nullptr;
  const auto files = std::make_shared<FilesOfSets<Out...>>();
  for (const std::size_t i : picked) files->add(from, static_cast<std::int64_t>(i));
  return files;
}

struct Part {
  Slice slice;
  ImageSet images;
};

bool fit_in_memory(const std::vector<Part>& parts) {
  const ImageSet& first = parts.front().images;
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return !part.images.encoded && part.images.height == first.height && part.images.width == first.width;
  });
}

ImageSet join(const std::vector<Part>& parts, const std::string& dataset) {
  ImageSet all;
  const ImageSet& first = parts.front().images;
  const auto encoded = std::make_shared<FilesOfSets<>>();
  SetHash hash;
  for (const auto& [slice, images] : parts) {
    if (images.class_names != first.class_names || images.channels != first.channels)
      throw InputError(concat("dataset ", in_quotes(dataset), ": the splits ", in_quotes(parts.front().slice.split),
                              " and ", in_quotes(slice.split), " differ in their classes or channels"));
    if (images.masks)
      throw InputError(concat("dataset ", in_quotes(dataset), ": a slice of images with masks is of one split"));
    const std::string prefix = images.shards.empty() ? key_prefix(slice.split) : "";
    std::vector<std::vector<std::int64_t>> shards = images.shards;
    for (std::vector<std::int64_t>& shard : shards)
      for (std::int64_t& image : shard) image += all.size();
    all.shards.insert(all.shards.end(), shards.begin(), shards.end());
    for (std::int64_t i = 0; i < images.size(); ++i) all.keys.push_back(prefix + images.key(i));
    for (const BadImage& bad : images.bad_images) all.bad_images.push_back({prefix + bad.key, bad.reason});
    for (const std::int64_t image : images.gray16) all.gray16.push_back(all.size() + image);
    all.jpegs.add(images.jpegs);
    all.captions.insert(all.captions.end(), images.captions.begin(), images.captions.end());
    all.labels.insert(all.labels.end(), images.labels.begin(), images.labels.end());
    all.pixels.insert(all.pixels.end(), images.pixels.begin(), images.pixels.end());
    for (std::int64_t i = 0; images.encoded && i < images.size(); ++i) encoded->add(images.encoded, i);
    all.provenance += (all.provenance.empty() ? "" : "; ") + images.provenance;
    hash.text(slice.split);
    hash.text(images.hash);
  }
  all.height = first.height;
  all.width = first.width;
  all.channels = first.channels;
  all.num_classes = first.num_classes;
  all.class_names = first.class_names;
  if (first.encoded) {
    all.encoded = encoded;
    all.hash = hash.hex();
  }
  return all;
}

}  // namespace

ImageSet picked_images(const ImageSet& from, const std::vector<std::size_t>& picked) {
  ImageSet out;
  out.height = from.height, out.width = from.width, out.channels = from.channels;
  out.num_classes = from.num_classes;
  out.class_names = from.class_names;
  out.tokeniser = from.tokeniser;
  out.encoded = picked_files(from.encoded, picked);
  out.masks = picked_files(from.masks, picked);
  for (const std::size_t i : picked) {
    const auto index = static_cast<std::int64_t>(i);
    out.labels.push_back(from.labels[i]);
    out.keys.push_back(from.key(index));
    if (!from.captions.empty()) out.captions.push_back(from.captions[i]);
    if (!from.encoded) out.pixels.insert(out.pixels.end(), from.image(index), from.image(index) + from.image_bytes());
  }
  return out;
}

std::vector<std::size_t> evenly_spaced(std::int64_t all, std::int64_t count) {
  std::vector<std::size_t> out(static_cast<std::size_t>(std::min(all, count)));
  const auto n = static_cast<std::int64_t>(out.size());
  for (std::int64_t i = 0; i < n; ++i)  // i all / n without a product that may overflow
    out[static_cast<std::size_t>(i)] = static_cast<std::size_t>(all / n * i + all % n * i / n);
  return out;
}

ImageSet read_joined(const std::vector<Slice>& slices, SliceRequest request,
                     const std::function<ImageSet(const SliceRequest&)>& read) {
  std::vector<Part> parts;
  const auto read_all = [&] {
    parts.clear();
    for (const Slice& slice : slices) {
      request.slice = slice;
      parts.push_back({slice, read(request)});
      request.class_names = parts.front().images.class_names;
    }
  };
  read_all();
  if (parts.size() == 1) return std::move(parts.front().images);
  if (!fit_in_memory(parts) && !request.keep_encoded) {
    request.keep_encoded = true;  // all of them from their files
    read_all();
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.slice.split < b.slice.split; });
  return join(parts, request.dataset);
}

}  // namespace normlab
