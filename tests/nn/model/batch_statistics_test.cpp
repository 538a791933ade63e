// What batches give the batch norms of a network: running statistics, and a variance at all.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/training/answers.h"
#include "nn/training/engine.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

/// Sees the patches themselves, so that its statistics depend on the images alone.
ViTConfig with_patch_norm(std::int64_t statistics_batch, RunningFrom running) {
  ViTConfig c = small_vit("pre_pre");
  c.placement.stem.patch_in = norm_of(NormKind::batch_norm);
  c.placement.stem.patch_in.statistics_batch = statistics_batch;
  c.placement.stem.patch_in.running = running;
  return c;
}

struct Steps {
  std::int64_t statistics_batch = 0, accumulate = 1;
  RunningFrom running = RunningFrom::all_groups;
  int threads = 1;
  std::int64_t images_per_shard = 0, images = 12;
  Precision precision = Precision::fp64;
};

/// Running means and variances after two steps of at most 12 images.
std::vector<double> running(const Steps& of) {
  const ViTConfig c = with_patch_norm(of.statistics_batch, of.running);
  EngineSettings settings;
  settings.precision = of.precision;
  settings.max_batch = 12;
  settings.accumulate = of.accumulate;
  settings.images_per_shard = of.images_per_shard;
  ShardPool pool(of.threads);
  Engine engine(cpu_backend(), pool, c, settings);
  initialise(engine.parameters(), c, 3);
  const Batch data(c, of.images, engine.dtype());
  for (int step = 0; step < 2; ++step) engine.train_step(data.images, data.labels);
  const Tensor buffers = engine.parameters().flat_buffers();
  std::vector<double> out;
  for (std::int64_t i = 0; i < buffers.size(); ++i) out.push_back(number_at(buffers, i));
  return out;
}

double difference(const std::vector<double>& a, const std::vector<double>& b, std::size_t begin, std::size_t end) {
  double worst = 0.0;
  for (std::size_t i = begin; i < end; ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}
/// The running mean comes first.
double of_means(const std::vector<double>& a, const std::vector<double>& b) {
  return difference(a, b, 0, a.size() / 2);
}
double of_variances(const std::vector<double>& a, const std::vector<double>& b) {
  return difference(a, b, a.size() / 2, a.size());
}

/// Whether training refuses a batch of one image.
std::string refusal_of_one_image(const ModelConfig& c) {
  EngineSettings settings;
  ShardPool pool(1);
  Engine engine(cpu_backend(), pool, c, settings);
  std::visit([&](const auto& config) { initialise(engine.parameters(), config, 3); }, c);
  const Batch data(c, 1);
  try {
    engine.train_step(data.images, data.labels);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// A batch norm at one site of a network, for all that it has.
template <class Config>
void check_each_site(const Config& plain, std::string_view SiteRow::*lacks) {
  for (const SiteRow& row : kSites) {
    if (!(row.*lacks).empty()) continue;
    CAPTURE(row.path);
    Config c = plain;
    *norm_in(c.placement, row) = norm_of(NormKind::batch_norm);
    if (!validate(c).empty()) continue;
    const std::vector<BatchStatistic> norms = batch_statistics(c, {});
    REQUIRE(!norms.empty());
    bool one = false;
    for (const BatchStatistic& norm : norms) {
      CHECK(norm.name.ends_with(row.path));
      one = one || norm.rows < 2;
    }
    const std::string refusal = refusal_of_one_image(c);
    CHECK_MESSAGE((refusal.find("one value per channel") != std::string::npos) == one, refusal);
  }
}

}  // namespace

TEST_CASE("batch statistics: groups and parts move the running mean as the whole batch does") {
  for (const std::int64_t images : {12, 7}) {  // 7: the last group has 3, in parts too
    CAPTURE(images);
    const std::vector<double> whole = running({.images = images});
    const std::vector<double> groups = running({.statistics_batch = 4, .images = images});
    const std::vector<double> parts = running({.accumulate = 3, .images = images});
    const std::vector<double> both = running({.statistics_batch = 2, .accumulate = 3, .images = images});
    const std::vector<double> pairs = running({.statistics_batch = 2, .images = images});
    CHECK(of_means(groups, whole) < 1e-15);
    CHECK(of_means(parts, whole) < 1e-15);
    CHECK(of_means(both, whole) < 1e-15);
    CHECK(of_variances(parts, groups) < 1e-15);
    CHECK(of_variances(both, pairs) < 1e-15);
    CHECK(of_variances(groups, whole) > 1e-4);  // the mean of the groups' variances
  }
}

TEST_CASE("batch statistics: the first group moves the running values alone, and in parts more than once") {
  constexpr RunningFrom kFirst = RunningFrom::first_group;
  const std::vector<double> whole = running({}), groups = running({.statistics_batch = 4, .running = kFirst}),
                            parts = running({.accumulate = 3, .running = kFirst});
  CHECK(of_means(groups, whole) > 1e-3);
  CHECK(of_means(parts, groups) > 1e-3);
  CHECK(running({.running = kFirst}) == whole);  // of one group they are the same
}

TEST_CASE("batch statistics: the first group of a step moves them once, however the batch is accumulated") {
  constexpr RunningFrom kFirst = RunningFrom::first_group, kOfStep = RunningFrom::first_group_of_step;
  const std::vector<double> in_parts = running({.accumulate = 3, .running = kOfStep});
  CHECK(in_parts == running({.statistics_batch = 4, .running = kFirst}));  // the same four images
  CHECK(of_means(in_parts, running({.accumulate = 3, .running = kFirst})) > 1e-3);
}

TEST_CASE("batch statistics: neither threads nor shards change a bit of running values") {
  for (const std::int64_t accumulate : {1, 3}) {
    const Steps one{.statistics_batch = 2, .accumulate = accumulate, .precision = Precision::fp32};
    for (const std::int64_t images_per_shard : {1, 3})
      for (const int threads : {1, 3}) {
        Steps other = one;
        other.images_per_shard = images_per_shard;
        other.threads = threads;
        CHECK(running(other) == running(one));
      }
  }
}

TEST_CASE("batch statistics: the sites that have one row per image are those that training refuses") {
  ViTConfig vit = small_vit("none");
  check_each_site(vit, &SiteRow::vit_lacks);
  vit.pool = Pool::token;
  check_each_site(vit, &SiteRow::vit_lacks);
  vit.patch_size = 16;  // one patch
  check_each_site(vit, &SiteRow::vit_lacks);
  vit.placement.stem.posembed_out_includes_class = false;
  check_each_site(vit, &SiteRow::vit_lacks);
  vit.pos_embed_class = true;
  check_each_site(vit, &SiteRow::vit_lacks);
  vit.pool = Pool::gap;
  vit.pos_embed_class = false;
  check_each_site(vit, &SiteRow::vit_lacks);
  vit.placement.qk_per_head = false;
  check_each_site(vit, &SiteRow::vit_lacks);
  vit.placement.value_per_head = true;
  check_each_site(vit, &SiteRow::vit_lacks);
  SwinConfig swin = small_swin("none");
  check_each_site(swin, &SiteRow::swin_lacks);
  swin.image_size = {8, 8};  // the last stage has one token
  check_each_site(swin, &SiteRow::swin_lacks);
}

TEST_CASE("batch statistics: a text tower has its own") {
  ViTConfig c = small_vit("none");
  c.task = Task::contrast;
  c.text = {.vocabulary = 11, .length = 5, .embed_dim = 24, .depth = 2, .num_heads = 3, .mlp_dim = 48};
  c.text.placement.pooled = c.text.placement.attn.pre = norm_of(NormKind::batch_norm);
  const ModelConfig config = c;
  const std::vector<BatchStatistic> norms = batch_statistics(config, {});
  REQUIRE(norms.size() == 3);
  CHECK(norms[0].name == "text.blocks.0.attn.pre");
  CHECK(norms[0].rows == 5);
  CHECK(norms[2].name == "text.pooled");
  CHECK(norms[2].rows == 1);
  CHECK(norms[2].spec == &std::get<ViTConfig>(config).text.placement.pooled);
}

TEST_CASE("batch statistics: a frozen norm has none") {
  ViTConfig c = small_vit("bn");
  CHECK(batch_statistics(c, {}).size() == 5);
  const std::vector<std::string> first{"blocks.0"};
  CHECK(batch_statistics(c, first).size() == 3);
  const std::vector<std::string> all{"stem", "blocks.0-1", "final"};
  CHECK(batch_statistics(c, all).empty());
}
