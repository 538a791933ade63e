// "blocks" of a placement in descriptors.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/schema.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

ViTConfig model_of(const Experiment& e, std::size_t trial = 0) { return vit_of(e.trials.at(trial).config); }

/// The norm before attention in every block: "rms_norm rms_norm layer_norm".
std::string pre_of(const ViTConfig& model) {
  std::string out;
  for (std::int64_t i = 0; i < model.depth; ++i)
    out += std::string(i > 0 ? " " : "") + std::string(to_string(model.placement.attention_sites(i).pre.kind));
  return out;
}

std::string with_blocks(const std::string& blocks, const std::string& base = "pre_pre") {
  return R"({"model": {"depth": 4, "placement": {"base": ")" + base + R"(", "blocks": )" + blocks + "}}}";
}

const char* const kTwoRanges = R"({"0-1": {"attn": {"pre": "rms_norm"}}, "3": {"mlp": {"post": "dyt"}}})";

TrialConfig config(const std::string& blocks) {
  DescriptorFiles files;
  return files.load(with_blocks(blocks)).trials.at(0).config;
}

/// Five blocks, the first three with RMSNorm by the base, with changes to it.
ViTConfig model_on_blocks(const std::string& changes) {
  DescriptorFiles files;
  std::string text =
      R"({"placements": {"mine": {"base": "pre_pre", "blocks": {"0-2": {"attn": {"pre": "rms_norm"}}}}},
    "model": {"depth": 5, "placement": {"base": "mine", %}}})";
  return model_of(files.load(text.replace(text.find('%'), 1, changes)));
}

}  // namespace

TEST_CASE("descriptor: the sites of block ranges add to those of the placement") {
  DescriptorFiles files;
  const ViTConfig c = model_of(files.load(with_blocks(
      R"({"0-1": {"attn": {"pre": "rms_norm", "query": "dyt"}}, "3": {"mlp": {"pre": {"eps": 1e-5}}}, "rest": {"attn": {"post": "affine"}}})")));
  CHECK(pre_of(c) == "rms_norm rms_norm layer_norm layer_norm");
  CHECK(c.placement.attention_sites(1).query.kind == NormKind::dyt);
  CHECK(c.placement.attention_sites(1).post.kind == NormKind::none);
  CHECK(c.placement.mlp_sites(0) == find_placement("pre_pre")->placement.mlp);
  CHECK(c.placement.attention_sites(2).post.kind == NormKind::affine);
  CHECK(c.placement.attention_sites(3).post.kind == NormKind::none);
  CHECK(c.placement.mlp_sites(3).pre == NormSpec{.kind = NormKind::layer_norm, .eps = 1e-5});
  CHECK(c.placement.final.kind == NormKind::layer_norm);
}

TEST_CASE("descriptor: block ranges add to those of the base") {
  CHECK(pre_of(model_on_blocks(R"("final": "dyt")")) == "rms_norm rms_norm rms_norm layer_norm layer_norm");
  CHECK(pre_of(model_on_blocks(R"("blocks": {"2-3": {"attn": {"pre": "dyt"}}})")) ==
        "rms_norm rms_norm dyt dyt layer_norm");
}

TEST_CASE("descriptor: the rest is every block without a range in the same object") {
  CHECK(pre_of(model_on_blocks(R"("blocks": {"2-3": {}, "rest": {"attn": {"pre": "dyt"}}})")) ==
        "dyt dyt rms_norm layer_norm dyt");
}

TEST_CASE("descriptor: a site for all blocks is a site of every range") {
  CHECK(pre_of(model_on_blocks(R"("attn": {"pre": "none"})")) == "none none none none none");
  const ViTConfig c = model_on_blocks(R"("attn": {"out": "affine"})");
  CHECK(pre_of(c) == "rms_norm rms_norm rms_norm layer_norm layer_norm");
  for (std::int64_t i = 0; i < 5; ++i) CHECK(c.placement.attention_sites(i).out.kind == NormKind::affine);
}

TEST_CASE("descriptor: percent of the depth are whole blocks, the first at least one") {
  const auto pre_at = [](int depth, const std::string& blocks) {
    DescriptorFiles files;
    return pre_of(model_of(files.load(
        concat(R"({"model": {"depth": )", depth, R"(, "placement": {"base": "pre_pre", "blocks": )", blocks, "}}}"))));
  };
  const std::string quarter = R"({"0-25%": {"attn": {"pre": "dyt"}}})";
  CHECK(pre_at(1, quarter) == "dyt");
  CHECK(pre_at(3, quarter) == "dyt layer_norm layer_norm");
  CHECK(pre_at(8, quarter) == "dyt dyt layer_norm layer_norm layer_norm layer_norm layer_norm layer_norm");
  const std::string thirds =
      R"({"0-33%": {"attn": {"pre": "dyt"}}, "33-66%": {"attn": {"pre": "none"}}, "66-100%": {"attn": {"pre": "affine"}}})";
  CHECK(pre_at(4, thirds) == "dyt none affine affine");
  CHECK(pre_at(1, thirds) == "dyt");
}

TEST_CASE("descriptor: a row with percent follows the depth of a sweep") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": {"model.placement": ["mix_ln"], "model.depth": [2, 8]}})");
  CHECK(pre_of(model_of(e, 0)) == "none layer_norm");
  CHECK(pre_of(model_of(e, 1)) == "none none layer_norm layer_norm layer_norm layer_norm layer_norm layer_norm");
  CHECK(canonical_json(e.trials[1].config).find(R"("blocks":{"0-1":{)") != std::string::npos);
}

TEST_CASE("descriptor: the name of a row has its percent as they are written") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": {"model.placement": [
      {"base": "pre_pre", "blocks": {"0-25%": {"mlp": {"inner": "rms_norm"}}, "50-100%": {"attn": {"pre": "dyt"}}}}]}})");
  CHECK(e.rows[0].label == "pre_pre + blocks.0-25%.mlp.inner=rms_norm + blocks.50-100%.attn.pre=dyt");
}

TEST_CASE("descriptor: percent and numbers of blocks do not mix") {
  DescriptorFiles files;
  CHECK(files.problems(with_blocks(R"({"0-25%": {}, "3": {}})")) ==
        "d.json:1:81: /model/placement/blocks/3: is in numbers of blocks, but the ranges before it are not");
  CHECK(files.problems(with_blocks(R"({"3": {}})", "mix_ln")).find("the ranges of the base are not") !=
        std::string::npos);
  CHECK(files.problems(with_blocks(R"({"0-50%": {}, "25-75%": {}})")).find("overlaps \"0-50%\"") != std::string::npos);
  CHECK(files.problems(with_blocks(R"({"50-120%": {}})")).find("expected blocks as") != std::string::npos);
}

TEST_CASE("descriptor: an axis may point into blocks") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"model": {"depth": 4, "placement": "dpn"}, "sweep": {
    "model.placement.blocks.0-2.attn.pre": ["layer_norm", "rms_norm"], "model.placement.blocks.rest.mlp.pre": ["none"]}})");
  REQUIRE(e.rows.size() == 2);
  CHECK(pre_of(model_of(e, 0)) == "layer_norm layer_norm layer_norm layer_norm");
  CHECK(pre_of(model_of(e, 1)) == "rms_norm rms_norm rms_norm layer_norm");
  CHECK(model_of(e, 1).placement.mlp_sites(3).pre.kind == NormKind::none);
  CHECK(model_of(e, 1).placement.mlp_sites(0).pre.kind == NormKind::layer_norm);
  CHECK(e.rows[1].label == "attn.pre=rms_norm, mlp.pre=none");
}

TEST_CASE("descriptor: --set may point into blocks") {
  DescriptorFiles files;
  CHECK(model_of(files.load("{}", {"model.placement.blocks.0.attn.pre=dyt"})).placement.attention_sites(0).pre.kind ==
        NormKind::dyt);
}

TEST_CASE("descriptor: axes into overlapping ranges are refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"sweep": {"model.placement.blocks.0-2.attn.pre": ["dyt"],
    "model.placement.blocks.2.attn.pre": ["dyt"]}})") ==
        "d.json:2:5: /sweep/model.placement.blocks.2.attn.pre: overlaps \"0-2\"; a block takes its sites from one "
        "range only");
}

TEST_CASE("descriptor: a row with blocks is labelled by its difference to the base") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"model": {"depth": 4},
    "placements": {"mine": {"base": "pre_pre", "blocks": {"0-1": {"attn": {"pre": "rms_norm"}}}}},
    "sweep": {"model.placement": ["mine",
      {"base": "pre_pre", "blocks": {"0-1": {"attn": {"pre": "rms_norm", "key": "dyt"}}, "3": {"mlp": {"post": "affine"}}}},
      {"base": "mine", "final": "none"},
      {"base": "mine", "blocks": {"0": {"attn": {"pre": "layer_norm"}}}},
      {"base": "pre_pre", "blocks": {"2": {}, "rest": {"attn": {"pre": "none"}}}}]}})");
  CHECK(e.rows[0].label == "mine");
  CHECK(e.rows[1].label ==
        "pre_pre + blocks.0-1.attn.pre=rms_norm + blocks.0-1.attn.key=dyt + blocks.3.mlp.post=affine");
  CHECK(e.rows[2].label == "mine + final=none");
  CHECK(e.rows[3].label == "mine + blocks.0.attn.pre=layer_norm + blocks.1.attn.pre=rms_norm");
  CHECK(e.rows[4].label == "pre_pre + attn.pre=none + blocks.2.attn.pre=layer_norm");
}

TEST_CASE("descriptor: a range beyond the depth is refused") {
  DescriptorFiles files;
  CHECK(files.problems(with_blocks(R"({"1": {}, "2-4": {"mlp": {"pre": "none"}}})")) ==
        "d.json:1:84: /model/placement/blocks/2-4: there is no block 4: depth 4 has the blocks 0 to 3");
  CHECK(files.problems(R"({"placements": {"mine": {"blocks": {"7": {"attn": {"pre": "dyt"}}}}},
    "sweep": {"model.placement": ["mine", {"base": "dpn", "blocks": {"5": {"attn": {"pre": "dyt"}}}}], "model.depth": [4, 6]}})") ==
        "d.json:2:35: /sweep/model.placement/0: there is no block 7: depth 4 has the blocks 0 to 3\n"
        "d.json:2:35: /sweep/model.placement/0: there is no block 7: depth 6 has the blocks 0 to 5\n"
        "d.json:2:75: /sweep/model.placement/1/blocks/5: there is no block 5: depth 4 has the blocks 0 to 3");
}

TEST_CASE("canonical: both forms of a placement with blocks read back") {
  const TrialConfig c = config(kTwoRanges);
  CHECK(
      canonical_json(c) ==
      R"({"model":{"depth":4,"placement":{"attn":{"pre":"rms_norm"},"blocks":{"2":{"attn":{"pre":"layer_norm"}},)"
      R"("3":{"attn":{"pre":"layer_norm"},"mlp":{"post":"dyt"}}},"final":"layer_norm","mlp":{"pre":"layer_norm"}}},"schema":1})");
  CHECK(config_from_json(canonical_json(c), "canonical") == c);
  CHECK(config_from_json(full_json(c), "full") == c);
  CHECK(canonical_json(config_from_json(full_json(c), "full")) == canonical_json(c));
}

TEST_CASE("canonical: equal networks have one id however their blocks are written") {
  const TrialConfig c = config(kTwoRanges);
  const char* spellings[] = {
      R"({"0": {"attn": {"pre": "rms_norm"}}, "1": {"attn": {"pre": "rms_norm"}}, "3": {"mlp": {"post": "dyt"}}})",
      R"({"2": {}, "3": {"mlp": {"post": "dyt"}}, "rest": {"attn": {"pre": "rms_norm"}}})",
  };
  for (const char* text : spellings) CHECK(trial_id(config(text)) == trial_id(c));
  CHECK(trial_id(config(R"({"0-1": {}, "rest": {"attn": {}}})")) == trial_id(config("{}")));
  CHECK(trial_id(config(R"({"0-3": {"attn": {"pre": "rms_norm"}, "mlp": {"pre": "rms_norm"}}})")) ==
        trial_id(config(R"({"rest": {"mlp": {"pre": "rms_norm"}, "attn": {"pre": "rms_norm"}}})")));

  TrialConfig by_hand = c;  // not in its simplest form
  vit_of(by_hand).placement = find_placement("pre_pre")->placement;
  vit_of(by_hand).placement.blocks = {{0, 3, vit_of(by_hand).placement.attn, vit_of(by_hand).placement.mlp}};
  CHECK(trial_id(by_hand) == trial_id(config("{}")));
}

TEST_CASE("canonical: different blocks with a norm have different ids") {
  CHECK(trial_id(config(R"({"0": {"attn": {"pre": "none"}}})")) !=
        trial_id(config(R"({"1": {"attn": {"pre": "none"}}})")));
}

TEST_CASE("schema: blocks are ranges of closed objects") {
  const std::string schema = json_schema();
  CHECK(schema.find(R"("^((0|[1-9][0-9]*)(-[1-9][0-9]*%?)?|rest)$")") != std::string::npos);
  CHECK(describe_fields().find("| `blocks` | object |") != std::string::npos);
}
