// Whole networks with layer norm and batch norm: Table 6 of "Leveraging Batch Normalization for
// Vision Transformers", plus DeiT-S.
#include <algorithm>

#include "core/error.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/shapes.h"
#include "nn/model/model.h"

namespace normlab {
namespace {

/// Images/s on a V100; 0: not printed.
struct PublishedSpeed {
  double train = 0, infer = 0;
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

struct Variant {
  const char *norm, *placement;
  PublishedSpeed BenchModel::*published;
  bool fused;
};
constexpr Variant kVariants[] = {{"LN", "pre_pre", &BenchModel::ln, false},
                                 {"BN+FFNBN", "bn_ffnbn", &BenchModel::bn, false},
                                 {"BN+FFNBN*", "bn_ffnbn", &BenchModel::fused, true}};

ModelConfig config_of(const BenchOptions& o, Backend& backend, const BenchModel& model, const Variant& variant) {
  // The sizes of DeiT-S/16; Swin variants have their own.
  const ModelConfig config =
      o.in_forms(bench_model({model.word, o.image, 16, 384, 12, 6, 1000, 0, model.name, true}, variant.placement));
  throw_if_any(validate(config));
  return variant.fused ? fused_config(backend, config) : config;
}

}  // namespace

std::vector<std::string> bench_model_words() {
  std::vector<std::string> words;
  for (const BenchModel& model : kModels) words.emplace_back(model.word);
  return words;
}

Measured bench_models(const BenchOptions& o) {
  const ComputeDevice computer(o.device);
  Backend& backend = computer.backend();
  const std::int64_t images = o.batch > 0 ? o.batch : o.on_gpu() ? 128 : 4;
  Json rows = Json::array(), shown = Json::array();
  for (const BenchModel& model : kModels) {
    if (std::find(o.models.begin(), o.models.end(), model.word) == o.models.end()) continue;
    double ln_train = 0, ln_infer = 0;
    for (const Variant& variant : kVariants) {
      const EngineSettings cut = o.settings(images);
      const ModelConfig config = config_of(o, backend, model, variant);
      const ModelCost cost = model_cost(config);
      double train = 0, infer = 0;
      try {
        if (!variant.fused) train = training_speed(backend, o.threads, config, cut, o.seconds);
        infer = inference_speed(backend, o.threads, config, cut, o.seconds);
      } catch (const DeviceMemoryError& error) {
        throw_step_too_large(error, backend, o.threads, config, cut, {"--batch", ""});
      }
      if (ln_train == 0) ln_train = train, ln_infer = infer;
      const auto or_null = [](double value, int digits) { return value > 0 ? Json(rounded(value, digits)) : Json(); };
      const PublishedSpeed published = model.*variant.published;
      rows.push_back({{"model", model.name},
                      {"norm", variant.norm},
                      {"parameters", cost.parameters},
                      {"macs", cost.macs_with_norms()},
                      {"train_images_per_second", or_null(train, 3)},
                      {"train_ratio", or_null(train / ln_train, 4)},
                      {"infer_images_per_second", rounded(infer, 3)},
                      {"infer_ratio", rounded(infer / ln_infer, 4)},
                      {"published_train", or_null(published.train, 3)},
                      {"published_infer", or_null(published.infer, 3)}});
      // The V100's speeds say little here, their ratios do.
      Json& row = shown.emplace_back(rows.back());
      const auto ratio = [](double value, double baseline) { return baseline > 0 ? value / baseline : 0; };
      row["published_train"] = or_null(ratio(published.train, model.ln.train), 2);
      row["published_infer"] = or_null(ratio(published.infer, model.ln.infer), 2);
    }
  }
  return {{{"device", device_words(backend)},
           {"precision", o.precision},
           {"batch", images},
           {"image", o.image},
           {"drop_path", o.drop_path},
           {"forms", o.forms()},
           {"threads", o.threads},
           {"rows", std::move(rows)}},
          o.threads,
          {{"rows", std::move(shown)}}};
}

}  // namespace normlab
