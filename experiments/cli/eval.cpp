#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "core/backend.h"
#include "experiments/cli/commands.h"
#include "experiments/data/augment.h"
#include "experiments/data/dataset.h"
#include "experiments/descriptor/fields.h"
#include "experiments/descriptor/suggest.h"
#include "experiments/sweep/runner.h"
#include "experiments/weights/convert.h"
#include "experiments/weights/convert_files.h"
#include "experiments/weights/npy.h"
#include "nn/engine.h"

namespace normlab {
namespace {

struct EvalCommand {
  std::string weights, data;
  std::optional<std::string> model, labels, logits, normalize, data_root;
  std::vector<double> mean, std;
  std::string slice = "test";
  std::int64_t batch = 64;
  bool ema = false;
  int threads = available_cores();
};

/// What is subtracted from a channel and what it is divided by, in units where the brightest pixel is 1.
struct Normalization {
  std::vector<double> mean, std;
  std::string words;
};

struct NamedNormalization {
  std::string_view word;
  std::vector<double> mean, std;
};
const std::vector<NamedNormalization>& normalizations() {
  static const std::vector<NamedNormalization> kNamed{
      {"imagenet", {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}, {"half", {0.5}, {0.5}}, {"none", {0.0}, {1.0}}};
  return kNamed;
}

/// One value stands for all channels.
std::vector<double> for_channels(std::vector<double> values, std::int64_t channels, const std::string& option) {
  if (values.size() == 1) values.resize(static_cast<std::size_t>(channels), values[0]);
  if (static_cast<std::int64_t>(values.size()) != channels)
    throw InputError(fmt::format("{}: {} values for {} channels", option, values.size(), channels));
  return values;
}

/// What the command line says; nothing where it is silent.
std::optional<Normalization> given_normalization(const EvalCommand& command, std::int64_t channels) {
  if (command.normalize && (!command.mean.empty() || !command.std.empty()))
    throw InputError("--normalize and --mean, --std say the same thing; give one of them");
  if (command.normalize) {
    for (const NamedNormalization& named : normalizations())
      if (named.word == *command.normalize)
        return Normalization{for_channels(named.mean, channels, "--normalize " + *command.normalize),
                             for_channels(named.std, channels, "--normalize " + *command.normalize),
                             *command.normalize};
  }
  if (command.mean.empty() && command.std.empty()) return std::nullopt;
  if (command.mean.empty() || command.std.empty()) throw InputError("give both --mean and --std");
  for (const double deviation : command.std)
    if (!(deviation > 0)) throw InputError("--std: every deviation must be above 0");
  return Normalization{for_channels(command.mean, channels, "--mean"), for_channels(command.std, channels, "--std"),
                       "given"};
}

/// Images and labels of whatever source.
struct EvalImages {
  std::int64_t count = 0, height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> bytes;  // one of these two
  std::vector<float> floats;
  std::vector<std::int32_t> labels;  // empty: there are none
  Normalization normalization;

  std::int64_t values() const { return height * width * channels; }
  /// Images first, first + 1, ... normalised.
  void fill(std::int64_t first, std::int64_t many, float* out) const {
    const auto c = [&](std::int64_t i) { return static_cast<std::size_t>(i % channels); };
    if (!bytes.empty()) {
      const PixelTable<float> table(normalization.mean, normalization.std);
      for (std::int64_t i = first * values(); i < (first + many) * values(); ++i)
        *out++ = table.channel(i % channels)[bytes[static_cast<std::size_t>(i)]];
      return;
    }
    for (std::int64_t i = first * values(); i < (first + many) * values(); ++i)
      *out++ = static_cast<float>((double(floats[static_cast<std::size_t>(i)]) - normalization.mean[c(i)]) /
                                  normalization.std[c(i)]);
  }
};

std::vector<std::int32_t> read_labels(const std::string& path, std::int64_t images, std::int64_t classes) {
  const HostTensor tensor = read_npy(path);
  const bool integers = tensor.dtype == "I64" || tensor.dtype == "I32" || tensor.dtype == "U8";
  if (!integers || tensor.shape.size() != 1 || tensor.shape[0] != static_cast<std::uint64_t>(images))
    throw InputError(fmt::format("{}: is {} [{}], labels of these images are integers [{}]", path, tensor.dtype,
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

EvalImages images_of_npy(const EvalCommand& command, const ModelConfig& model) {
  const HostTensor tensor = read_npy(command.data);
  const bool is_bytes = tensor.dtype == "U8";
  if ((!is_bytes && tensor.dtype != "F32" && tensor.dtype != "F16" && tensor.dtype != "F64") ||
      tensor.shape.size() != 4 || tensor.size() == 0)
    throw InputError(fmt::format("{}: is {} [{}], images are uint8 or float [N, H, W, C]", command.data, tensor.dtype,
                                 fmt::join(tensor.shape, ", ")));
  const auto extent = [&](std::size_t i) { return static_cast<std::int64_t>(tensor.shape[i]); };
  EvalImages images;
  images.count = extent(0);
  images.height = extent(1);
  images.width = extent(2);
  images.channels = extent(3);
  const auto normalization = given_normalization(command, images.channels);
  if (!normalization)
    throw InputError(
        fmt::format("{}: nothing says how its pixels were normalised in training; give --normalize "
                    "imagenet, half or none, or --mean and --std",
                    command.data));
  images.normalization = *normalization;
  if (is_bytes) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(tensor.data.data());
    images.bytes.assign(begin, begin + tensor.data.size());
  } else {
    images.floats = tensor.floats();
  }
  if (command.labels) images.labels = read_labels(*command.labels, images.count, num_classes(model));
  return images;
}

EvalImages images_of_dataset(const EvalCommand& command, const ModelConfig& model) {
  if (find_dataset(command.data) == nullptr) {
    std::vector<std::string_view> names;
    for (const KnownDataset& known : kKnownDatasets) names.push_back(known.name);
    throw InputError(
        fmt::format("--data: {}; or the path of a .npy of images", unknown_word("data set", command.data, names)));
  }
  if (command.labels) throw InputError("--labels: a data set has its own; they go with a .npy");
  DatasetConfig config;
  config.name = command.data;
  config.eval = command.slice;
  std::optional<std::filesystem::path> root;
  if (command.data_root) root = *command.data_root;
  DataPair data = load_dataset(config, root, command.threads, DataUse::evaluation);
  if (data.eval.encoded)
    throw InputError(
        fmt::format("{}: its images have sizes of their own; only a set of one size is evaluated here", command.data));
  if (data.eval.num_classes != num_classes(model))
    throw InputError(
        fmt::format("{} has {} classes, this model has {}", command.data, data.eval.num_classes, num_classes(model)));
  EvalImages images{data.eval.size(),
                    data.eval.height,
                    data.eval.width,
                    data.eval.channels,
                    std::move(data.eval.pixels),
                    {},
                    std::move(data.eval.labels),
                    {}};
  const auto normalization = given_normalization(command, images.channels);
  images.normalization = normalization ? *normalization
                                       : Normalization{data.train.channel_mean, data.train.channel_std,
                                                       "those of the training images, as in a training"};
  return images;
}

int evaluate(const EvalCommand& command) {
  WeightFile file = read_weight_file(command.weights);
  if (command.ema) take_average(file, command.weights);
  if (stated_names(file, std::nullopt) != NameScheme::normlab)
    throw InputError(
        fmt::format("{}: has the names of another program; `normlab convert` gives it ours first", command.weights));
  const ModelConfig model = stated_model(file, command.model, false);
  const bool npy = command.data.ends_with(".npy");
  const EvalImages images = npy ? images_of_npy(command, model) : images_of_dataset(command, model);
  if (images.height != image_size(model)[0] || images.width != image_size(model)[1] ||
      images.channels != channels(model))
    throw InputError(
        fmt::format("{}: images are [{}, {}, {}], this model takes [{}, {}, {}]; resize the images, or "
                    "convert the weights for another image_size",
                    command.data, images.height, images.width, images.channels, image_size(model)[0],
                    image_size(model)[1], channels(model)));
  if (images.labels.empty() && !command.logits)
    throw InputError("there are no labels and nothing is to be written; give --labels or --logits");

  ShardPool pool(command.threads);
  Engine engine(cpu_backend(), pool, model, {});
  ConversionReport report;
  import_weights(file.tensors, NameScheme::normlab, model, {}, engine.parameters(), report);
  fmt::print(stderr, "{} images, pixels {}, mean {:.4f}, std {:.4f} ({})\n", images.count,
             images.bytes.empty() ? "as they are" : "divided by 255", fmt::join(images.normalization.mean, " "),
             fmt::join(images.normalization.std, " "), images.normalization.words);

  const auto classes = static_cast<std::size_t>(num_classes(model));
  const auto batch = static_cast<std::size_t>(command.batch);
  std::vector<float> pixels(batch * static_cast<std::size_t>(images.values())), all_logits;
  std::vector<double> losses(batch), logits(batch * classes);
  std::vector<std::int32_t> labels(batch), predictions(batch);
  std::int64_t right = 0;
  double loss = 0.0;
  for (std::int64_t first = 0; first < images.count; first += command.batch) {
    const std::int64_t count = std::min(command.batch, images.count - first);
    images.fill(first, count, pixels.data());
    if (!images.labels.empty()) std::copy_n(images.labels.begin() + first, count, labels.begin());
    engine.evaluate(Tensor(pixels.data(), {count, images.height, images.width, images.channels}, DType::f32),
                    Tensor(labels.data(), {count}, DType::i32), losses, predictions, logits);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      right += predictions[i] == labels[i];
      loss += losses[i];
    }
    if (command.logits)
      for (std::size_t i = 0; i < static_cast<std::size_t>(count) * classes; ++i)
        all_logits.push_back(static_cast<float>(logits[i]));
  }
  if (!images.labels.empty())
    fmt::print("accuracy {:.2f}% ({} of {}), loss {:.6g}\n", 100.0 * double(right) / double(images.count), right,
               images.count, loss / double(images.count));
  if (command.logits)
    write_npy(*command.logits,
              host_tensor<float>("logits", {static_cast<std::uint64_t>(images.count), classes}, std::move(all_logits)));
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  auto options = std::make_shared<EvalCommand>();
  CLI::App& command = *app.add_subcommand("eval", "run a network on images: accuracy, loss, logits");
  command.add_option("--weights", options->weights, "a checkpoint, or what `normlab convert` wrote")->required();
  command.add_flag("--ema", options->ema, "of a checkpoint: its averaged weights");
  command.add_option("--model", options->model,
                     "the network as JSON, a file or the text itself; compared with what the weights say");
  command.add_option("--data", options->data, "a data set's name, or a .npy of images, uint8 or float [N, H, W, C]")
      ->required();
  command.add_option("--slice", options->slice, "of a data set: \"test[:1000]\"")->capture_default_str();
  command.add_option("--data-root", options->data_root, "folder of the data sets; else NORMLAB_DATA, else ./data");
  command.add_option("--labels", options->labels, "of a .npy: a .npy of integers [N]");
  command.add_option("--logits", options->logits, "write them here: .npy, float32 [N, classes]");
  command.add_option("--batch", options->batch, "images at a time")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--normalize", options->normalize,
                  "imagenet: mean .485 .456 .406, std .229 .224 .225; half: .5 and .5; none. A data set's default: "
                  "its training images'")
      ->check(CLI::IsMember({"imagenet", "half", "none"}));
  command.add_option("--mean", options->mean, "of each channel, where the brightest pixel is 1")->delimiter(',');
  command.add_option("--std", options->std, "of each channel")->delimiter(',');
  command.add_option("--threads", options->threads, "cores to use")->check(CLI::Range(1, 1024))->capture_default_str();
  command.callback([options, &action] { action = [options] { return evaluate(*options); }; });
}

}  // namespace normlab
