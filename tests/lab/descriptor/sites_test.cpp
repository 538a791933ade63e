// What the papers set at a site, reached from JSON alone: RMSNorm and Dynamic Tanh anywhere, LayerScale in all its
// forms.
#include <doctest/doctest.h>

#include <cmath>

#include "nn/model/init.h"
#include "nn/model/vit.h"
#include "nn/training/engine.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

ViTConfig model_with(DescriptorFiles& files, const std::string& placement, std::int64_t depth = 1) {
  return vit_of(
      files
          .load(concat(R"({"model": {"patch_size": 16, "embed_dim": 12, "num_heads": 2, "mlp_dim": 20, "pool": "token",
    "init": "timm", "depth": )",
                       depth, R"(, "placement": )", placement, "}}"))
          .trials.at(0)
          .config);
}

/// The largest gradient of every parameter after one step on noise, by name.
std::map<std::string, double> gradients(const ViTConfig& c) {
  ShardPool pool(1);
  EngineSettings settings;
  settings.max_batch = 4;
  Engine engine(cpu_backend(), pool, c, settings);
  initialise(engine.parameters(), c, 3);
  Arena memory;
  const Tensor images = memory.empty({4, 32, 32, 3}, DType::f32), labels = memory.empty({4}, DType::i32);
  const StreamKey key = stream_key(5, "test", "images");
  for (std::int64_t i = 0; i < images.size(); ++i)
    images.data<float>()[i] = static_cast<float>(normal(key, static_cast<std::uint64_t>(i)));
  for (int i = 0; i < 4; ++i) labels.data<std::int32_t>()[i] = i;
  engine.train_step(images, labels);
  std::map<std::string, double> largest;
  for (std::size_t p = 0; p < engine.parameters().parameters().size(); ++p) {
    const Tensor g = engine.parameters().gradient(0, static_cast<int>(p));
    double& most = largest[engine.parameters().parameters()[p].name];
    for (std::int64_t i = 0; i < g.size(); ++i) most = std::max(most, double(std::abs(g.data<float>()[i])));
  }
  return largest;
}

std::vector<float> start_of(const ViTConfig& c, const std::string& name) {
  ParameterSet parameters;
  const ViT vit(parameters, c);
  parameters.allocate(DType::f32, 0);
  initialise(parameters, c, 1);
  const Tensor t = parameters.value(parameters.find(name));
  return {t.data<float>(), t.data<float>() + t.size()};
}

/// JSON of a placement with `norm` at one site: {"base": "pre_pre", "attn": {"query": ...}}.
std::string with_site(std::string_view site, const std::string& norm) {
  const std::size_t dot = site.find('.');
  const std::string value = dot == site.npos ? norm : concat("{\"", site.substr(dot + 1), "\": ", norm, "}");
  return concat(R"({"base": "pre_pre", ")", site.substr(0, dot), "\": ", value, "}");
}

/// The gains of LayerScale in the last block before training.
std::vector<float> layer_scale_start(const std::string& scale, std::int64_t depth) {
  DescriptorFiles files;
  return start_of(model_with(files, R"({"base": "pre_pre", "layer_scale": )" + scale + "}", depth),
                  concat("blocks.", depth - 1, ".mlp.layer_scale"));
}

}  // namespace

TEST_CASE("descriptor: RMSNorm and Dynamic Tanh learn at every site") {
  DescriptorFiles files;
  int sites = 0;
  const Placement empty;
  visit_sites(empty, [&](std::string_view site, const NormSpec&) {
    if (site == "merge") return;  // Swin's
    ++sites;
    CAPTURE(site);
    const std::string name =
        (site.starts_with("attn.") || site.starts_with("mlp.") ? "blocks.0." : "") + std::string(site);
    const auto rms = gradients(model_with(files, with_site(site, R"({"kind": "rms_norm", "eps": 1e-5})")));
    REQUIRE(rms.contains(name + ".gamma"));
    CHECK_FALSE(rms.contains(name + ".beta"));
    CHECK(rms.at(name + ".gamma") > 0);

    const ViTConfig tanh = model_with(files, with_site(site, R"({"kind": "dyt", "alpha_init": 0.8, "beta_init": 1})"));
    const auto learns = gradients(tanh);
    CHECK(learns.at(name + ".alpha") > 0);
    CHECK(learns.at(name + ".gamma") > 0);
    CHECK(start_of(tanh, name + ".alpha") == std::vector<float>{0.8f});
    for (const float beta : start_of(tanh, name + ".beta")) CHECK(beta == 1.0f);
  });
  CHECK(sites == 17);
}

TEST_CASE("descriptor: Dynamic Tanh starts with alpha 0.5 and no shift") {
  DescriptorFiles files;
  const ViTConfig standard = model_with(files, R"("dyt")");
  CHECK(start_of(standard, "final.alpha") == std::vector<float>{0.5f});
  CHECK(start_of(standard, "final.beta") == std::vector<float>(12, 0.0f));
}

TEST_CASE("descriptor: LayerScale starts by the rule for its depth") {
  for (const char* automatic : {R"("channel")", R"({"kind": "channel", "init": "auto"})"}) {
    CHECK(layer_scale_start(automatic, 18) == std::vector<float>(12, 0.1f));
    CHECK(layer_scale_start(automatic, 19) == std::vector<float>(12, 1e-5f));
    CHECK(layer_scale_start(automatic, 24) == std::vector<float>(12, 1e-5f));
    CHECK(layer_scale_start(automatic, 25) == std::vector<float>(12, 1e-6f));
  }
}

TEST_CASE("descriptor: LayerScale may start at a number, by channel or as a scalar") {
  DescriptorFiles files;
  CHECK(layer_scale_start(R"({"kind": "channel", "init": 0.3})", 2) == std::vector<float>(12, 0.3f));
  CHECK(layer_scale_start(R"({"kind": "scalar", "init": 0.3})", 2) == std::vector<float>{0.3f});
  CHECK(layer_scale_start(R"("scalar")", 2) == std::vector<float>{0.1f});
  CHECK(start_of(vit_of(files.load(R"({"model": {"depth": 1, "layer_scale": {"kind": "scalar", "init": 0}}})")
                            .trials.at(0)
                            .config),
                 "blocks.0.attn.layer_scale") == std::vector<float>{0.0f});
}

TEST_CASE("descriptor: a scalar gain that starts at 0 (ReZero) learns before its branch") {
  DescriptorFiles files;
  const auto learns =
      gradients(model_with(files, R"({"base": "pre_pre", "layer_scale": {"kind": "scalar", "init": 0}})", 2));
  CHECK(learns.at("blocks.0.attn.layer_scale") > 0);
  CHECK(learns.at("blocks.1.mlp.layer_scale") > 0);
  CHECK(learns.at("blocks.0.mlp.fc1.weight") == 0);
  CHECK(learns.at("cls_token") > 0);
  CHECK(learns.at("patch_embed.weight") == 0);  // no branch takes the patches to the class token yet
}
