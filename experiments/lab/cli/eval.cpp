#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/device_option.h"
#include "experiments/lab/cli/eval_forms.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/png.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/metrics/class_scores.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/train/eval_images.h"
#include "experiments/lab/train/evaluation.h"
#include "experiments/lab/train/provenance.h"
#include "experiments/lab/train/tasks.h"
#include "experiments/lab/train/trial.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "experiments/lab/weights/convert.h"
#include "experiments/lab/weights/convert_files.h"
#include "experiments/lab/weights/npy.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

struct EvalCommand {
  WeightsSource weights;
  std::optional<std::string> logits, masks, confusion, predictions;
  std::optional<int> without_block;
  EvalSource source;
  std::int64_t batch = 64;
  DeviceKind device = DeviceKind::cpu;
  ProductAlgorithms algorithms{};
  Precision precision = Precision::fp32;
  Inputs inputs{};  // what the command reads
  Option slice{}, layout_option{}, labels_option{}, crop_option{}, precision_option{};
  std::vector<Option> changes{};       // options that make the evaluation differ from the training's
  std::vector<Option> of_transform{};  // the ones that set how images are resized
  FewShotForm few_shot{};
  ProbeForm probe{};

  int operator()() {
    if (few_shot.given)
      return few_shot.print(weights, source, any_given(of_transform), ComputeDevice(device, algorithms)), 0;
    return probe.given ? probe.print(weights, source, ComputeDevice(device, algorithms)) : judge();
  }

 private:
  static bool any_given(const std::vector<Option>& options) {
    return std::any_of(options.begin(), options.end(), [](const Option& option) { return option.given(); });
  }

  /// Not inlined: a probe gets by with less stack.
  [[gnu::noinline]] int judge() {
    const bool resized = any_given(of_transform), writes = logits || confusion || predictions;
    const ComputeDevice computer(device, algorithms);
    auto [file, network, trained, result] = weights.load(source.data.empty() ? "--data" : "");
    inputs = {weights.file, weights.model.value_or(""), source.data, source.labels.value_or("")};
    require_outputs();
    if (without_block && *without_block >= block_count(network))
      throw InputError(fmt::format("--without-block: {} is not a block of this network, which has blocks 0 to {}",
                                   *without_block, block_count(network) - 1));
    refuse_unread_options(resized);
    const bool as_trained = source.data.empty() && !weights.ema && !writes && !any_given(changes) && !resized;
    if (task_of(network) == Task::segment && (masks || !as_trained))
      return segment(file, network, trained, resized, computer.backend());
    if (masks) throw InputError("--masks: only a network of task segment answers with masks");
    if (as_trained) return repeat_evaluation(*trained, network, file, result, computer.backend());
    if (weights.ema) take_average(file, weights.file);
    if (trained && !resized) source.transform = trained->config.train.eval_transform;
    if (source.data.empty() && !slice.given()) source.slice = trained->config.dataset.eval;
    source.slice_given = slice.given();
    return evaluate(file, network, trained, computer.backend());
  }

  /// InputError for a file that cannot be written, or that two options would write.
  void require_outputs() const {
    std::vector<std::string> seen;
    for (const std::optional<std::string>* file : {&logits, &confusion, &predictions}) {
      if (!*file) continue;
      require_output(**file, inputs);
      if (std::find(seen.begin(), seen.end(), **file) != seen.end())
        throw InputError(
            concat(**file, ": is given twice; --logits, --confusion and --predictions need files of their own"));
      seen.push_back(**file);
    }
  }
  /// What is said goes where no file is written.
  bool writes_to_output() const { return logits == "-" || confusion == "-" || predictions == "-"; }

  static void print_metrics(const std::map<std::string, double>& metrics, const EvaluatedSlice& slice) {
    for (const auto& [name, value] : metrics)
      print_text("{:<22} {}\n", name,
                 is_share(name) ? fmt::format("{:.2f}%", 100 * value) : fmt::format("{:.6g}", value));
    print_text("{}\n", guess_words(slice));
  }

  /// "always the most frequent class: accuracy 81.58%, loss 0.47712; of 38 images"
  static std::string guess_words(const EvaluatedSlice& slice) {
    std::string words;
    for (const char* name : {"accuracy", "miou", "pixel_accuracy"})
      if (const auto found = slice.guess.find(name); found != slice.guess.end())
        words += fmt::format("{} {} {:.2f}%", words.empty() ? "always the most frequent class:" : ",", name,
                             100 * found->second);
    if (const auto loss = slice.guess.find("loss"); loss != slice.guess.end())
      words += fmt::format("; lowest loss of one answer for all {:.6g}", loss->second);
    return fmt::format("{}{}{} images", words, words.empty() ? "" : "; ", slice.images);
  }

  /// InputError for an option that nothing would read.
  void refuse_unread_options(bool transform_given) const {
    for (const auto& [option, given] : {std::pair{"--allow-other-class-names", source.other_class_names},
                                        {"--layout", layout_option.given()},
                                        {"--labels", labels_option.given()},
                                        {"--labels-from", source.labels_from.has_value()},
                                        {"--class-order", !source.class_order.empty()}})
      if (given && source.data.empty())
        throw InputError(concat(option, ": applies to other images than the training's; give them with --data"));
    if (slice.given() && source.data.ends_with(".npy"))
      throw InputError("--slice: a .npy has no slices, and all its images are evaluated; leave it out");
    if (transform_given && source.transform.crop == EvalCrop::none && !crop_option.given())
      throw InputError(
          "--crop-pct, --resize-to, --resize and --rounding: need --crop center, stretch or stretch_center");
  }

  /// A slice of the training's data, by a segmentation network.
  int segment(WeightFile& file, const ModelConfig& network, const std::optional<TrainedOn>& trained,
              bool transform_given, Backend& backend) const {
    for (const auto& [option, given] : {std::pair{"--confusion", confusion}, {"--predictions", predictions}})
      if (given)
        throw InputError(concat(
            option,
            ": a segmentation network answers each pixel, not each image; use --masks FOLDER, which writes the class "
            "of each pixel"));
    if (!source.data.empty() || logits || transform_given)
      throw InputError(
          "eval: a segmentation network is evaluated on the data of its training, or with --slice on another part of "
          "it; leave out --data, --logits and how images are resized");
    if (!trained)
      throw InputError(fmt::format("{}: does not record its training, so its data are unknown", weights.file));
    if (weights.ema) take_average(file, weights.file);
    TrialConfig config = trained->config;
    config.model = network;
    if (slice.given()) config.dataset.eval = source.slice;
    if (precision_option.given()) config.train.precision = precision;
    const DataPair data = load_dataset(config.dataset, source.root, source.threads);
    require_same_classes(*trained, data.train.class_names, config.dataset.name);
    EngineSettings settings = engine_settings(config);
    settings.ema = {};
    ShardPool pool(source.threads);
    Engine engine(backend, pool, network, settings);
    engine.leave_out_block(without_block);
    ConversionReport report;
    import_weights(file.tensors, NameScheme::normlab, network, {}, engine.parameters(), report);
    engine.state().progress = stated_progress(file);
    BatchSource batches(config, data.train, data.eval, engine.dtype());
    const auto path_of = [&](std::int64_t image) {
      const std::filesystem::path key = data.eval.key(image);
      std::filesystem::path path = std::filesystem::path(*masks) / key;
      if (has_image_extension(key)) path.replace_extension();
      return path += ".png";
    };
    std::map<std::filesystem::path, std::int64_t> writer;
    for (std::int64_t image = 0; masks && image < data.eval.size(); ++image) {
      require_output(path_of(image), {data.train.folder});
      const auto [other, first] = writer.try_emplace(path_of(image), image);
      if (!first)
        throw InputError(fmt::format("{}: would be the mask of {} and of {}; rename one of the images",
                                     path_of(image).string(), data.eval.key(other->second), data.eval.key(image)));
    }
    const auto write = [&](std::int64_t image, const Mask& predicted) {
      Mask stored = predicted;
      if (config.dataset.masks == MaskLabels::from_one)
        for (std::uint8_t& label : stored.labels) ++label;
      write_png(path_of(image), stored);
    };
    EvaluatedSlice slice_facts;
    const std::map<std::string, double> metrics =
        evaluate_segmentation({engine, batches, data.eval, pool, "eval/", nullptr, &slice_facts},
                              masks ? SeePrediction(write) : SeePrediction());
    print_metrics(metrics, slice_facts);
    return 0;
  }

  /// Repeats the training's final evaluation.
  int repeat_evaluation(const TrainedOn& trained, const ModelConfig& network, const WeightFile& file,
                        const std::optional<TrialResult>& result, Backend& backend) const {
    TrialConfig config = trained.config;
    config.model = network;
    if (result) config.eval.metrics = requests_in(result->metrics);
    const DataPair data = load_dataset(config.dataset, source.root, source.threads);
    require_same_classes(trained, data.train.class_names, config.dataset.name);
    if (const auto hash = file.metadata.find(kDataHashKey);
        hash != file.metadata.end() && hash->second != data_hash(data))
      throw InputError(fmt::format(
          "{}: was trained on data with hash {}, but the data here has hash {}; point --data-root at the data of the "
          "training, or give other images with --data{}",
          weights.file, hash->second, data_hash(data), note_of_data(config.dataset, data)));
    EvaluatedSlice eval;
    const std::map<std::string, double> metrics = evaluate_again(config, file, data, source.threads, backend, &eval);
    print_metrics(metrics, eval);
    if (const std::string copy = jpeg_copy(config.dataset.name, data); !copy.empty())
      print_text("{}{}\n", copy, kNotPublished);
    if (!result || result->status != TrialEnd::done) return 0;
    const bool smoothed = smoothing_in_losses(*result, config) > 0;
    if (smoothed)
      print_text(
          "losses are not compared: those of the trial's result contain its label smoothing, because an older version "
          "measured them\n");
    for (const auto& [name, value] : metrics) {
      if (smoothed && is_evaluation_loss(name)) continue;
      if (const auto before = result->metrics.find(name);
          before == result->metrics.end() ||
          std::bit_cast<std::uint64_t>(before->second) != std::bit_cast<std::uint64_t>(value)) {
        print_text("DIFFERENT from the trial's result: {} was {} and is {} now\n", name,
                   before == result->metrics.end() ? "missing" : fmt::format("{}", before->second), value);
        return static_cast<int>(ExitCode::trials_failed);
      }
    }
    print_text("bit-identical to the trial's result\n");
    return 0;
  }

  int evaluate(const WeightFile& file, const ModelConfig& network, const std::optional<TrainedOn>& trained,
               Backend& backend) const {
    const EvalImages images(source, network, trained);
    const bool labelled = !images.labels().empty();
    if (!labelled && !images.plain_folder() && !logits && !predictions)
      throw InputError("eval: the images have no labels; give --labels, or --predictions or --logits to write answers");
    if (!labelled && confusion)
      throw InputError("--confusion: the images have no labels to compare the answers with; use --predictions");
    const std::optional<std::string> answers_to =
        predictions || !images.plain_folder() || logits ? predictions : std::optional<std::string>("-");
    if (images.plain_folder())
      tell("{}: {} images without classes{}\n", source.data, images.count(),
           images.other_files().empty() ? "" : "; not read:\n" + images.other_files());
    for (const BadImage& bad : images.bad_images()) tell("left out: {}\n", bad.reason);

    EngineSettings settings;
    if (trained) settings = engine_settings(trained->config);
    if (precision_option.given()) settings.precision = precision;
    settings.ema = {};
    ShardPool pool(source.threads);
    Engine engine(backend, pool, network, settings);
    engine.leave_out_block(without_block);
    ConversionReport report;
    import_weights(file.tensors, NameScheme::normlab, network, {}, engine.parameters(), report);
    engine.state().progress = stated_progress(file);
    const Normalization& normalization = images.normalization();
    tell("{} images, pixels {}, mean {:.4f}, std {:.4f} ({})\n", images.count(),
         images.are_bytes() ? "divided by 255" : "as stored", fmt::join(normalization.mean, " "),
         fmt::join(normalization.std, " "), normalization.words);
    if (!images.known_copy().empty()) tell("{}{}\n", images.known_copy(), kNotPublished);

    if (const auto found = first_nonfinite(engine.parameters()))
      throw NonFiniteError(
          fmt::format("{}: {}, so no image has a result; the first is {}", weights.file, found->text(), images.name(0)),
          found->value);

    const auto classes = static_cast<std::size_t>(num_classes(network));
    const auto most = static_cast<std::size_t>(batch);
    const std::int64_t height = image_size(network)[0], width = image_size(network)[1];
    std::vector<float> pixels(most * static_cast<std::size_t>(height * width * channels(network))), all_logits;
    std::vector<bf16> rounded(engine.dtype() == DType::bf16 ? pixels.size() : 0);
    const auto batch_of = [&](std::int64_t count) {
      std::transform(pixels.begin(), pixels.begin() + std::ssize(rounded), rounded.begin(),
                     [](float value) { return bf16(value); });
      void* const values = rounded.empty() ? static_cast<void*>(pixels.data()) : rounded.data();
      return Tensor(values, {count, height, width, channels(network)}, engine.dtype());
    };
    std::vector<double> losses(most), values(most * classes);
    std::vector<std::int32_t> labels(most), predicted(most);
    const bool sigmoid = settings.loss == LossKind::sigmoid;
    Answers answers(images.class_names());
    std::int64_t right = 0;
    double loss = 0.0;
    for (std::int64_t first = 0; first < images.count(); first += batch) {
      const std::int64_t count = std::min(batch, images.count() - first);
      images.fill(first, count, pool, pixels.data());
      if (labelled) std::copy_n(images.labels().begin() + first, count, labels.begin());
      const Tensor wanted = labelled ? Tensor(labels.data(), {count}, DType::i32) : Tensor();
      if (const auto found = engine.evaluate(batch_of(count), wanted, losses, predicted, values))
        throw NonFiniteError(
            fmt::format("{}: {}, so there is no result", images.name(first + found->image), found->text()),
            found->value);
      for (std::size_t i = 0; labelled && i < static_cast<std::size_t>(count); ++i) {
        right += predicted[i] == labels[i];
        loss += losses[i];
      }
      if (answers_to || confusion)
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
          answers.add(images.key(first + std::int64_t(i)), labelled ? std::optional(labels[i]) : std::nullopt,
                      predicted[i], largest_probability(std::span(values).subspan(i * classes, classes), sigmoid));
      if (logits)
        for (std::size_t i = 0; i < static_cast<std::size_t>(count) * classes; ++i)
          all_logits.push_back(static_cast<float>(values[i]));
    }
    if (labelled) {
      std::vector<std::int64_t> of_class(classes);
      for (const std::int32_t label : images.labels()) ++of_class[static_cast<std::size_t>(label)];
      const std::string words =
          fmt::format("accuracy {:.2f}% ({} of {}), loss {:.6g}\n{}\n", 100.0 * double(right) / double(images.count()),
                      right, images.count(), loss / double(images.count()),
                      guess_words({images.count(), constant_answer(of_class, sigmoid)}));
      if (writes_to_output())
        tell("{}", words);
      else
        print_text("{}", words);
    }
    if (logits) {
      const HostTensor tensor =
          host_tensor("logits", {static_cast<std::uint64_t>(images.count()), classes}, std::move(all_logits));
      write_output(*logits, write_npy_bytes(tensor), inputs);
    }
    if (answers_to) write_output(*answers_to, answers.predictions_csv(), inputs);
    if (confusion) write_output(*confusion, answers.confusion_csv(), inputs);
    return static_cast<int>(images.plain_folder() && !images.bad_images().empty() ? ExitCode::bad_input
                                                                                  : ExitCode::done);
  }
};

}  // namespace

void add_eval(Command& app) {
  auto [command, options] = app.add_command<EvalCommand>(
      "eval", "evaluate a trial again, or evaluate any weights on any images: accuracy, loss, answers");
  options.weights.add_to(command);
  EvalSource& source = options.source;
  source.threads = available_cores();
  EvalTransformConfig& transform = source.transform;
  const auto change = [&to = options.changes](Option option) { to.push_back(option); };
  const auto of_transform = [&to = options.of_transform](Option option) { to.push_back(option); };
  command.add_option(
      "--data", source.data,
      "images to evaluate on: a data set's name, a folder with its --layout, a folder of images without classes, or a "
      ".npy of uint8 or float [N, H, W, C] (default: the data of the training)");
  options.layout_option = command.add_choice("--layout", source.layout, "layout of the folder's files");
  change(options.layout_option);
  options.slice = command.add_option(
      "--slice", source.slice,
      "slice of the data set, such as \"test[:1000]\" (default: test; for the training's data its own)");
  change(options.slice);
  command.add_option("--data-root", source.root, "folder of the data sets (default: NORMLAB_DATA, else ./data)");
  options.labels_option =
      command.add_option("--labels", source.labels,
                         "for a .npy: a .npy of integers [N]; for layouts image_list and image_folder: file of labels");
  change(options.labels_option);
  add_label_options(command, source.labels_from, source.class_order, change);
  command.add_flag("--allow-other-class-names", source.other_class_names,
                   "compare only the number of classes with the training's, not their names");
  options.crop_option = command.add_choice(
      "--crop", transform.crop,
      "how an image gets the model's size; none: it has that size. Any of --crop, --crop-pct, --resize-to, --resize "
      "and --rounding replaces all five of the training");
  of_transform(options.crop_option);
  of_transform(command.add_number("--crop-pct", transform.crop_pct,
                                  "crop center: the model's size divided by the resized shorter side", 0.01, 1.0));
  of_transform(command.add_bounded("--resize-to", transform.resize_to,
                                   "crop center: pixels of the resized shorter side, instead of --crop-pct", 1,
                                   1 << 16));
  of_transform(command.add_choice("--resize", transform.resize, "interpolation between pixels",
                                  {"nearest", "bilinear", "bicubic", "lanczos", "bilinear_plain", "area"}));
  of_transform(command.add_choice("--rounding", transform.rounding, "rounding of the longer side and of odd margins"));
  change(command.add_bounded("--without-block", options.without_block,
                             "leave out this block, counted from 0: its input is its output", 0, 1 << 20));
  command.add_output(Output::stream, "--logits", options.logits,
                     "write the logits to this .npy file, float32 [N, classes]; -: standard output");
  command.add_output(
      Output::stream, "--predictions", options.predictions,
      "write the answers to this CSV file: file, true class, answer, its probability; -: standard output, which a "
      "folder of images without classes gets by default");
  command.add_output(
      Output::stream, "--confusion", options.confusion,
      "write how many images of each class (rows) get each answer (columns) to this CSV file; -: standard output");
  command.add_output(
      Output::folder, "--masks", options.masks,
      "task segment: write the predicted classes to this folder, a PNG for each image, in the numbers of the data's "
      "own masks");
  command.add_number("--batch", options.batch, "images per batch", 1, 1 << 20);
  change(
      command
          .add_option("--normalize", source.normalize,
                      "imagenet: mean .485 .456 .406, std .229 .224 .225; half: .5 and .5; none: 0 and 1 (default: the "
                      "training's; if the weights do not state it, that of the data set's training images)")
          .one_of({"imagenet", "half", "none"}));
  change(command.add_option("--mean", source.mean, "mean of each channel, on a scale where the brightest pixel is 1")
             .comma_separated());
  change(command.add_option("--std", source.std, "standard deviation of each channel, on the same scale")
             .comma_separated());
  options.precision_option = command.add_words("--precision", options.precision,
                                               "precision of the matrix products (default: the training's, else fp32)");
  change(options.precision_option);
  add_device(command, options.device);
  add_gpu_algorithms(command, options.algorithms);
  command.add_number("--threads", source.threads, "how many cores to use", 1, 1024).show_default("all cores");
  Command few_shot = command.add_form(
      command.add_flag(
          "--fewshot", options.few_shot.given,
          "judge the features by ridge regression on a few images per class, as Big Vision does; --data may be JSON as "
          "a descriptor's \"dataset\""),
      {"TRIAL", "--out", "--weights", "--ema", "--model", "--data", "--data-root", "--crop", "--crop-pct",
       "--resize-to", "--resize", "--rounding", "--threads", "--device", "--gpu-algorithms"});
  options.few_shot.add_to(few_shot);
  Command probe = command.add_form(
      command.add_flag(
          "--probe", options.probe.given,
          "measure activations and gradients of each row's network on one batch, without training (docs/tables.md)"),
      {"TRIAL", "--out", "--weights", "--data-root", "--threads", "--device", "--gpu-algorithms"});
  options.probe.add_to(probe);
  command.examples({"normlab eval 3f53cbbd --data holiday --predictions holiday.csv",
                    "normlab eval --probe experiments/placements_gratings.json --images 100"});
}

}  // namespace normlab
