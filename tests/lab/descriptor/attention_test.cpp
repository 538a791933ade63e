// Gates, learned scales and exclusive heads of attention in descriptors.
#include <doctest/doctest.h>

#include <set>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/formula.h"
#include "experiments/lab/weights/model_names.h"
#include "nn/model/model.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

std::string descriptor(const std::string& placement, const std::string& keys = "", const std::string& more = "") {
  return concat(R"-({"dataset": "gratings", "model": {"embed_dim": 16, "depth": 2, "num_heads": 2)-",
                placement.empty() ? "" : R"-(, "placement": {"base": "pre_pre", )-" + placement + "}", keys, "}", more,
                "}");
}
TrialConfig config_of(const std::string& placement, const std::string& keys = "") {
  DescriptorFiles files;
  return files.load(descriptor(placement, keys)).trials.front().config;
}
std::string id_of(const std::string& placement) { return trial_id(config_of(placement)); }
/// Without the file and the place in it.
std::string problem(const std::string& placement) {
  DescriptorFiles files;
  const std::string text = files.problems(descriptor(placement));
  const std::size_t pointer = text.find(": /");
  return pointer == std::string::npos ? text : text.substr(pointer + 2);
}

constexpr const char* kGate = R"-("attn_gate": "head")-";
constexpr const char* kChannels = R"-("attn_gate": "channel")-";
constexpr const char* kScale = R"-("attn_scale": "learned")-";
constexpr const char* kExclusive = R"-("attn": {"exclude_self": true})-";
constexpr const char* kOneBlock = R"-("blocks": {"1": {"attn": {"exclude_self": true}}})-";

}  // namespace

TEST_CASE("attention: defaults enter no id, and settings are read back") {
  const std::string plain = id_of("");
  CHECK(id_of(R"-("attn_gate": "none")-") == plain);
  CHECK(id_of(R"-("attn_scale": "fixed")-") == plain);
  CHECK(id_of(R"-("attn": {"exclude_self": false})-") == plain);
  for (const char* key : {"attn_gate", "attn_scale", "exclude_self"})
    CHECK(canonical_json(config_of("")).find(key) == std::string::npos);
  std::set<std::string> ids{plain};
  for (const auto& [keys, part] : {std::pair{kGate, R"-("attn_gate":"head")-"},
                                   {kChannels, R"-("attn_gate":"channel")-"},
                                   {kScale, R"-("attn_scale":"learned")-"},
                                   {kExclusive, R"-("exclude_self":true)-"},
                                   {kOneBlock, R"-("blocks":{"1":{"attn":{"exclude_self":true)-"}}) {
    const auto& shown = keys;
    CAPTURE(shown);
    const TrialConfig config = config_of(keys);
    const std::string text = canonical_json(config);
    CHECK_MESSAGE(text.find(part) != text.npos, text);
    CHECK(ids.insert(trial_id(config)).second);
    for (const std::string& written : {text, full_json(config)}) CHECK(config_from_json(written, "text") == config);
  }
  CHECK(id_of(R"-("blocks": {"0-1": {"attn": {"exclude_self": true}}})-") == id_of(kExclusive));
  CHECK(placement_of(config_of(kOneBlock).model).attention_sites(1).exclude_self);
  CHECK_FALSE(placement_of(config_of(kOneBlock).model).attention_sites(0).exclude_self);
}

TEST_CASE("attention: wrong values are named with what is meant") {
  CHECK(problem(R"-("attn_gate": "heads")-") ==
        "/model/placement/attn_gate: unknown word \"heads\"; did you mean \"head\"?");
  CHECK(problem(R"-("attn_scale": 3)-").starts_with("/model/placement/attn_scale: expected "));
  CHECK(problem(R"-("exclude_self": true)-").find("did you mean") != std::string::npos);
  CHECK(problem(R"-("attn": {"exclude_self": "yes"})-").starts_with("/model/placement/attn/exclude_self: expected "));
  CHECK(problem(R"-("attn": {"attn_gate": "head"})-").starts_with("/model/placement/attn/attn_gate: "));
}

TEST_CASE("attention: rows are labelled, and axes name one part") {
  DescriptorFiles files;
  const Experiment sweep = files.load(descriptor("", "", R"-(, "sweep": {
      "model.placement": ["pre_pre", {"base": "pre_pre", "attn_gate": "head", "attn_scale": "learned"},
        {"base": "pre_pre", "blocks": {"1": {"attn": {"exclude_self": true}}}},
        {"base": "dyt", "attn": {"exclude_self": true}}]})-"));
  std::set<std::string> labels;
  for (const Cell& cell : sweep.rows) labels.insert(cell.label);
  CHECK(labels == std::set<std::string>{"pre_pre", "pre_pre + attn_gate=head + attn_scale=learned",
                                        "pre_pre + blocks.1.attn.exclude_self=true", "dyt + attn.exclude_self=true"});
  const Experiment axes = files.load(descriptor(
      "", "",
      R"-(, "sweep": {"model.placement.attn_gate": ["none", "channel"], "model.placement.attn.exclude_self": [false, true]})-"));
  CHECK(axes.trials.size() == 4);
}

TEST_CASE("attention: equations show the parts") {
  const auto inside = [](const std::string& placement, const std::string& keys = "") {
    std::string out;
    for (const std::string& line : block_formula(config_of(placement, keys).model, 0).inside) out += line + "\n";
    return out;
  };
  CHECK(inside("") == "");
  CHECK(inside(kGate) ==
        "Attn(h) = proj(heads * sigmoid(gate(h))), heads = softmax(q k^T / sqrt(d)) v\ngate: of each head\n");
  CHECK(inside(R"-("attn_gate": "channel", "head_scale": "before_proj", "attn": {"inner": "layer_norm"})-") ==
        "Attn(h) = proj(LN(g * heads * sigmoid(gate(h)))), heads = softmax(q k^T / sqrt(d)) v\n"
        "g: a learned gain per head; gate: of each channel\n");
  CHECK(inside(R"-("attn_scale": "learned", "attn": {"query": "l2", "key": "l2", "exclude_self": true})-") ==
        "Attn(h) = proj(heads), heads = y - (y . v) v / |v|^2, y = softmax(t L2(q) L2(k)^T) v\n"
        "t: exp(min(s, log 100)), a learned s per head, initially log 10\n");
  CHECK(inside(kExclusive) == "Attn(h) = proj(heads), heads = y - (y . v) v / |v|^2, y = softmax(q k^T / sqrt(d)) v\n");
  DescriptorFiles files;
  const ModelConfig of_swin = files
                                  .load(R"-({"dataset": "gratings", "model": {"kind": "swin", "depths": [1],
      "num_heads": [2], "patch_size": 4, "placement": {"base": "pre_pre", "attn_scale": "learned"}}})-")
                                  .trials.front()
                                  .config.model;
  CHECK(block_formula(of_swin, 0).inside.front() == "Attn(h) = proj(heads), heads = softmax(t q k^T + bias) v");
  CHECK(site_changes(config_of("").model, config_of(R"-("attn_gate": "head", "attn_scale": "learned",
      "blocks": {"1": {"attn": {"exclude_self": true}}})-")
                                              .model) ==
        std::vector<std::string>{"attn.exclude_self: false -> true (blocks 1)", "attn_gate: none -> head",
                                 "attn_scale: fixed -> learned"});
}

TEST_CASE("attention: a text tower has its own parts") {
  DescriptorFiles files;
  const auto model = files
                         .load(R"-({"dataset": {"name": "shapes", "label": "kind", "captions": true}, "model": {
      "embed_dim": 16, "depth": 1, "num_heads": 2, "task": "contrast", "text": {"depth": 1, "embed_dim": 16,
      "num_heads": 2, "placement": {"base": "pre_pre", "attn_gate": "head", "attn": {"exclude_self": true}}}}})-")
                         .trials.front()
                         .config.model;
  ParameterSet set;
  make_model(set, model);
  CHECK(set.find("text.blocks.0.attn.gate.weight") >= 0);
  CHECK(set.find("blocks.0.attn.gate.weight") == -1);
}

TEST_CASE("attention: other programs' names, and what they lack") {
  const auto said = [](NameScheme scheme, const std::string& placement) {
    std::string text;
    for (const SchemeProblem& problem : scheme_problems(scheme, config_of(placement).model))
      text += problem.what + "\n";
    return text;
  };
  CHECK(said(NameScheme::timm, kChannels) == "");
  CHECK(scheme_advice(NameScheme::timm, config_of(kChannels).model) ==
        std::vector<std::string>{
            "attn_gate is channel: timm needs an attn_layer derived from Attention of timm.layers with gated=True"});
  ParameterSet set;
  const ModelConfig gated = config_of(kChannels).model;
  make_model(set, gated);
  for (const TensorLink& link : link_tensors(NameScheme::timm, gated, set))
    if (link.ours.starts_with("blocks.1.attn.gate.")) CHECK(link.theirs == link.ours);
  CHECK(said(NameScheme::timm, kGate) == "attn_gate: is of each head, but of each channel in timm\n");
  CHECK(said(NameScheme::timm, R"-("attn_gate": "channel", "attn": {"inner": "layer_norm"})-") ==
        "attn_gate: precedes the norm at attn.inner, but follows it in timm\n");
  CHECK(said(NameScheme::timm, kScale) == "attn_scale: timm has none\n");
  for (const char* excludes : {kExclusive, kOneBlock})
    CHECK(said(NameScheme::timm, excludes).find("attn.exclude_self: is set, but heads keep all parts in timm\n") == 0);
  CHECK(said(NameScheme::big_vision, kChannels).find("attn_gate: Big Vision has none\n") == 0);
  CHECK(said(NameScheme::normlab, kGate) == "");
}
