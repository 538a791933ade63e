// Activations and gated MLPs in descriptors.
#include <doctest/doctest.h>

#include <set>

#include "experiments/lab/cli/formula_check.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/formula.h"
#include "experiments/lab/weights/model_names.h"
#include "nn/model/model.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

std::string descriptor(const std::string& keys, const std::string& more = "") {
  // Texts need captions.
  const char* const data = keys.find("contrast") == keys.npos
                               ? "\"gratings\""
                               : R"-({"name": "shapes", "label": "kind", "captions": true})-";
  return concat("{\"dataset\": ", data, R"-(, "model": {"embed_dim": 16, "depth": 2, "num_heads": 2)-",
                keys.empty() ? "" : ", ", keys, "}", more, "}");
}
TrialConfig config_of(const std::string& keys) {
  DescriptorFiles files;
  return files.load(descriptor(keys)).trials.front().config;
}
std::string id_of(const std::string& keys) { return trial_id(config_of(keys)); }
/// Without the file and the place in it.
std::string problem(const std::string& keys, const std::string& more = "") {
  DescriptorFiles files;
  const std::string text = files.problems(descriptor(keys, more));
  const std::size_t pointer = text.find(": /");
  return pointer == std::string::npos ? text : text.substr(pointer + 2);
}

const char* const kSwin = R"-("kind": "swin", "depths": [1], "num_heads": [2], "patch_size": 4)-";
std::string swin(const std::string& keys) {
  return concat(R"-({"dataset": "gratings", "model": {)-", kSwin, keys, "}}");
}

}  // namespace

TEST_CASE("activations: defaults enter no id, and equal settings have equal ids") {
  const std::string plain = id_of("");
  CHECK(id_of(R"-("activation": "gelu")-") == plain);
  CHECK(id_of(R"-("mlp": "plain")-") == plain);
  CHECK(id_of(R"-("mlp": "plain", "activation": "gelu", "gelu": "erf")-") == plain);
  CHECK(canonical_json(config_of("")).find("activation") == std::string::npos);
  CHECK(canonical_json(config_of("")).find("\"mlp\":\"") == std::string::npos);
  const std::string gated = id_of(R"-("mlp": "gated")-");
  CHECK(id_of(R"-("mlp": "gated", "activation": "silu")-") == gated);
  const std::string squared = id_of(R"-("activation": {"formula": "x*x"})-");
  CHECK(id_of(R"-("activation": {"formula": "(x * (x))"})-") == squared);
  std::set<std::string> ids{plain, gated, squared};
  for (const char* keys :
       {R"-("activation": "silu")-", R"-("activation": "relu")-", R"-("activation": "relu_squared")-",
        R"-("mlp": "gated", "activation": "gelu")-", R"-("mlp": "gated", "activation": "gelu", "gelu": "tanh")-",
        R"-("mlp": "gated", "activation": {"formula": "silu(x) * g"})-", R"-("gelu": "tanh")-"})
    CHECK_MESSAGE(ids.insert(id_of(keys)).second, keys);
}

TEST_CASE("activations: what ids are made of, and that it is read back") {
  const auto check = [](const std::string& keys, const std::string& part) {
    CAPTURE(keys);
    const TrialConfig config = config_of(keys);
    const std::string text = canonical_json(config);
    CHECK_MESSAGE(text.find(part) != text.npos, text);
    for (const std::string& written : {text, full_json(config)}) {
      CAPTURE(written);
      const TrialConfig again = config_from_json(written, "text");
      CHECK(again == config);
      CHECK(canonical_json(again) == text);
    }
  };
  check(R"-("activation": "relu_squared")-", R"-("activation":"relu_squared")-");
  check(R"-("mlp": "gated")-", R"-("mlp":"gated","num_heads":2)-");
  check(R"-("mlp": "gated", "activation": "gelu", "gelu": "tanh")-",
        R"-("activation":"gelu","depth":2,"embed_dim":16,"gelu":"tanh","mlp":"gated")-");
  check(R"-("mlp": "gated", "activation": {"formula": "silu(x)*g"})-", R"-("activation":{"formula":"silu(x) * g"})-");
  check(R"-("task": "contrast", "text": {"depth": 1, "mlp": "gated"})-", R"-("mlp":"gated")-");
}

TEST_CASE("activations: the form of a GELU concerns the word gelu alone") {
  CHECK(problem(R"-("activation": "relu", "gelu": "tanh")-") ==
        "/model/gelu: no activation is the word \"gelu\", whose form this is");
  CHECK(problem(R"-("mlp": "gated", "gelu": "tanh")-") ==
        "/model/gelu: no activation is the word \"gelu\", whose form this is");
  CHECK(problem(R"-("gelu": "tanh")-") == "");
  // Of several trials one uses it, and the ids of the others do not change.
  DescriptorFiles files;
  const Experiment both =
      files.load(descriptor(R"-("gelu": "tanh")-", R"-(, "sweep": {"model.activation": ["gelu", "relu"]})-"));
  REQUIRE(both.trials.size() == 2);
  CHECK(both.trials[1].id == id_of(R"-("activation": "relu")-"));
  CHECK(both.trials[0].id == id_of(R"-("gelu": "tanh")-"));
}

TEST_CASE("activations: wrong values are named with what is meant") {
  CHECK(
      problem(R"-("activation": "sliu")-") ==
      "/model/activation: unknown activation \"sliu\"; did you mean \"silu\"?; a formula is an object, {\"formula\": \"x * "
      "sigmoid(1.702 * x)\"}");
  CHECK(problem(R"-("activation": "silu(x) * g")-").find("a formula is an object") != std::string::npos);
  CHECK(
      problem(R"-("activation": 3)-").starts_with("/model/activation: expected a word such as \"silu\" or an object"));
  CHECK(problem(R"-("activation": {})-") ==
        "/model/activation: give the \"formula\", such as \"x * sigmoid(1.702 * x)\"");
  CHECK(problem(R"-("activation": {"formula": "x", "eps": 1})-")
            .starts_with("/model/activation/eps: there is no such key here"));
  CHECK(problem(R"-("activation": {"formula": "x * sigmod(x)"})-") ==
        "/model/activation/formula: character 5: unknown function; did you mean \"sigmoid\"?");
  CHECK(
      problem(R"-("activation": {"formula": "x / rms(x)"})-") ==
      "/model/activation/formula: character 5: rms joins several values; an activation computes each value by itself");
  CHECK(problem(R"-("activation": {"formula": "alpha * x"})-") ==
        "/model/activation/formula: character 1: unknown value; an activation reads x, g and numbers, and has no "
        "parameters");
  CHECK(problem(R"-("activation": {"formula": "x * g"})-") ==
        "/model/activation: only mlp gated has a gate g; set \"mlp\": \"gated\" or leave g out");
  CHECK(problem(R"-("mlp": "gated", "activation": {"formula": "silu(x)"})-") ==
        "/model/activation: mlp gated multiplies by g, which this formula does not read; write \"silu(x) * g\"");
  CHECK(problem(R"-("mlp": "gate")-") == "/model/mlp: unknown word \"gate\"; did you mean \"gated\"?");
  CHECK(problem(R"-("activations": "relu")-").find("did you mean \"activation\"?") != std::string::npos);
}

TEST_CASE("activations: the text tower has its own, and a Swin has them") {
  const std::string text = R"-("task": "contrast", "text": {"depth": 1)-";
  const auto tower = [&](const std::string& keys) {
    return std::get<ViTConfig>(config_of(text + keys + "}").model).text;
  };
  CHECK(tower("").activation == ActivationConfig{});
  CHECK(tower(R"-(, "mlp": "gated")-").activation.kind == ActivationKind::silu);
  CHECK(tower(R"-(, "activation": "relu")-").activation.kind == ActivationKind::relu);
  CHECK(id_of(text + R"-(, "mlp": "gated", "activation": "silu"})-") == id_of(text + R"-(, "mlp": "gated"})-"));
  // The images' MLP is not the texts'; gelu is the form of either.
  const auto vit = std::get<ViTConfig>(config_of(R"-("activation": "relu", "gelu": "tanh", )-" + text + "}").model);
  CHECK(vit.activation.kind == ActivationKind::relu);
  CHECK(text_tower(vit).activation.kind == ActivationKind::gelu);
  CHECK(text_tower(vit).gelu == GeluForm::tanh);
  CHECK(problem(R"-("activation": "relu", "gelu": "tanh", )-" + text + R"-(, "activation": "silu"})-")
            .starts_with("/model/gelu: no activation"));
  DescriptorFiles files;
  const auto of_swin = [&](const std::string& keys) { return files.load(swin(keys)).trials.front(); };
  CHECK(swin_of(of_swin(R"-(, "mlp": "gated")-").config).activation.kind == ActivationKind::silu);
  CHECK(of_swin(R"-(, "mlp": "gated", "activation": "silu")-").id == of_swin(R"-(, "mlp": "gated")-").id);
  CHECK(of_swin(R"-(, "activation": "gelu", "mlp": "plain")-").id == of_swin("").id);
  CHECK(config_from_json(canonical_json(of_swin(R"-(, "mlp": "gated")-").config), "text") ==
        of_swin(R"-(, "mlp": "gated")-").config);
}

TEST_CASE("activations: equations show them") {
  const auto inside = [](const std::string& keys) {
    const std::vector<std::string> lines = block_formula(config_of(keys).model, 0).inside;
    return lines.empty() ? "" : lines.back();
  };
  CHECK(inside("") == "");
  CHECK(inside(R"-("activation": "relu")-") == "MLP(h) = fc2(relu(fc1(h)))");
  CHECK(inside(R"-("mlp": "gated")-") == "MLP(h) = fc2(silu(fc1(h)) * fc3(h))");
  CHECK(inside(R"-("mlp": "gated", "activation": "relu_squared",
      "placement": {"base": "none", "mlp": {"hidden": "layer_norm", "inner": "rms_norm"}})-") ==
        "MLP(h) = fc2(RMS(relu(LN(fc1(h)))^2 * fc3(h)))");
  CHECK(inside(R"-("activation": {"formula": "x*sigmoid(1.702*x)"})-") ==
        "MLP(h) = fc2(f(fc1(h))), f(x) = x * sigmoid(1.702 * x)");
  CHECK(inside(R"-("mlp": "gated", "activation": {"formula": "silu(x)*g"})-") ==
        "MLP(h) = fc2(f(fc1(h), fc3(h))), f(x, g) = silu(x) * g");
  CHECK(site_changes(config_of("").model, config_of(R"-("mlp": "gated")-").model) ==
        std::vector<std::string>{"activation: gelu -> silu", "mlp: plain -> gated"});
}

TEST_CASE("activations: check computes them for zeros and for random values") {
  const auto notes = [](const std::string& keys) { return formula_notes(config_of(keys).model); };
  CHECK(notes(R"-("activation": {"formula": "x * sigmoid(x)"})-").empty());
  CHECK(notes(R"-("mlp": "gated", "activation": {"formula": "x * tanh(g) * (2 - progress)"})-").empty());
  const std::vector<std::string> found = notes(R"-("mlp": "gated", "activation": {"formula": "x * log(abs(g))"})-");
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "mlp.activation: \"log(abs(g))\" of \"x * log(abs(g))\" is infinite or no number for zeros");
  CHECK_THROWS_WITH_AS(notes(R"-("activation": {"formula": "x * log(0)"})-"),
                       "mlp.activation: \"log(0)\" of \"x * log(0)\" is infinite or no number, whatever x is",
                       InputError);
}

TEST_CASE("activations: other programs' names, and what they lack") {
  const auto said = [](NameScheme scheme, const ModelConfig& config) {
    std::string text;
    for (const SchemeProblem& problem : scheme_problems(scheme, config)) text += problem.what + "\n";
    return text;
  };
  const auto advice = [](const ModelConfig& config) {
    std::string text;
    for (const std::string& line : scheme_advice(NameScheme::timm, config)) text += line + "\n";
    return text;
  };
  ModelConfig c = config_of(R"-("mlp": "gated")-").model;
  CHECK(said(NameScheme::timm, c) == "");
  CHECK(
      advice(c) ==
      "mlp is gated: timm needs mlp_layer=SwiGLU of timm.layers\nactivation is silu: timm needs act_layer=\"silu\"\n");
  CHECK(said(NameScheme::big_vision, c) ==
        "mlp.fc3 (mlp is gated): Big Vision has none\nactivation: is silu, but gelu in Big Vision\n");
  ParameterSet set;
  make_model(set, c);
  for (const TensorLink& link : link_tensors(NameScheme::timm, c, set)) {
    if (link.ours == "blocks.1.mlp.fc1.weight") CHECK(link.theirs == "blocks.1.mlp.fc1_g.weight");
    if (link.ours == "blocks.1.mlp.fc3.bias") CHECK(link.theirs == "blocks.1.mlp.fc1_x.bias");
    CHECK_FALSE(link.theirs.empty());
  }
  c = config_of(R"-("activation": "relu_squared")-").model;
  CHECK(said(NameScheme::timm, c) == "");
  CHECK(advice(c) == "activation is relu_squared: timm needs an act_layer that computes relu(x)^2\n");
  CHECK(said(NameScheme::augreg, c).find("activation: is relu_squared, but gelu in AugReg") == 0);
  c = config_of(R"-("activation": {"formula": "x * sigmoid(x)"})-").model;
  CHECK(said(NameScheme::timm, c) == "activation: is a formula, which timm has no module for\n");
  DescriptorFiles files;
  CHECK(said(NameScheme::timm, files.load(swin(R"-(, "mlp": "gated")-")).trials.front().config.model) ==
        "mlp.fc3 (mlp is gated): timm has none\n");
}

TEST_CASE("activations: a value of an axis that is a formula is its text, as in placements") {
  DescriptorFiles files;
  const auto labels = [&](const std::string& axes) {
    std::vector<std::string> out;
    for (const Cell& row : files.load(descriptor("", concat(", \"sweep\": {", axes, "}"))).rows)
      out.push_back(row.label);
    return out;
  };
  CHECK(labels(R"-("model.activation": ["relu", {"formula": "x * sigmoid(1.702 * x)"}])-") ==
        std::vector<std::string>{"relu", "x * sigmoid(1.702 * x)"});
  // Equal texts with other values stay apart.
  CHECK(labels(R"-("model.placement.final": [{"formula": "x / rms(x)"}, {"formula": "x / rms(x)", "eps": 0.1},
                   {"formula": "a * x", "parameters": {"a": 2}}, {"formula": "a * x", "parameters": {"a": 3}}])-") ==
        std::vector<std::string>{"x / rms(x)", "x / rms(x); eps=0.1", "a * x; parameters={\"a\":2}",
                                 "a * x; parameters={\"a\":3}"});
  CHECK(labels(R"-("model.placement": [{"base": "pre_pre", "norm": {"formula": "a * x", "parameters": {"a": 2}}}])-") ==
        std::vector<std::string>{"pre_pre + norm=a * x; parameters={\"a\":2}"});
}
