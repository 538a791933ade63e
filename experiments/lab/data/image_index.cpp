#include "experiments/lab/data/image_index.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/parallel.h"
#include "experiments/lab/data/decode.h"
#include "experiments/lab/data/indexed_images.h"
#include "experiments/lab/data/jpeg.h"
#include "experiments/lab/data/png.h"

namespace normlab {
namespace {

constexpr std::int64_t kImagesAtOnce = 64;  // images that a thread takes at a time

struct IndexWorker {
  std::vector<std::uint8_t> bytes;
  Image image;
};

std::string size_text(ImageSize size) { return concat(size.width, "x", size.height); }

class Loader {
 public:
  Loader(std::shared_ptr<IndexedImages> files, const SliceRequest& request)
      : files_(std::move(files)),
        request_(request),
        count_(static_cast<std::int64_t>(files_->index().entries.size())),
        workers_(static_cast<std::size_t>(std::max(request.threads, 1))),
        reasons_(static_cast<std::size_t>(count_)) {}

  void load(ImageSet& images) {
    const std::optional<ImageSize> size = request_.keep_encoded ? std::nullopt : one_size();
    if (size) {
      images.height = size->height;
      images.width = size->width;
      images.pixels.resize(static_cast<std::size_t>(count_ * images.image_bytes()));
    }
    if (size || request_.skip_bad) decode_all(images, size);
  }

  bool bad(std::int64_t i) const { return reasons_[static_cast<std::size_t>(i)].has_value(); }
  const std::string& reason(std::int64_t i) const { return *reasons_[static_cast<std::size_t>(i)]; }
  const std::string& sizes() const { return sizes_; }

 private:
  ImageSize header(IndexWorker& worker, std::int64_t i) {
    files_->read(i, worker.bytes);
    return image_file_size(worker.bytes, files_->where(i));
  }

  /// nullopt unless all images have one size and fit in memory. Stops at the first different
  /// size, soon for photographs.
  std::optional<ImageSize> one_size() {
    std::int64_t first = 0;
    std::optional<ImageSize> size;
    for (; first < count_ && !size; ++first) {
      try {
        size = header(workers_[0], first);
      } catch (const InputError&) {
        if (!request_.skip_bad) throw;
      }
    }
    if (!size) return std::nullopt;
    const std::int64_t bytes = size->height * size->width * Image::kChannels;
    if (bytes > kMostBytesInMemory / count_) {
      sizes_ = concat(count_, " images of ", size_text(*size), " pixels pass ", kMostBytesInMemory >> 30,
                      " GiB once decoded");
      return std::nullopt;
    }
    // The first image of another size and the first bad one, whichever threads find them.
    std::atomic<std::int64_t> other{count_}, failed{count_};
    const auto lower = [](std::atomic<std::int64_t>& least, std::int64_t i) {
      for (std::int64_t now = least; i < now && !least.compare_exchange_weak(now, i);) {
      }
    };
    parallel_items(count_ - first, kImagesAtOnce, request_.threads, [&](std::size_t w, std::int64_t item) {
      const std::int64_t i = first + item;
      if (i > other || i > failed) return;
      try {
        if (header(workers_[w], i) != *size) lower(other, i);
      } catch (const InputError&) {
        if (!request_.skip_bad) lower(failed, i);
      }
    });
    // Throws for the bad image. If all images are decoded now, decoding reports the first bad one.
    if (failed < other && other < count_) header(workers_[0], failed);
    if (other == count_) return size;
    sizes_ = concat("images differ in size: ", files_->where(other), " is ", size_text(header(workers_[0], other)),
                    " pixels, ", files_->where(first - 1), " is ", size_text(*size));
    return std::nullopt;
  }

  void decode_all(ImageSet& images, std::optional<ImageSize> size) {
    parallel_items(count_, kImagesAtOnce, request_.threads, [&](std::size_t w, std::int64_t i) {
      IndexWorker& worker = workers_[w];
      try {
        files_->read(i, worker.bytes);
        decode_image(worker.bytes, files_->where(i), worker.image);
      } catch (const InputError& error) {
        if (!request_.skip_bad) throw;
        reasons_[static_cast<std::size_t>(i)] = error.what();
        return;
      }
      if (size)
        std::copy(worker.image.pixels.begin(), worker.image.pixels.end(),
                  images.pixels.begin() + i * images.image_bytes());
    });
  }

  std::shared_ptr<IndexedImages> files_;
  const SliceRequest& request_;
  std::int64_t count_;
  std::vector<IndexWorker> workers_;
  std::vector<std::optional<std::string>> reasons_;
  std::string sizes_;
};

void sort_entries(ImageIndex& index) {
  const auto by_key = [](const ImageEntry& a, const ImageEntry& b) { return a.key < b.key; };
  std::sort(index.entries.begin(), index.entries.end(), by_key);
  for (std::size_t i = 1; i < index.entries.size(); ++i) {
    if (index.entries[i].key == index.entries[i - 1].key)
      throw InputError(concat(index.folder.string(), ": two images have the key ", in_quotes(index.entries[i].key)));
  }
}

void take_slice(ImageIndex& index, const SliceRequest& request) {
  std::vector<std::int32_t> labels;
  labels.reserve(index.entries.size());
  for (const ImageEntry& entry : index.entries) labels.push_back(entry.label);
  std::vector<ImageEntry> taken;
  for (const std::int64_t i :
       select_images(request.slice, request.subset, request.dataset, labels, index.class_names)) {
    taken.push_back(std::move(index.entries[static_cast<std::size_t>(i)]));
  }
  index.entries = std::move(taken);
}

void drop_bad(const Loader& loader, IndexedImages& files, ImageSet& images) {
  const std::int64_t count = static_cast<std::int64_t>(files.index().entries.size()), bytes = images.image_bytes();
  std::vector<bool> good(static_cast<std::size_t>(count));
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (loader.bad(i)) {
      images.bad_images.push_back({files.index().entries[static_cast<std::size_t>(i)].key, loader.reason(i)});
      continue;
    }
    good[static_cast<std::size_t>(i)] = true;
    if (!images.pixels.empty() && kept != i)
      std::copy_n(images.pixels.begin() + i * bytes, bytes, images.pixels.begin() + kept * bytes);
    ++kept;
  }
  if (kept == 0) throw InputError(concat(images.bad_images[0].reason, "; all ", count, " images of the slice are bad"));
  if (!images.pixels.empty()) images.pixels.resize(static_cast<std::size_t>(kept * bytes));
  files.keep(good);
}

/// Reads the first bytes of each file.
std::vector<std::int64_t> find_gray16(const IndexedImages& files, int threads) {
  std::vector<std::uint8_t> found(files.index().entries.size());
  parallel_items(std::ssize(found), kImagesAtOnce, threads, [&](std::size_t, std::int64_t i) {
    found[static_cast<std::size_t>(i)] = is_gray16_png(files.head(i, kPngHead));
  });
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] != 0) out.push_back(static_cast<std::int64_t>(i));
  return out;
}

/// Reads the headers of all files.
JpegFiles find_jpegs(const IndexedImages& files, int threads) {
  constexpr std::size_t kJpegHead = 1024;  // enough unless there are comments, a profile or the like
  std::vector<std::optional<int>> qualities(files.index().entries.size());
  parallel_items(std::ssize(qualities), kImagesAtOnce, threads, [&](std::size_t, std::int64_t i) {
    std::vector<std::uint8_t> head = files.head(i, kJpegHead);
    if (!is_jpeg(head)) return;
    std::optional<int> quality = jpeg_quality(head);
    if (!quality) quality = jpeg_quality(head = files.head(i, static_cast<std::size_t>(files.bytes(i))));
    qualities[static_cast<std::size_t>(i)] = quality.value_or(0);
  });
  JpegFiles jpegs;
  for (const std::optional<int>& quality : qualities)
    if (quality) jpegs.add(*quality);
  return jpegs;
}

void list_shards(const ImageIndex& index, ImageSet& images) {
  if (index.archives.empty()) return;
  images.shards.resize(index.archives.size());
  for (std::size_t i = 0; i < index.entries.size(); ++i)
    images.shards[static_cast<std::size_t>(index.entries[i].archive)].push_back(static_cast<std::int64_t>(i));
  const auto offset = [&](std::int64_t i) { return index.entries[static_cast<std::size_t>(i)].offset; };
  for (auto& shard : images.shards)
    std::sort(shard.begin(), shard.end(), [&](std::int64_t a, std::int64_t b) { return offset(a) < offset(b); });
  std::erase_if(images.shards, [](const auto& shard) { return shard.empty(); });
}

/// Masks in files.
class FileMasks final : public Masks {
 public:
  FileMasks(ImageIndex index, MaskLabels numbering, std::int64_t classes, int threads)
      : files_(std::move(index), threads), numbering_(numbering), classes_(classes) {}
  void read(std::int64_t i, Mask& out, std::vector<std::uint8_t>& bytes) const override {
    files_.read(i, bytes);
    decode_mask_png(bytes, files_.where(i), out);
    number_labels(out, numbering_, classes_, files_.where(i));
  }
  std::string where(std::int64_t i) const override { return files_.where(i); }
  std::int64_t bytes(std::int64_t i) const { return files_.bytes(i); }

 private:
  IndexedImages files_;
  MaskLabels numbering_;
  std::int64_t classes_;
};

/// Those of the images that `files` keeps.
std::shared_ptr<const FileMasks> masks_of(const ImageIndex& images, const SliceRequest& request) {
  const auto& folder = images.archives.empty() ? images.mask_folder : images.folder;
  ImageIndex index{images.kind, folder, images.archives, images.class_names, {}};
  for (const ImageEntry& entry : images.entries) index.entries.push_back(*entry.mask);
  return std::make_shared<FileMasks>(std::move(index), request.masks, std::ssize(images.class_names), request.threads);
}

/// Decodes the masks of images that all have the size `size`.
std::shared_ptr<const StoredMasks> stored(const FileMasks& files, std::int64_t count, ImageSize size, int threads) {
  const std::int64_t each = size.height * size.width;
  std::vector<std::uint8_t> labels(static_cast<std::size_t>(count * each));
  std::vector<std::pair<Mask, std::vector<std::uint8_t>>> workers(static_cast<std::size_t>(std::max(threads, 1)));
  parallel_items(count, kImagesAtOnce, threads, [&](std::size_t w, std::int64_t i) {
    auto& [mask, bytes] = workers[w];
    files.read(i, mask, bytes);
    require_same_size(mask, size, files.where(i));
    std::copy(mask.labels.begin(), mask.labels.end(), labels.begin() + i * each);
  });
  return std::make_shared<StoredMasks>(size.height, size.width, std::move(labels));
}

template <class PerImage>
std::string hash_encoded(const ImageSet& images, PerImage&& per_image) {
  SetHash hash;
  hash.text("encoded");  // no pixels follow
  hash.set(images, {images.size(), images.channels, images.num_classes}, [&](std::int64_t i) { per_image(hash, i); });
  return hash.hex();
}

}  // namespace

ImageSet load_images(ImageIndex index, const SliceRequest& request) {
  sort_entries(index);
  const std::size_t all = index.entries.size();
  take_slice(index, request);
  ImageSet images;
  images.channels = Image::kChannels;
  images.class_names = index.class_names;
  images.num_classes = static_cast<std::int64_t>(images.class_names.size());

  const auto files = std::make_shared<IndexedImages>(std::move(index), request.threads);
  Loader loader(files, request);
  loader.load(images);
  if (request.skip_bad) drop_bad(loader, *files, images);

  const ImageIndex& found = files->index();
  for (const ImageEntry& entry : found.entries) {
    images.keys.push_back(entry.key);
    images.labels.push_back(entry.label);
    if (request.captions) images.captions.push_back(entry.caption);
  }
  list_shards(found, images);
  if (!request.keep_encoded) images.gray16 = find_gray16(*files, request.threads);
  if (is_lossless(request.dataset)) images.jpegs = find_jpegs(*files, request.threads);
  const auto masks = request.masks == MaskLabels::none ? nullptr : masks_of(found, request);
  images.masks = masks;
  if (masks && !images.pixels.empty())
    images.masks = stored(*masks, images.size(), {images.height, images.width}, request.threads);
  if (images.pixels.empty()) {
    if (!request.keep_encoded && !request.skip_bad) {
      for (std::int64_t i = 0; i < images.size(); ++i) {
        std::vector<std::uint8_t> none;
        if (files->bytes(i) < 0) files->read(i, none);  // throws the reason
      }
    }
    images.encoded = files;
    images.hash = hash_encoded(images, [&](SetHash& hash, std::int64_t i) {
      hash.number(files->bytes(i));
      if (masks) hash.number(masks->bytes(i));
    });
    if (!images.gray16
             .empty()) {  // sizes in bytes do not tell how they are decoded, which older programs did otherwise
      SetHash hash;
      hash.text(images.hash);
      hash.text("the upper byte of 16-bit grayscale");
      images.hash = hash.hex();
    }
  }
  images.provenance =
      concat(found.kind, ", ", found.folder.string(), ", ", request.slice.text, ": ", images.size(), " of ", all,
             " images", found.archives.empty() ? "" : concat(" from ", found.archives.size(), " shards"),
             images.bad_images.empty() ? "" : concat(", ", images.bad_images.size(), " bad ones left out"),
             images.gray16.empty() ? "" : concat(", ", images.gray16.size(), " of 16-bit grayscale (upper byte)"),
             loader.sizes().empty() ? "" : concat(", ", loader.sizes()), ", ", decoder_versions());
  return images;
}

std::string encoded_content_hash(const ImageSet& images) {
  std::vector<std::uint8_t> bytes;
  return hash_encoded(images, [&](SetHash& hash, std::int64_t i) {
    images.encoded->read(i, bytes);
    hash.number(static_cast<std::int64_t>(bytes.size()));
    hash.bytes(bytes);
  });
}

}  // namespace normlab
