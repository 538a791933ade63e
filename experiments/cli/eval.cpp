#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

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
  std::int64_t batch = 64;
  bool ema = false;
  DeviceKind device = DeviceKind::cpu;

  int operator()() const {
    const ComputeDevice computer(device);
    WeightFile file = read_weight_file(weights);
    if (ema) take_average(file, weights);
    if (stated_names(file, std::nullopt) != NameScheme::normlab)
      throw InputError(
          fmt::format("{}: has the names of another program; `normlab convert` gives it ours first", weights));
    const ModelConfig network = stated_model(file, model, false);
    const EvalImages images(source, network);
    const bool labelled = !images.labels().empty();
    if (!labelled && !logits)
      throw InputError("there are no labels and nothing is to be written; give --labels or --logits");

    ShardPool pool(source.threads);
    Engine engine(computer.backend(), pool, network, {});
    ConversionReport report;
    import_weights(file.tensors, NameScheme::normlab, network, {}, engine.parameters(), report);
    const Normalization& normalization = images.normalization();
    tell("{} images, pixels {}, mean {:.4f}, std {:.4f} ({})\n", images.count(),
         images.are_bytes() ? "divided by 255" : "as they are", fmt::join(normalization.mean, " "),
         fmt::join(normalization.std, " "), normalization.words);

    if (const auto found = first_nonfinite(engine.parameters()))
      throw NonFiniteError(fmt::format("{}: {}: no image has a result, the first of which is {}", weights,
                                       found->text(), images.name(0)),
                           found->value);

    const auto classes = static_cast<std::size_t>(num_classes(network));
    const auto most = static_cast<std::size_t>(batch);
    const auto [height, width] = image_size(network);
    std::vector<float> pixels(most * static_cast<std::size_t>(height * width * channels(network))), all_logits;
    std::vector<double> losses(most), values(most * classes);
    std::vector<std::int32_t> labels(most), predictions(most);
    std::int64_t right = 0;
    double loss = 0.0;
    for (std::int64_t first = 0; first < images.count(); first += batch) {
      const std::int64_t count = std::min(batch, images.count() - first);
      images.fill(first, count, pool, pixels.data());
      if (labelled) std::copy_n(images.labels().begin() + first, count, labels.begin());
      const Tensor wanted = labelled ? Tensor(labels.data(), {count}, DType::i32) : Tensor();
      if (const auto found =
              engine.evaluate(Tensor(pixels.data(), {count, height, width, channels(network)}, DType::f32), wanted,
                              losses, predictions, values))
        throw NonFiniteError(
            fmt::format("{}: {}, so there is no result", images.name(first + found->image), found->text()),
            found->value);
      for (std::size_t i = 0; labelled && i < static_cast<std::size_t>(count); ++i) {
        right += predictions[i] == labels[i];
        loss += losses[i];
      }
      if (logits)
        for (std::size_t i = 0; i < static_cast<std::size_t>(count) * classes; ++i)
          all_logits.push_back(static_cast<float>(values[i]));
    }
    if (labelled)
      print_text("accuracy {:.2f}% ({} of {}), loss {:.6g}\n", 100.0 * double(right) / double(images.count()), right,
                 images.count(), loss / double(images.count()));
    if (logits)
      write_npy(*logits, host_tensor<float>("logits", {static_cast<std::uint64_t>(images.count()), classes},
                                            std::move(all_logits)));
    return 0;
  }
};

}  // namespace

void add_eval(Command& app) {
  auto [command, options] = app.add_command<EvalCommand>("eval", "run a network on images: accuracy, loss, logits");
  command.add_option("--weights", options.weights, "a checkpoint, or what `normlab convert` wrote").required();
  command.add_flag("--ema", options.ema, "of a checkpoint: its averaged weights");
  command.add_option("--model", options.model,
                     "the network as JSON, a file or the text itself; compared with what the weights say");
  EvalSource& source = options.source;
  source.threads = available_cores();
  EvalTransformConfig& transform = source.transform;
  command
      .add_option("--data", source.data,
                  "a data set's name, a folder with its --layout, or a .npy of images, uint8 or float [N, H, W, C]")
      .required();
  command.add_choice("--layout", source.layout, "how the files of a folder lie");
  command.add_option("--slice", source.slice, "of a data set: \"test[:1000]\"").show_default();
  command.add_option("--data-root", source.root, "folder of the data sets; else NORMLAB_DATA, else ./data");
  command.add_option("--labels", source.labels,
                     "of a .npy: a .npy of integers [N]; layout image_list, image_folder: the file of labels");
  command.add_choice("--crop", transform.crop, "how an image gets the model's size; none: it has it");
  command.add_number("--crop-pct", transform.crop_pct, "crop center: the model's size over the resized shorter side",
                     0.01, 1.0);
  command.add_option("--resize-to", transform.resize_to, "crop center: pixels of the shorter side, not by --crop-pct")
      .range(1, 1 << 16);
  command.add_choice("--resize", transform.resize, "how pixels between pixels come about",
                     {"nearest", "bilinear", "bicubic", "lanczos", "bilinear_plain", "area"});
  command.add_choice("--rounding", transform.rounding, "of the longer side and of odd margins");
  command.add_option("--logits", options.logits, "write them here: .npy, float32 [N, classes]");
  command.add_number("--batch", options.batch, "images at a time", 1, 1 << 20);
  command
      .add_option("--normalize", source.normalize,
                  "imagenet: mean .485 .456 .406, std .229 .224 .225; half: .5 and .5; none. A data set's default: its "
                  "training images'")
      .one_of({"imagenet", "half", "none"});
  command.add_option("--mean", source.mean, "of each channel, where the brightest pixel is 1").comma_separated();
  command.add_option("--std", source.std, "of each channel").comma_separated();
  add_device(command, options.device);
  command.add_number("--threads", source.threads, "cores to use", 1, 1024);
  command.examples({"normlab eval --weights weights.safetensors --data gratings --slice 'test[:500]'"});
}

}  // namespace normlab
