#include "experiments/lab/train/eval_images.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "core/nonfinite.h"
#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/data/augment.h"
#include "experiments/lab/data/class_order.h"
#include "experiments/lab/data/data_source.h"
#include "experiments/lab/data/dataset_place.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/weights/npy.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

struct NamedNormalization {
  std::string_view word;
  std::vector<double> mean, std;
};
const std::vector<NamedNormalization>& normalizations() {
  static const std::vector<NamedNormalization> kNamed{
      {"imagenet", {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}, {"half", {0.5}, {0.5}}, {"none", {0.0}, {1.0}}};
  return kNamed;
}

/// A single value applies to all channels.
std::vector<double> for_channels(std::vector<double> values, std::int64_t channels, const std::string& option) {
  if (values.size() == 1) values.resize(static_cast<std::size_t>(channels), values[0]);
  if (static_cast<std::int64_t>(values.size()) != channels)
    throw InputError(fmt::format("{}: {} values for {} channels", option, values.size(), channels));
  return values;
}

void require_unit(const char* option, std::span<const double> values, bool of_bytes, bool positive) {
  for (const double value : values) {
    if (!std::isfinite(value) || (positive && value <= 0))
      throw InputError(fmt::format("{}: must be {}, got {}", option, positive ? "above 0" : "a finite number", value));
    if (of_bytes && (value < 0 || value > 1))
      throw InputError(
          fmt::format("{}: must be from 0 to 1, got {}; a pixel of 255 is 1 here: divide by 255", option, value));
  }
}

/// Normalisation from the command line, else from the training; nullopt if neither gives one. `of_bytes`: the images'
/// brightest pixel is 1.
std::optional<Normalization> stated_normalization(const EvalSource& source, std::int64_t channels, bool of_bytes,
                                                  const std::optional<TrainedOn>& trained) {
  if (source.normalize && (!source.mean.empty() || !source.std.empty()))
    throw InputError("give --normalize, or --mean and --std, but not both");
  if (source.normalize) {
    for (const NamedNormalization& named : normalizations())
      if (named.word == *source.normalize)
        return Normalization{for_channels(named.mean, channels, "--normalize " + *source.normalize),
                             for_channels(named.std, channels, "--normalize " + *source.normalize), *source.normalize};
  }
  if (source.mean.empty() && source.std.empty()) {
    if (trained) return Normalization{trained->mean, trained->std, "those of the training"};
    return std::nullopt;
  }
  if (source.mean.empty() || source.std.empty()) throw InputError("give both --mean and --std");
  require_unit("--mean", source.mean, of_bytes, false);
  require_unit("--std", source.std, of_bytes, true);
  return Normalization{for_channels(source.mean, channels, "--mean"), for_channels(source.std, channels, "--std"),
                       "given"};
}

Normalization required_normalization(const EvalSource& source, std::int64_t channels, bool of_bytes,
                                     const std::optional<TrainedOn>& trained, const char* measured = "") {
  if (auto stated = stated_normalization(source, channels, of_bytes, trained)) return *stated;
  throw InputError(
      fmt::format("{}: the normalisation of the training is unknown; give --normalize imagenet, half or none, or "
                  "--mean and --std{}",
                  source.data, measured));
}

std::vector<std::int32_t> read_labels(const std::string& path, std::int64_t images, std::int64_t classes) {
  const HostTensor tensor = read_npy(path);
  const bool integers = tensor.dtype == "I64" || tensor.dtype == "I32" || tensor.dtype == "U8";
  if (!integers || tensor.shape.size() != 1 || tensor.shape[0] != static_cast<std::uint64_t>(images))
    throw InputError(fmt::format("{}: is {} [{}]; labels of these images must be integers [{}]", path, tensor.dtype,
                                 fmt::join(tensor.shape, ", "), images));
  std::vector<std::int32_t> labels;
  for (const double label : tensor.doubles()) {
    if (label < 0 || label >= double(classes))
      throw InputError(fmt::format("{}: label {} of image {} is outside the {} classes of this model", path, label,
                                   labels.size(), classes));
    labels.push_back(static_cast<std::int32_t>(label));
  }
  return labels;
}

/// Weights whose classes have no names, or other ones, fit the classes here by number alone.
void tell_order(const DataSource::Opened& opened, const std::vector<std::string>& names) {
  const bool in_files = opened.place.layout != DatasetLayout::known && traits_of(opened.place.layout).ordered,
             in_shards = opened.place.layout == DatasetLayout::webdataset;
  const std::vector<std::string> natural = in_natural_order(names);
  if ((!in_files && !in_shards) || !opened.config.class_order.empty() || natural == names ||
      in_bytes_order(names) != names)
    return;
  tell(
      "note: labels count the classes in the order of their names' bytes ({}), as in torchvision; timm counts them in "
      "natural order ({}). {}\n",
      beginning_of(names, natural), beginning_of(natural, names),
      in_files ? "If the weights do so, too, give --class-order natural; --class-order bytes leaves out this note"
               : "If the weights do so, too, pack the folders again with --class-order natural");
}

std::vector<std::string> numbers_to(std::size_t count) {
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

/// The folder that --data names, as DataSource finds it; none for a file, or what is not there.
std::optional<fs::path> folder_of(const EvalSource& source) {
  const fs::path folder = source.root ? fs::path(*source.root) / source.data
                                      : fs::absolute(fs::path(source.data) / "").lexically_normal().parent_path();
  return is_folder(folder) ? std::optional(folder) : std::nullopt;
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) out += concat(i == 0 ? "" : ", ", in_quotes(names[i]));
  return names.size() > kShown ? concat(out, " and ", names.size() - kShown, " more") : out;
}

/// Whether the folders in `folder` are classes.
bool are_classes(const fs::path& folder, const std::vector<std::string>& names, std::int64_t classes,
                 const std::optional<TrainedOn>& trained) {
  if (!trained) return std::ssize(names) == classes;
  std::vector<std::string> others;
  for (const std::string& name : names)
    if (std::find(trained->class_names.begin(), trained->class_names.end(), name) == trained->class_names.end())
      others.push_back(name);
  if (others.empty() || others.size() == names.size()) return others.empty();
  throw InputError(concat(folder.string(), ": some of its folders are classes of the training, others are not: ",
                          list_of(others), "; rename these, or give --layout image_folder to compare all names"));
}

/// What a folder holds whose layout is not given. plain: images without classes. Otherwise how they are laid out, if that is not known already, and the slice to
/// evaluate, if the command line names none.
struct FolderKind {
  bool plain = false;
  std::filesystem::path path;
  std::optional<DatasetLayout> layout{};
  std::string slice;
};

/// A folder has classes if it has splits (train, val, test, ...), or the layout of a known kind of data set, or if its
/// folders are classes of the training; without a record of the training, if it has as many folders as the network has
/// classes. Images in the folder itself, and nested ones in other folders, have none. Not of data sets known by name,
/// nor with --layout or --labels. InputError for a folder without images, and for one in which only some folders are
/// classes of the training.
FolderKind folder_kind(const EvalSource& source, std::int64_t classes, const std::optional<TrainedOn>& trained) {
  FolderKind kind;
  if (source.data.empty() || source.layout != DatasetLayout::known || source.labels || find_dataset(source.data))
    return kind;
  const std::optional<fs::path> folder = folder_of(source);
  if (!folder) return kind;
  kind.path = *folder;
  const FolderContent content = folder_content(*folder);
  if (std::any_of(content.files.begin(), content.files.end(), has_image_extension)) {
    kind.plain = true;
    return kind;
  }
  const auto [layout, labels] = recognised_layout(*folder);
  if (layout == DatasetLayout::image_list)
    throw InputError(
        concat(folder->string(), ": images and a file of labels; give --layout image_list --labels ", labels));
  const DatasetPlace place{layout, *folder};
  const std::vector<std::string> splits = dataset_splits(place);
  const bool divided = layout != DatasetLayout::image_folder || is_folder(*folder / splits.front());
  if (!divided && !are_classes(*folder, content.folders, classes, trained)) {
    kind.plain = true;
    return kind;
  }
  kind.layout = layout;
  if (!source.slice_given)
    kind.slice = std::find(splits.begin(), splits.end(), source.slice) == splits.end() ? splits.back() : source.slice;
  return kind;
}

ImageSize size_of_model(const ModelConfig& model) { return {image_size(model)[0], image_size(model)[1]}; }

}  // namespace

EvalImages::EvalImages(const EvalSource& source, const ModelConfig& model, const std::optional<TrainedOn>& trained)
    : source_(source.data.empty() ? trained->config.dataset.name : source.data),
      resizes_(source.transform.crop != EvalCrop::none),
      transform_(source.transform, size_of_model(model)) {
  const FolderKind folder = folder_kind(source, num_classes(model), trained);
  EvalSource as_found = source;
  if (folder.layout) as_found.layout = *folder.layout;
  if (!folder.slice.empty()) as_found.slice = folder.slice;
  if (source.data.ends_with(".npy"))
    read_npy_images(source, model, trained);
  else if (folder.plain)
    read_plain_folder(folder.path, source, model, trained);
  else
    read_dataset_images(as_found, model, trained);
  if (set_.encoded && !resizes_)
    throw InputError(fmt::format(
        "{}: its images differ in size; resize them to the model's with --crop center or --crop stretch", source_));
  const auto classes = static_cast<std::size_t>(num_classes(model));
  if (!plain_folder_) labels_ = set_.labels;
  if (!labels_.empty() && set_.class_names.size() == classes)
    class_names_ = set_.class_names;
  else if (trained && trained->class_names.size() == classes)
    class_names_ = trained->class_names;
  else
    class_names_ = numbers_to(classes);
  const auto [height, width] = size_of_model(model);
  const bool other_size = !set_.encoded && !resizes_ && (set_.height != height || set_.width != width);
  if (other_size || set_.channels != channels(model))
    throw InputError(
        fmt::format("{}: images are [{}, {}, {}], but this model takes [{}, {}, {}]; resize them with --crop, or "
                    "convert the weights for another image_size",
                    source_, set_.height, set_.width, set_.channels, height, width, channels(model)));
}

void EvalImages::read_npy_images(const EvalSource& source, const ModelConfig& model,
                                 const std::optional<TrainedOn>& trained) {
  const HostTensor tensor = read_npy(source.data);
  const bool is_bytes = tensor.dtype == "U8";
  if ((!is_bytes && tensor.dtype != "F32" && tensor.dtype != "F16" && tensor.dtype != "F64") ||
      tensor.shape.size() != 4 || tensor.size() == 0)
    throw InputError(fmt::format("{}: is {} [{}]; images must be uint8 or float [N, H, W, C]", source.data,
                                 tensor.dtype, fmt::join(tensor.shape, ", ")));
  const auto extent = [&](std::size_t i) { return static_cast<std::int64_t>(tensor.shape[i]); };
  if (source.layout != DatasetLayout::known)
    throw InputError("--layout: applies to folders, not to a .npy; leave it out");
  if (resizes_ && (!is_bytes || extent(3) != Image::kChannels))
    throw InputError(fmt::format("--crop: {} is {} with {} channels; only uint8 images in RGB can be resized",
                                 source.data, tensor.dtype, extent(3)));
  if (source.labels_from || !source.class_order.empty())
    throw InputError(
        "--labels-from and --class-order: apply to folders; the labels of a .npy are the network's, from 0");
  count_ = extent(0);
  set_.height = extent(1);
  set_.width = extent(2);
  set_.channels = extent(3);
  normalization_ = required_normalization(source, set_.channels, is_bytes, trained);
  if (is_bytes) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(tensor.data.data());
    set_.pixels.assign(begin, begin + tensor.data.size());
  } else {
    try {
      floats_ = tensor.floats();
    } catch (const InputError& error) {
      throw InputError(concat(source.data, ": ", error.what()));
    }
  }
  if (source.labels) set_.labels = read_labels(*source.labels, count_, num_classes(model));
}

void EvalImages::read_dataset_images(const EvalSource& source, const ModelConfig& model,
                                     const std::optional<TrainedOn>& trained) {
  DataSource from;
  from.dataset = source.data;
  from.layout = source.layout;
  from.labels = source.labels.value_or("");
  from.labels_from = source.labels_from;
  from.class_order = source.class_order;
  from.root = source.root;
  from.slices = {source.slice};
  from.threads = source.threads;
  if (source.labels && !traits_of(source.layout).files)
    throw InputError("--labels: this data set has its own labels; the option is for a .npy or --layout image_list");
  const DatasetConfig* const trained_on = source.data.empty() ? &trained->config.dataset : nullptr;
  if (trained_on != nullptr)
    from.shards =
        first_split(source.slice) == first_split(trained_on->eval) ? trained_on->eval_shards : trained_on->train_shards;
  DataSource::Opened opened = trained_on != nullptr ? from.open(*trained_on) : from.open();
  if (trained && trained->config.dataset.name == opened.config.name) {  // its slices are cut as in the training
    opened.config.stratified = trained->config.dataset.stratified;
    opened.config.slice_seed = trained->config.dataset.slice_seed;
  }
  std::vector<std::string> class_names;
  if (trained) {
    class_names = classes_beside(opened.config, opened.place, source.slice);
    if (!source.other_class_names) require_same_classes(*trained, class_names, source_);
  }
  const auto normalization = stated_normalization(source, channels(model), true, trained);
  if (normalization) {
    normalization_ = *normalization;
  } else {
    ImageSet train = from.read(opened, dataset_splits(opened.place).front(), {}, false, false);
    if (train.encoded)
      required_normalization(source, channels(model), true, trained, " (`normlab data info` measures them)");
    finish_image_set(train);
    normalization_ = {train.channel_mean, train.channel_std, "those of its training images"};
    class_names = std::move(train.class_names);
  }
  const bool skip_bad = trained_on != nullptr && trained_on->on_bad_image == OnBadImage::skip;
  set_ = from.read(opened, source.slice, class_names, skip_bad, false);
  if (set_.num_classes != num_classes(model))
    throw InputError(
        fmt::format("{}: has {} classes, but this model has {}", source_, set_.num_classes, num_classes(model)));
  count_ = set_.size();
  known_copy_ = jpeg_copy(opened.config.name, set_);
  if (!trained || source.other_class_names) tell_order(opened, set_.class_names);
}

void EvalImages::read_plain_folder(const std::filesystem::path& folder, const EvalSource& source,
                                   const ModelConfig& model, const std::optional<TrainedOn>& trained) {
  if (source.slice_given)
    throw InputError(fmt::format(
        "--slice: {} holds images without classes, and all of them are evaluated; leave it out", source.data));
  plain_folder_ = true;
  normalization_ = required_normalization(source, channels(model), true, trained);
  StrayFiles others;
  std::vector<std::string> images = find_images(folder, others);
  other_files_ = others.text();
  if (images.empty())
    throw InputError(
        concat(folder.string(), ": holds no image (.jpg, .jpeg or .png), neither itself nor in its folders"));
  ImageIndex index{"folder", folder, {}, numbers_to(static_cast<std::size_t>(num_classes(model))), {}, {}};
  for (std::string& image : images) {
    ImageEntry& entry = index.entries.emplace_back();
    entry.key = std::move(image);
    entry.label = 0;  // not shown: labels() is empty
  }
  SliceRequest request;
  request.slice = parse_slice("test");
  request.dataset = source.data;
  request.skip_bad = true;
  request.threads = source.threads;
  set_ = load_images(std::move(index), request);
  count_ = set_.size();
}

std::string EvalImages::name(std::int64_t image) const { return concat(source_, ": ", numbered_image(set_, image)); }

void EvalImages::fill(std::int64_t first, std::int64_t many, ShardPool& pool, float* out) const {
  const std::int64_t c = set_.channels, stored = set_.height * set_.width * c;
  if (!floats_.empty()) {
    for (std::int64_t i = first * stored; i < (first + many) * stored; ++i) {
      const auto channel = static_cast<std::size_t>(i % c);
      *out = static_cast<float>((double(floats_[static_cast<std::size_t>(i)]) - normalization_.mean[channel]) /
                                normalization_.std[channel]);
      if (!std::isfinite(*out))
        throw NonFiniteError(
            fmt::format("{}: its value at height {}, width {}, channel {} is {} after normalisation", name(i / stored),
                        i % stored / (set_.width * c), i / c % set_.width, channel, nonfinite_word(double(*out))),
            double(*out));
      ++out;
    }
    return;
  }
  const PixelTable<float> table(normalization_.mean, normalization_.std);
  if (!resizes_) {
    for (std::int64_t i = 0; i < many; ++i) make_image(set_, first + i, table, out + i * stored);
    return;
  }
  const ImageSize size = transform_.size();
  constexpr std::int64_t kImages = 4;  // per block: decoding an image takes a millisecond
  pool.for_blocks((many + kImages - 1) / kImages, [&](std::int64_t block) {
    const ScratchPool::Lease lease(scratch_);
    TransformScratch& scratch = *lease;
    for (std::int64_t i = block * kImages; i < std::min(many, (block + 1) * kImages); ++i) {
      transform_.make(set_, first + i, scratch.sized, scratch.images);
      normalise_image(scratch.sized, c, table, out + i * size.height * size.width * c);
    }
  });
}

}  // namespace normlab
