// Rotary positions and registers in descriptors.
#include <doctest/doctest.h>

#include <set>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/formula.h"
#include "experiments/lab/weights/model_names.h"
#include "nn/model/model.h"
#include "tests/lab/base/text.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

std::string descriptor(const std::string& keys) {
  return concat(R"-({"dataset": "gratings", "model": {"embed_dim": 16, "depth": 2, "num_heads": 2)-",
                keys.empty() ? "" : ", ", keys, "}}");
}
TrialConfig config_of(const std::string& keys) {
  DescriptorFiles files;
  return files.load(descriptor(keys)).trials.front().config;
}
ViTConfig vit_of(const std::string& keys) { return std::get<ViTConfig>(config_of(keys).model); }
std::string id_of(const std::string& keys) { return trial_id(config_of(keys)); }
/// Without the file and the place in it.
std::string problem(const std::string& keys) {
  DescriptorFiles files;
  const std::string text = files.problems(descriptor(keys));
  const std::size_t pointer = text.find(": /");
  return pointer == std::string::npos ? text : text.substr(pointer + 2);
}

}  // namespace

TEST_CASE("rotary: defaults enter no id, and equal settings have equal ids") {
  const std::string plain = id_of("");
  CHECK(id_of(R"-("rotary": "none")-") == plain);
  CHECK(id_of(R"-("rotary": {"dialect": "none"})-") == plain);
  CHECK(id_of(R"-("registers": 0)-") == plain);
  CHECK(id_of(R"-("pos_embed": "learned")-") == plain);
  const std::string canonical = canonical_json(config_of(""));
  CHECK_FALSE(has(canonical, "rotary"));
  CHECK_FALSE(has(canonical, "registers"));
  const std::string dinov3 = id_of(R"-("rotary": "dinov3")-"), eva02 = id_of(R"-("rotary": "eva02")-");
  CHECK(id_of(R"-("rotary": {"dialect": "dinov3", "base": 100})-") == dinov3);
  CHECK(id_of(R"-("rotary": {"base": 10000.0, "dialect": "eva02", "grid": 0})-") == eva02);
  CHECK(id_of(R"-("patch_size": 8, "rotary": {"dialect": "eva02", "grid": 4})-") ==
        id_of(R"-("patch_size": 8, "rotary": "eva02")-"));
  std::set<std::string> ids{plain, dinov3, eva02};
  for (const char* keys :
       {R"-("rotary": {"dialect": "dinov3", "base": 10000})-", R"-("rotary": {"dialect": "eva02", "grid": [14, 7]})-",
        R"-("registers": 4, "rotary": {"dialect": "eva02", "register_base": 100})-",
        R"-("registers": 4, "rotary": "eva02")-", R"-("registers": 4)-", R"-("pos_embed": "none")-",
        R"-("pos_embed": "none", "rotary": "eva02")-"})
    CHECK_MESSAGE(ids.insert(id_of(keys)).second, keys);
}

TEST_CASE("rotary: what ids are made of, and that it is read back") {
  const auto check = [](const std::string& keys, const std::string& part) {
    CAPTURE(keys);
    const TrialConfig config = config_of(keys);
    const std::string text = canonical_json(config);
    CHECK_MESSAGE(has(text, part), text);
    for (const std::string& written : {text, full_json(config)}) {
      CAPTURE(written);
      const TrialConfig again = config_from_json(written, "text");
      CHECK(again == config);
      CHECK(canonical_json(again) == text);
    }
  };
  check(R"-("rotary": "dinov3", "pos_embed": "none", "registers": 4)-",
        R"-("pos_embed":"none","registers":4,"rotary":"dinov3")-");
  check(R"-("rotary": {"dialect": "eva02", "grid": [3, 5]})-", R"-("rotary":{"dialect":"eva02","grid":[3,5]})-");
  check(R"-("rotary": {"dialect": "dinov3", "base": 50})-", R"-("rotary":{"base":50.0,"dialect":"dinov3"})-");
}

TEST_CASE("rotary: wrong values are named with what is meant") {
  CHECK(problem(R"-("rotary": "dinov2")-") == "/model/rotary: unknown word \"dinov2\"; did you mean \"dinov3\"?");
  CHECK(has(problem(R"-("rotary": {"base": 100})-"), "/model/rotary: give the \"dialect\""));
  CHECK(has(problem(R"-("rotary": {"dialect": "eva02", "theta": 100})-"), "/model/rotary/theta: "));
  CHECK(has(problem(R"-("rotary": {"dialect": "dinov3", "grid": 14})-"),
            "/model/rotary/grid: only eva02 counts patches of a reference grid"));
  CHECK(has(problem(R"-("rotary": {"dialect": "dinov3", "register_base": 100})-"), "/model/rotary/register_base: "));
  CHECK(has(problem(R"-("rotary": {"dialect": "none", "base": 100})-"),
            "/model/rotary/base: dialect none has no rotary positions"));
  CHECK(has(problem(R"-("rotary": {"dialect": "eva02", "base": 0})-"), "/model/rotary/base: "));
  CHECK(has(problem(R"-("rotary": {"dialect": "eva02", "base": "x"})-"), "/model/rotary/base: "));
  CHECK(has(problem(R"-("rotary": {"dialect": "eva02", "grid": [4]})-"), "/model/rotary/grid: "));
  CHECK(has(problem(R"-("rotary": {"dialect": "eva02", "grid": [4, 0]})-"), "a side of 4 beside one of 0"));
  CHECK(has(problem(R"-("rotary": 3)-"), "/model/rotary: "));
  DescriptorFiles files;
  CHECK(has(files.problems(R"-({"model": {"embed_dim": 16, "num_heads": 8, "rotary": "eva02"}})-"),
            "/model/rotary: heads have 2 channels, of which rotary positions turn a multiple of 4"));
  CHECK(has(problem(R"-("registers": -1)-"), "/model/registers: "));
  CHECK(has(problem(R"-("registers": 2000)-"), "/model/registers: "));
  CHECK(has(problem(R"-("registers": 1.5)-"), "/model/registers: "));
  CHECK(has(problem(R"-("registers": 3, "rotary": {"dialect": "eva02", "register_base": 100})-"),
            "/model/rotary/register_base: the registers turn as a square grid, and 3 are none"));
  CHECK(has(problem(R"-("pos_embed": "none", "pool": "token", "pos_embed_class": true)-"), "/model/pos_embed_class: "));
}

TEST_CASE("rotary: a Swin and a text tower have neither, and a Swin says what it has") {
  DescriptorFiles files;
  const auto swin = [&](const std::string& key) {
    return files.problems(R"-({"dataset": "gratings", "model": {"kind": "swin", "depths": [1], "num_heads": [2],
      "patch_size": 4, )-" +
                          key + "}}");
  };
  CHECK_MESSAGE(has(swin(R"-("rotary": "dinov3")-"), "position biases"), swin(R"-("rotary": "dinov3")-"));
  CHECK_MESSAGE(has(swin(R"-("registers": 4)-"), "registers"), swin(R"-("registers": 4)-"));
  const ViTConfig c = vit_of(R"-("rotary": "eva02", "registers": 4)-");
  CHECK_FALSE(text_tower(c).rotary.given());
  CHECK(text_tower(c).registers == 0);
}

TEST_CASE("rotary: equations show positions, turns and registers") {
  const auto stem = [](const std::string& keys) { return stem_formula(config_of(keys).model); };
  CHECK(stem("") == "x = Embed(patches) + pos");
  CHECK(stem(R"-("pos_embed": "none")-") == "x = Embed(patches)");
  CHECK(stem(R"-("registers": 2)-") == "x = [reg, Embed(patches) + pos]");
  CHECK(stem(R"-("pool": "token", "registers": 2)-") == "x = [cls, reg, Embed(patches) + pos]");
  CHECK(stem(R"-("pool": "token", "pos_embed_class": true)-") == "x = [cls, Embed(patches)] + pos");
  CHECK(stem(R"-("pool": "token", "pos_embed_class": true, "registers": 2, "distill_token": true)-") ==
        "x = [cls + pos, dist + pos, reg, Embed(patches) + pos]");
  CHECK(stem(R"-("pool": "token", "registers": 2, "pos_embed": "none")-") == "x = [cls, reg, Embed(patches)]");
  CHECK(stem(R"-("pool": "token", "registers": 2, "placement": {"base": "pre_pre", "stem": {"posembed_out":
      "layer_norm", "posembed_out_includes_class": false}})-") == "x = [cls, reg, LN(Embed(patches) + pos)]");
  CHECK(stem(R"-("pool": "token", "registers": 2, "placement": "stem_posembed")-") ==
        "x = LN([cls, reg, Embed(patches) + pos])");
  CHECK(end_formula(config_of(R"-("registers": 2)-").model) == "logits = head(mean_patches(LN(x)))");
  CHECK(end_formula(config_of("").model) == "logits = head(mean_tokens(LN(x)))");
  const auto inside = [](const std::string& keys) {
    const std::vector<std::string> lines = block_formula(config_of(keys).model, 0).inside;
    return lines.empty() ? "" : lines.front();
  };
  CHECK(inside("") == "");
  CHECK(
      inside(R"-("rotary": "dinov3")-") ==
      "Attn(h) = proj(heads), heads = softmax(R(q) R(k)^T / sqrt(d)) v; R turns pairs of channels by the row and column "
      "of a patch (dinov3, base 100)");
  CHECK(
      inside(R"-("rotary": {"dialect": "eva02", "grid": [3, 5]}, "placement": "vit5")-") ==
      "Attn(h) = proj(heads), heads = softmax(R(RMS(q)) R(RMS(k))^T / sqrt(d)) v; R turns pairs of channels by the row "
      "and column of a patch (eva02, base 10000, grid [3, 5])");
  CHECK(site_changes(config_of("").model, config_of(R"-("rotary": "dinov3", "registers": 4)-").model) ==
        std::vector<std::string>{"rotary: none -> dinov3", "registers: 0 -> 4"});
}

TEST_CASE("rotary: a start that counts patches in another grid must say which") {
  DescriptorFiles files;
  files.write("first.json",
              R"({"model": {"patch_size": 8, "pos_embed": "none", "rotary": "eva02"}, "dataset": "cifar10"})");
  const auto with = [&](const std::string& rotary, const std::string& from = "first.json") {
    return files.problems(R"({"start": {"from": {"descriptor": ")" + from + R"("}}, "dataset": "cifar10",
        "model": {"image_size": 64, "patch_size": 8, "pos_embed": "none", "rotary": )" +
                          rotary + R"(},
        "train": {"augment": {"crop": "stretch"}, "eval_transform": {"crop": "stretch"}}})");
  };
  CHECK(has(with(R"("eva02")"),
            "its rotary positions count patches in a grid of 4x4; give \"rotary\" the \"grid\" [4, 4]"));
  CHECK(with(R"({"dialect": "eva02", "grid": 4})") == "");
  CHECK(with(R"({"dialect": "eva02", "grid": 8})") == "");
  files.write("wide.json",
              R"({"model": {"patch_size": 8, "pos_embed": "none", "rotary": {"dialect": "eva02", "grid": 8}},
                               "dataset": "cifar10"})");
  CHECK(with(R"("eva02")", "wide.json") == "");
  files.write("dino.json",
              R"({"model": {"patch_size": 8, "pos_embed": "none", "rotary": "dinov3"}, "dataset": "cifar10"})");
  CHECK(with(R"("dinov3")", "dino.json") == "");
}

TEST_CASE("rotary: other programs' names, and what they lack") {
  const auto said = [](NameScheme scheme, const std::string& keys) {
    std::string text;
    for (const SchemeProblem& problem : scheme_problems(scheme, config_of(keys).model)) text += problem.what + "\n";
    return text;
  };
  const auto advice = [](const std::string& keys) {
    std::string text;
    for (const std::string& line : scheme_advice(NameScheme::timm, config_of(keys).model)) text += line + "\n";
    return text;
  };
  CHECK(said(NameScheme::timm, R"-("pool": "token", "registers": 4)-") == "");
  CHECK(advice(R"-("pool": "token", "registers": 4)-") ==
        "registers is 4: timm needs reg_tokens=4\nthe class token has no position: timm needs no_embed_class=True\n");
  CHECK(advice(R"-("pool": "token", "pos_embed_class": true, "registers": 4)-") ==
        "registers is 4: timm needs reg_tokens=4\n");
  CHECK(advice(R"-("pos_embed": "none", "rotary": "dinov3")-") ==
        "positions are rotary: timm needs its class Eva with use_rot_pos_emb=True, attn_type=\"rope\", "
        "rope_temperature=100, rope_type=\"dinov3\", rope_rotate_half=True\n"
        "pos_embed is none: timm needs use_abs_pos_emb=False\n");
  CHECK(has(advice(R"-("rotary": {"dialect": "eva02", "grid": [3, 5]})-"),
            "rope_temperature=10000, ref_feat_shape=(3, 5)\n"));
  CHECK(said(NameScheme::timm, R"-("registers": 4, "rotary": {"dialect": "eva02", "register_base": 100})-") ==
        "rotary.register_base: is set, but timm does not turn registers\n");
  CHECK(
      has(said(NameScheme::timm, R"-("rotary": "eva02", "activation": "relu")-"), "activation: networks of timm with"));
  CHECK(
      has(said(NameScheme::timm, R"-("pool": "token", "distill_token": true, "rotary": "eva02")-"), "distill_token: "));
  CHECK(said(NameScheme::big_vision, R"-("registers": 4, "gelu": "tanh")-") == "registers: Big Vision has none\n");
  CHECK(said(NameScheme::augreg, R"-("rotary": "eva02", "gelu": "tanh")-") ==
        "rotary: is eva02, but AugReg turns no tokens\n");
  CHECK(said(NameScheme::big_vision, R"-("pos_embed": "none", "gelu": "tanh")-") ==
        "pos_embed: is none, but Big Vision adds positions\n");
}

TEST_CASE("rotary: the recipe of ViT-5 is the network of its code") {
  DescriptorFiles files;
  const ViTConfig c = std::get<ViTConfig>(files.load(R"-({"extends": "recipe:vit5"})-").trials.front().config.model);
  CHECK(model_cost(c).parameters == 22037608 + 4 * 384);
  CHECK(c.rotary.register_base == 100);
  CHECK(c.tokens() == 14 * 14 + 5);
}
