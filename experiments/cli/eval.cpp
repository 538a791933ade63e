#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "experiments/base/terminal.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/device_option.h"
#include "experiments/cli/eval_images.h"
#include "experiments/sweep/runner.h"
#include "experiments/weights/convert.h"
#include "experiments/weights/convert_files.h"
#include "experiments/weights/npy.h"
#include "nn/engine.h"
#include "nn/nonfinite.h"

namespace normlab {
namespace {

struct EvalCommand {
  std::string weights;
  std::optional<std::string> model, logits;
  EvalSource source;
  std::string crop = "none", resize = "bilinear", rounding = "torchvision";
  std::int64_t batch = 64;
  bool ema = false;
  DeviceKind device = DeviceKind::cpu;
};

/// The value of an enum that has this word; CLI11 has seen to it that there is one.
template <class E>
E value_of(const std::string& word) {
  E value{};
  find_word(word, value);
  return value;
}
template <class E>
std::vector<std::string> all_words() {
  return {std::begin(kWords<E>), std::end(kWords<E>)};
}

int evaluate(const EvalCommand& command) {
  const ComputeDevice device(command.device);
  WeightFile file = read_weight_file(command.weights);
  if (command.ema) take_average(file, command.weights);
  if (stated_names(file, std::nullopt) != NameScheme::normlab)
    throw InputError(
        fmt::format("{}: has the names of another program; `normlab convert` gives it ours first", command.weights));
  const ModelConfig model = stated_model(file, command.model, false);
  EvalSource source = command.source;
  source.transform.crop = value_of<EvalCrop>(command.crop);
  source.transform.resize = value_of<ResizeMethod>(command.resize);
  source.transform.rounding = value_of<ResizeRounding>(command.rounding);
  const EvalImages images(source, model);
  const bool labelled = !images.labels().empty();
  if (!labelled && !command.logits)
    throw InputError("there are no labels and nothing is to be written; give --labels or --logits");

  ShardPool pool(source.threads);
  Engine engine(device.backend(), pool, model, {});
  ConversionReport report;
  import_weights(file.tensors, NameScheme::normlab, model, {}, engine.parameters(), report);
  const Normalization& normalization = images.normalization();
  tell("{} images, pixels {}, mean {:.4f}, std {:.4f} ({})\n", images.count(),
       images.are_bytes() ? "divided by 255" : "as they are", fmt::join(normalization.mean, " "),
       fmt::join(normalization.std, " "), normalization.words);

  if (const auto found = first_nonfinite(engine.parameters()))
    throw NonFiniteError(fmt::format("{}: {}: no image has a result, the first of which is {}", command.weights,
                                     found->text(), images.name(0)),
                         found->value);

  const auto classes = static_cast<std::size_t>(num_classes(model));
  const auto batch = static_cast<std::size_t>(command.batch);
  const auto [height, width] = image_size(model);
  std::vector<float> pixels(batch * static_cast<std::size_t>(height * width * channels(model))), all_logits;
  std::vector<double> losses(batch), logits(batch * classes);
  std::vector<std::int32_t> labels(batch), predictions(batch);
  std::int64_t right = 0;
  double loss = 0.0;
  for (std::int64_t first = 0; first < images.count(); first += command.batch) {
    const std::int64_t count = std::min(command.batch, images.count() - first);
    images.fill(first, count, pool, pixels.data());
    if (labelled) std::copy_n(images.labels().begin() + first, count, labels.begin());
    const Tensor wanted = labelled ? Tensor(labels.data(), {count}, DType::i32) : Tensor();
    if (const auto found = engine.evaluate(Tensor(pixels.data(), {count, height, width, channels(model)}, DType::f32),
                                           wanted, losses, predictions, logits))
      throw NonFiniteError(
          fmt::format("{}: {}, so there is no result", images.name(first + found->image), found->text()), found->value);
    for (std::size_t i = 0; labelled && i < static_cast<std::size_t>(count); ++i) {
      right += predictions[i] == labels[i];
      loss += losses[i];
    }
    if (command.logits)
      for (std::size_t i = 0; i < static_cast<std::size_t>(count) * classes; ++i)
        all_logits.push_back(static_cast<float>(logits[i]));
  }
  if (labelled)
    print_text("accuracy {:.2f}% ({} of {}), loss {:.6g}\n", 100.0 * double(right) / double(images.count()), right,
               images.count(), loss / double(images.count()));
  if (command.logits)
    write_npy(*command.logits, host_tensor<float>("logits", {static_cast<std::uint64_t>(images.count()), classes},
                                                  std::move(all_logits)));
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
  EvalSource& source = options->source;
  source.threads = available_cores();
  EvalTransformConfig& transform = source.transform;
  command
      .add_option("--data", source.data,
                  "a data set's name, a folder with its --layout, or a .npy of images, uint8 or float [N, H, W, C]")
      ->required();
  command.add_option("--layout", source.layout, "how the files of a folder lie")
      ->check(CLI::IsMember(all_words<DatasetLayout>()))
      ->capture_default_str();
  command.add_option("--slice", source.slice, "of a data set: \"test[:1000]\"")->capture_default_str();
  command.add_option("--data-root", source.root, "folder of the data sets; else NORMLAB_DATA, else ./data");
  command.add_option("--labels", source.labels,
                     "of a .npy: a .npy of integers [N]; layout image_list, image_folder: the file of labels");
  command.add_option("--crop", options->crop, "how an image gets the model's size; none: it has it")
      ->check(CLI::IsMember(all_words<EvalCrop>()))
      ->capture_default_str();
  command.add_option("--crop-pct", transform.crop_pct, "crop center: the model's size over the resized shorter side")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command.add_option("--resize-to", transform.resize_to, "crop center: pixels of the shorter side, not by --crop-pct")
      ->check(CLI::Range(1, 1 << 16));
  command.add_option("--resize", options->resize, "how pixels between pixels come about")
      ->check(CLI::IsMember({"nearest", "bilinear", "bicubic", "lanczos", "bilinear_plain", "area"}))
      ->capture_default_str();
  command.add_option("--rounding", options->rounding, "of the longer side and of odd margins")
      ->check(CLI::IsMember(all_words<ResizeRounding>()))
      ->capture_default_str();
  command.add_option("--logits", options->logits, "write them here: .npy, float32 [N, classes]");
  command.add_option("--batch", options->batch, "images at a time")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--normalize", source.normalize,
                  "imagenet: mean .485 .456 .406, std .229 .224 .225; half: .5 and .5; none. A data set's default: "
                  "its training images'")
      ->check(CLI::IsMember({"imagenet", "half", "none"}));
  command.add_option("--mean", source.mean, "of each channel, where the brightest pixel is 1")->delimiter(',');
  command.add_option("--std", source.std, "of each channel")->delimiter(',');
  add_device(command, options->device);
  command.add_option("--threads", source.threads, "cores to use")->check(CLI::Range(1, 1024))->capture_default_str();
  command.callback([options, &action] { action = [options] { return evaluate(*options); }; });
}

}  // namespace normlab
