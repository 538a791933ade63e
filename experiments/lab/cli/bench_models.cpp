// Whole networks with layer norm and batch norm: Table 6 of "Leveraging Batch Normalization for
// Vision Transformers", plus DeiT-S.
#include <fmt/core.h>

#include <set>

#include "experiments/lab/base/terminal.h"
#include "experiments/lab/bench/shapes.h"
#include "experiments/lab/cli/bench.h"

namespace normlab {
namespace {

struct PublishedSpeed {
  double train = 0, infer = 0;  // images/s on a V100; 0: not printed
};
struct BenchModel {
  const char *word, *name;
  PublishedSpeed ln, bn, fused;
};
constexpr BenchModel kModels[] = {
    {"swin_t", "Swin-T", {270.6, 755.2}, {291.2, 675.9}, {0, 882.7}},
    {"swin_s", "Swin-S", {140.9, 436.9}, {181.6, 376.6}, {0, 491.8}},
    {"swin_b", "Swin-B", {91.21, 278.1}, {120.3, 262.2}, {0, 318.6}},
    {"deit_s", "DeiT-S", {}, {}, {}},
};

ModelConfig config_of(const BenchModel& model, const char* placement, std::int64_t image) {
  // The sizes of DeiT-S/16; Swin variants have their own.
  return bench_model({model.word, image, 16, 384, 12, 6, 1000, 0, model.name, true}, placement);
}

struct BenchModels : BenchOptions {
  std::vector<std::string> models{"swin_t", "swin_s", "swin_b", "deit_s"};
  std::int64_t batch = 0, image = 224;  // batch 0: 128 on a GPU, 4 on the CPU
  BenchModels() { seconds = 2.0; }

  struct Row {
    std::string model, norm;
    ModelCost cost;
    std::optional<double> train;
    double infer;
    PublishedSpeed published;
  };

  int operator()() const {
    const ComputeDevice computer(device);
    const std::int64_t images = batch > 0 ? batch : on_gpu() ? 128 : 4;
    const LoadMeter meter;
    if (!json()) {
      print_text(
          "{}\n{} images of {} px per step, {}. Images/s and their ratio to LN's, measured\nhere and published (V100, "
          "Leveraging Batch Normalization for Vision\nTransformers, Table 6). *: batch norm merged into the adjacent "
          "linear layers.\n\n",
          on_gpu() ? device_words(computer.backend()) : threads_words(threads), images, image, precision);
      print_text("{:<7}{:<10}{:>9}{:>7}{:>9}{:>7}{:>7}{:>9}{:>7}{:>7}\n", "model", "norm", "params", "GMACs", "train",
                 "ratio", "publ.", "infer", "ratio", "publ.");
    }
    Json rows = Json::array();
    for (const BenchModel& model : kModels) {
      if (std::find(models.begin(), models.end(), model.word) == models.end()) continue;
      std::optional<Row> first;
      for (const Variant variant : {Variant::ln, Variant::bn, Variant::fused}) {
        Row row;
        const EngineSettings cut = settings(images);
        const ModelConfig config = config_in(computer.backend(), model, variant);
        try {
          row = measure(computer.backend(), model, variant, config, cut);
        } catch (const DeviceMemoryError& error) {
          throw_step_too_large(error, computer.backend(), threads, config, cut, {"--batch", ""});
        }
        if (!first) first = row;
        if (json())
          rows.push_back(json_of(row, *first));
        else
          print(row, *first);
        std::fflush(stdout);
      }
    }
    return end({{"device", device_words(computer.backend())},
                {"precision", precision},
                {"batch", images},
                {"image", image},
                {"drop_path", drop_path},
                {"forms", forms()},
                {"threads", threads},
                {"rows", std::move(rows)}},
               meter, threads);
  }

 private:
  enum class Variant { ln, bn, fused };

  ModelConfig config_in(Backend& backend, const BenchModel& model, Variant variant) const {
    const ModelConfig config = in_forms(config_of(model, variant == Variant::ln ? "pre_pre" : "bn_ffnbn", image));
    throw_if_any(validate(config));
    return variant == Variant::fused ? fused_config(backend, config) : config;
  }

  Row measure(Backend& backend, const BenchModel& model, Variant variant, const ModelConfig& config,
              const EngineSettings& cut) const {
    Row row{model.name, "LN", model_cost(config), {}, 0, model.ln};
    if (variant == Variant::bn) row.norm = "BN+FFNBN", row.published = model.bn;
    if (variant == Variant::fused) row.norm = "BN+FFNBN*", row.published = model.fused;
    if (variant != Variant::fused) row.train = training_speed(backend, threads, config, cut, seconds);
    row.infer = inference_speed(backend, threads, config, cut, seconds);
    return row;
  }

  static void print(const Row& row, const Row& ln) {
    const auto number = [](double value) {
      return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 999.5 ? 1 : 0);
    };
    const auto ratio = [](double value, double of) {
      return of > 0 && value > 0 ? fmt::format("{:.2f}", value / of) : "";
    };
    print_text("{:<7}{:<10}{:>8.2f}M{:>7.2f}{:>9}{:>7}{:>7}{:>9}{:>7}{:>7}\n", row.model, row.norm,
               double(row.cost.parameters) * 1e-6, double(row.cost.macs_with_norms()) * 1e-9,
               row.train ? number(*row.train) : "-", row.train ? ratio(*row.train, *ln.train) : "",
               ratio(row.published.train, ln.published.train), number(row.infer), ratio(row.infer, ln.infer),
               ratio(row.published.infer, ln.published.infer));
  }

  static Json json_of(const Row& row, const Row& ln) {
    const auto or_null = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
    return {{"model", row.model},
            {"norm", row.norm},
            {"parameters", row.cost.parameters},
            {"macs", row.cost.macs_with_norms()},
            {"train_images_per_second", row.train ? Json(rounded(*row.train, 3)) : Json(nullptr)},
            {"train_ratio", row.train ? Json(rounded(*row.train / *ln.train, 4)) : Json(nullptr)},
            {"infer_images_per_second", rounded(row.infer, 3)},
            {"infer_ratio", rounded(row.infer / ln.infer, 4)},
            {"published_train", or_null(row.published.train)},
            {"published_infer", or_null(row.published.infer)}};
  }
};

}  // namespace

void add_bench_models(Command& bench) {
  auto [command, models] = bench.add_command<BenchModels>(
      "models",
      "measure training and inference of whole networks with layer norm, batch norm (BN+FFNBN) and merged batch norm");
  std::set<std::string> words;
  for (const BenchModel& model : kModels) words.insert(model.word);
  command.add_option("--models", models.models, "networks to measure, separated by commas")
      .comma_separated()
      .one_of({words.begin(), words.end()})
      .show_default();
  command.add_option("--batch", models.batch, "images per step (default: 128 on a GPU, 4 on the CPU)")
      .range(2, 1 << 20);
  command.add_number("--image", models.image, "side of an image in pixels", 32, 1024);
  models.add_forms(command);
  models.add_precision(command);
  models.add_threads(command);
  add_device(command, models.device);
  models.add_seconds(command, "seconds to measure each network");
  models.add_format(command);
  command.examples(
      {"normlab bench models --models deit_s,swin_t --image 64", "normlab bench models --models deit_s --full-forms"});
}

}  // namespace normlab
