// Sites that some blocks have and others have not.
#include <doctest/doctest.h>

#include <functional>
#include <map>

#include "nn/model/init.h"
#include "nn/model/vit.h"
#include "nn/training/engine.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

const NormSpec kLayer = norm_of(NormKind::layer_norm), kRms = norm_of(NormKind::rms_norm);
const NormSpec kBatch = norm_of(NormKind::batch_norm);

BlockRange range(std::int64_t first, std::int64_t last, const NormSpec& pre) {
  return {first, last, {.pre = pre}, {.pre = pre}};
}

/// "0-1:rms_norm 2:none ...", the norm before attention in each range.
std::string text_of(const std::vector<BlockRange>& ranges) {
  std::string out;
  for (const BlockRange& r : ranges)
    out += (out.empty() ? "" : " ") + block_range_name(r.first, r.last) + ":" + std::string(to_string(r.attn.pre.kind));
  return out;
}

ViTConfig four_blocks(std::string_view placement = "pre_pre") {
  ViTConfig c = small_vit(placement);
  c.depth = 4;
  return c;
}

/// RMS norms in the first two of four blocks, at more sites than the others have.
ViTConfig first_half_rms() {
  ViTConfig c = four_blocks();
  c.placement.blocks = {{0, 1, {.pre = kRms, .query = kRms, .key = kRms}, {.pre = kRms, .inner = kRms}}};
  return c;
}
/// The sites of those two blocks in all four.
ViTConfig rms_everywhere() {
  const Placement mixed = first_half_rms().placement;
  ViTConfig c = four_blocks("rms_norm");
  c.placement.attn = mixed.blocks[0].attn;
  c.placement.mlp = mixed.blocks[0].mlp;
  return c;
}

/// Calls `check` with a placement of three ranges, the same carved from `first` to `last`, and these two.
void for_each_carving(
    const std::function<void(const Placement&, const Placement&, std::int64_t, std::int64_t)>& check) {
  Placement start = find_placement("pre_pre")->placement;
  start.blocks = {range(2, 4, kRms), range(7, 7, kBatch), range(9, 12, kRms)};
  for (std::int64_t first = 0; first < 14; ++first)
    for (std::int64_t last = first; last < 15; ++last) {
      Placement p = start;
      carve_blocks(p, first, last);
      CAPTURE(first);
      CAPTURE(last);
      CAPTURE(text_of(p.blocks));
      check(start, p, first, last);
    }
}

/// Named values of one image on its way through the network.
std::map<std::string, std::vector<float>> values_on_the_way(const ViTConfig& c) {
  ParameterSet parameters;
  const ViT vit(parameters, c);
  parameters.allocate(DType::f32, 0);
  initialise(parameters, c, 3);
  Arena arena;
  Tape tape(cpu_backend(), arena);
  Tensor images = arena.empty({1, c.image_size[0], c.image_size[1], c.channels}, DType::f32);
  const StreamKey key = stream_key(5, "test", "images");
  for (std::int64_t i = 0; i < images.size(); ++i)
    images.data<float>()[i] = static_cast<float>(normal(key, static_cast<std::uint64_t>(i)));
  std::map<std::string, std::vector<float>> seen;
  Observers observers;
  observers.value = [&](const Shard&, const std::string& name, const Var& x) {
    seen[name].assign(x.value().data<float>(), x.value().data<float>() + x.value().size());
  };
  const Step step{.parameters = parameters, .observers = &observers};
  vit(tape.input(images), {.step = step, .tape = tape});
  return seen;
}

}  // namespace

TEST_CASE("block_ranges: a block has the sites of its range or else of the row") {
  Placement p = find_placement("pre_pre")->placement;
  p.blocks = {range(1, 2, kRms), range(4, 4, kBatch)};
  const NormKind expected[] = {NormKind::layer_norm, NormKind::rms_norm,   NormKind::rms_norm,
                               NormKind::layer_norm, NormKind::batch_norm, NormKind::layer_norm};
  for (std::int64_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    CHECK(p.attention_sites(i).pre.kind == expected[i]);
    CHECK(p.mlp_sites(i).pre.kind == expected[i]);
  }
}

TEST_CASE("block_ranges: batch norm in a range is seen") {
  Placement p = find_placement("pre_pre")->placement;
  p.blocks = {range(1, 2, kRms), range(4, 4, kBatch)};
  CHECK(uses_batch_norm(p));
  p.blocks.pop_back();
  CHECK_FALSE(uses_batch_norm(p));
}

TEST_CASE("block_ranges: carving cuts ranges at the first and the last block") {
  for_each_carving([](const Placement&, const Placement& p, std::int64_t first, std::int64_t last) {
    std::int64_t covered = 0, before = -1;
    for (const BlockRange& r : p.blocks) {
      CHECK(r.first > before);
      CHECK(r.first <= r.last);
      CHECK((r.last < first || r.first > last || (first <= r.first && r.last <= last)));
      if (first <= r.first && r.last <= last) covered += r.last - r.first + 1;
      before = r.last;
    }
    CHECK(covered == last - first + 1);
  });
}

TEST_CASE("block_ranges: carving changes no block's sites") {
  for_each_carving([](const Placement& start, const Placement& p, std::int64_t, std::int64_t) {
    for (std::int64_t i = 0; i < 16; ++i) {
      CHECK(p.attention_sites(i) == start.attention_sites(i));
      CHECK(p.mlp_sites(i) == start.mlp_sites(i));
    }
  });
}

TEST_CASE("block_ranges: equal networks have one form") {
  const auto simple = [](std::vector<BlockRange> ranges, std::int64_t depth) {
    Placement p = find_placement("pre_pre")->placement;
    p.blocks = std::move(ranges);
    simplify_blocks(p, depth);
    return std::string(to_string(p.attn.pre.kind)) + " | " + text_of(p.blocks);
  };
  CHECK(simple({}, 4) == "layer_norm | ");
  CHECK(simple({range(0, 1, kLayer)}, 4) == "layer_norm | ");
  CHECK(simple({range(0, 0, kRms), range(1, 1, kRms)}, 6) == "layer_norm | 0-1:rms_norm");
  CHECK(simple({range(0, 2, kRms)}, 4) == "rms_norm | 3:layer_norm");    // what most blocks have
  CHECK(simple({range(2, 3, kRms)}, 4) == "layer_norm | 2-3:rms_norm");  // as many: the earlier ones
  CHECK(simple({range(0, 1, kRms)}, 4) == "rms_norm | 2-3:layer_norm");  // likewise
  CHECK(simple({range(0, 3, kRms)}, 4) == "rms_norm | ");                // no block is left to the row
  CHECK(simple({range(3, 5, kRms)}, 4) == "layer_norm | 3-5:rms_norm");  // a mistake, for validate() to tell
  CHECK(simple({range(0, 0, kRms), range(2, 2, kRms)}, 5) == "layer_norm | 0:rms_norm 2:rms_norm");
}

TEST_CASE("block_ranges: a block has the parameters of its own sites") {
  ParameterSet parameters;
  const ViT vit(parameters, first_half_rms());
  CHECK(parameters.find("blocks.0.attn.query.gamma") >= 0);
  CHECK(parameters.find("blocks.1.mlp.inner.gamma") >= 0);
  CHECK(parameters.find("blocks.1.attn.pre.beta") < 0);
  CHECK(parameters.find("blocks.2.attn.pre.beta") >= 0);
  CHECK(parameters.find("blocks.2.attn.query.gamma") < 0);
}

TEST_CASE("block_ranges: the cost counts the parameters of all ranges") {
  ParameterSet parameters;
  const ViT vit(parameters, first_half_rms());
  CHECK(parameters.count() == model_cost(first_half_rms()).parameters);
}

TEST_CASE("block_ranges: a block computes what it would in a network of its sites") {
  const auto seen = values_on_the_way(first_half_rms()), all_rms = values_on_the_way(rms_everywhere()),
             all_layer = values_on_the_way(four_blocks());
  for (const char* name : {"stem", "blocks.0.attn", "blocks.0.mlp", "blocks.1.attn", "blocks.1.mlp"}) {
    CAPTURE(name);
    CHECK(seen.at(name) == all_rms.at(name));
  }
  CHECK(seen.at("blocks.0.attn") != all_layer.at("blocks.0.attn"));
  CHECK(seen.at("blocks.2.attn") != all_rms.at("blocks.2.attn"));
}

TEST_CASE("block_ranges: a range with the sites of another row computes what that row does") {
  ViTConfig flipped = rms_everywhere();
  flipped.placement.blocks = {{0, 2, four_blocks().placement.attn, four_blocks().placement.mlp}};
  const auto seen = values_on_the_way(flipped), all_layer = values_on_the_way(four_blocks());
  for (const char* name : {"blocks.0.attn", "blocks.2.mlp"}) CHECK(seen.at(name) == all_layer.at(name));
  CHECK(seen.at("blocks.3.attn") != all_layer.at("blocks.3.attn"));
}

TEST_CASE("block_ranges: a Dynamic Tanh starts as its range says") {
  ViTConfig c = four_blocks("dyt");
  NormSpec other = norm_of(NormKind::dyt);
  other.alpha_init = 0.8;
  other.beta_init = 1.0;
  c.placement.blocks = {range(1, 2, other)};
  ParameterSet parameters;
  const ViT vit(parameters, c);
  const auto start = [&](const char* name) { return init_rule(parameters, parameters.find(name), c).scale; };
  CHECK(start("blocks.0.attn.pre.alpha") == 0.5);
  CHECK(start("blocks.1.attn.pre.alpha") == 0.8);
  CHECK(start("blocks.2.mlp.pre.beta") == 1.0);
  CHECK(start("blocks.3.mlp.pre.beta") == 0.0);
  CHECK(start("blocks.1.mlp.pre.gamma") == 1.0);
}

TEST_CASE("block_ranges: a range beyond the depth is a problem of the configuration") {
  ViTConfig c = four_blocks();
  c.placement.blocks = {range(1, 1, kRms), range(3, 4, kRms)};
  const auto problems = validate(c);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].key == "placement.blocks.3-4");
  CHECK(problems[0].message == "there is no block 4: depth 4 has the blocks 0 to 3");
}
