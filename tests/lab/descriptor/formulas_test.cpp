// Norms that descriptors give by formulas.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "autograd/randn.h"
#include "core/backend.h"
#include "core/error.h"
#include "experiments/lab/cli/formula_check.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/reader.h"
#include "nn/model/layers.h"
#include "nn/model/model.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

const std::string kRest =
    R"("dataset": "gratings", "model": {"variant": "Ti/4", "embed_dim": 16, "depth": 2, "num_heads": 2)";
const std::string kSoft =
    R"("norms": {"soft": {"formula": "gamma * x / (abs(x) + alpha * rms(x)) + beta", "parameters": {"alpha": 1}}})";

/// The id of the only row with this norm before the MLP.
std::string id_of(const std::string& norm, const std::string& norms = kSoft) {
  DescriptorFiles files;
  const std::string text =
      "{" + kRest + R"(, "placement": {"base": "pre_pre", "mlp": {"pre": )" + norm + "}}}, " + norms + "}";
  return files.load(text).trials.front().id;
}

/// The problem of a descriptor with this norm before the MLP, without its file.
std::string problem(const std::string& norm, const std::string& norms = kSoft) {
  DescriptorFiles files;
  const std::string text = files.problems("{" + kRest + R"(, "placement": {"base": "pre_pre", "mlp": {"pre": )" + norm +
                                          "}}}, " + norms + "}");
  const std::size_t pointer = text.find(": /");
  return pointer == std::string::npos ? text : text.substr(pointer + 2);
}

}  // namespace

TEST_CASE("formulas: names of norms do not count in ids, formulas and names of parameters do") {
  const std::string soft = id_of(R"("soft")");
  CHECK(id_of(R"({"kind": "soft"})") == soft);
  CHECK(id_of(R"({"formula": "gamma*x/(abs(x)+1.0*(alpha)*rms(x))+beta", "parameters": {"alpha": 1}})") != soft);
  CHECK(id_of(R"({"formula": "gamma*x/(abs(x) + (alpha)*rms(x))+beta", "parameters": {"alpha": 1.0}})") == soft);
  CHECK(id_of(R"("hard")", R"("norms": {"hard": {"formula": "gamma * x / (abs(x) + alpha * rms(x)) + beta",
      "parameters": {"alpha": {"init": 1, "per": "one"}, "gamma": {"init": 1, "per": "channel"}}, "about": "the same"}})") ==
        soft);
  CHECK(id_of(R"({"formula": "gamma * x / (abs(x) + a * rms(x)) + beta", "parameters": {"a": 1}})") != soft);
  const std::string less = id_of(R"({"kind": "soft", "alpha": 0.3})");
  CHECK(less != soft);
  CHECK(less ==
        id_of(R"({"formula": "gamma*x/(abs(x)+alpha*rms(x))+beta", "parameters": {"alpha": 0.3}})", R"("norms": {})"));
  CHECK(id_of(R"({"kind": "soft", "eps": 1e-6})") == soft);
  CHECK(id_of(R"({"kind": "soft", "eps": 1e-5})") != soft);
  CHECK(id_of(R"("layer_norm")") == id_of(R"("layer_norm")", R"("seeds": 1)"));
}

TEST_CASE("formulas: what ids are made of") {
  const auto says = [](const std::string& norm, const std::string& part) {
    DescriptorFiles files;
    const std::string text = canonical_json(
        files.load("{" + kRest + R"(, "placement": {"base": "none", "mlp": {"pre": )" + norm + "}}}, " + kSoft + "}")
            .trials.front()
            .config);
    CHECK_MESSAGE(text.find("{\"mlp\":{\"pre\":" + part + "}}") != text.npos, text);
  };
  says(R"("soft")", R"({"formula":"gamma * x / (abs(x) + alpha * rms(x)) + beta","parameters":{"alpha":1.0}})");
  says(
      "{\"formula\": \"x / rms(x)*g\", \"eps\": 1e-5, \"parameters\": {\"g\": {\"init\": \"1/C\", \"per\": "
      "\"channel\", \"learned\": false, \"decay\": true}}}",
      R"({"eps":1e-05,"formula":"x / rms(x) * g","parameters":{"g":{"decay":true,"init":"1 / C","learned":false,)"
      R"("per":"channel"}}})");
}

TEST_CASE("formulas: a canonical text is read back to the same network") {
  for (const char* norm :
       {R"("soft")", R"({"kind": "soft", "alpha": 0.25, "eps": 0.5})",
        R"({"formula": "gamma * (x - a * mean(x)) / std(x) ", "parameters": {"a": {"init": 1, "learned": false}}})",
        R"({"formula": "x * k^2", "parameters": {"k": {"init": 2, "per": "channel", "decay": true}}})"}) {
    CAPTURE(norm);
    DescriptorFiles files;
    const TrialConfig config =
        files.load("{" + kRest + R"(, "placement": {"base": "pre_pre", "mlp": {"pre": )" + norm + "}}}, " + kSoft + "}")
            .trials.front()
            .config;
    for (const std::string& text : {canonical_json(config), full_json(config)}) {
      CAPTURE(text);
      CHECK(canonical_json(config_from_json(text, "text")) == canonical_json(config));
    }
  }
}

TEST_CASE("formulas: their parameters are the network's") {
  DescriptorFiles files;
  const TrialConfig config = files
                                 .load("{" + kRest + R"(, "placement": {"base": "pre_pre", "mlp": {"pre":
      {"formula": "gamma * x * k + fixed + w", "parameters": {"k": {"init": 2, "per": "channel", "decay": true},
      "fixed": {"init": 3, "learned": false}, "w": 0.5}}}}}})")
                                 .trials.front()
                                 .config;
  ParameterSet parameters;
  make_model(parameters, config.model);
  CHECK(parameters.find("blocks.1.mlp.pre.fixed") == -1);
  const auto info = [&](const char* name) { return parameters.parameters()[std::size_t(parameters.find(name))]; };
  CHECK(info("blocks.1.mlp.pre.k").shape == Shape{16});
  CHECK(info("blocks.1.mlp.pre.k").start == 2);
  CHECK(info("blocks.1.mlp.pre.k").decays);
  CHECK(info("blocks.1.mlp.pre.w").shape == Shape{1});
  CHECK_FALSE(info("blocks.1.mlp.pre.w").decays);
  CHECK(info("blocks.1.mlp.pre.gamma").start == 1);
  // A norm's parameter that decays is no linear layer.
  const TrialConfig plain = files.load("{" + kRest + R"(, "placement": "pre_pre"}})").trials.front().config;
  CHECK(model_cost(config.model).macs == model_cost(plain.model).macs);
}

TEST_CASE("formulas: a norm replaces all of a placement, then its own sites and blocks") {
  DescriptorFiles files;
  const auto placement = [&](const std::string& text) {
    return placement_of(
        files.load("{" + kRest + ", \"placement\": " + text + "}, " + kSoft + "}").trials[0].config.model);
  };
  const Placement p = placement(R"({"base": "prepost_pre", "norm": "soft", "mlp": {"pre": "rms_norm"}})");
  CHECK(p.attn.pre.formula != nullptr);
  CHECK(p.attn.post == p.attn.pre);
  CHECK(p.final == p.attn.pre);
  CHECK(p.mlp.pre.kind == NormKind::rms_norm);
  CHECK(p.attn.query.kind == NormKind::none);
  const Placement two = placement(R"({"base": "siamese_norm", "norm": "rms_norm"})");
  CHECK(two.stream_norm.kind == NormKind::rms_norm);
  CHECK(placement(R"({"base": "pre_pre", "norm": "layer_norm"})") == placement(R"("pre_pre")"));
  CHECK(files.problems("{" + kRest + R"(, "placement": {"norm": "soft"}}, )" + kSoft + "}")
            .ends_with("it replaces the norms of the \"base\"; name one"));
}

TEST_CASE("formulas: what a row does not read does not enter its id") {
  DescriptorFiles files;
  const Experiment experiment = files.load("{" + kRest + "}, " + kSoft + R"(, "sweep": {
      "model.placement": ["pre_pre", {"base": "pre_pre", "norm": "soft"}, {"base": "pre_pre", "attn": {"query": "soft"}}],
      "norms.soft.parameters.alpha": [0.3, 1, 3]}, "baseline": {"model.placement": "pre_pre"}})");
  CHECK(experiment.rows.size() == 7);
  CHECK(experiment.trials.size() == 7);
  CHECK(experiment.rows[1].label == "placement=pre_pre + norm=soft, alpha=0.3");
  CHECK(experiment.rows[4].label == "placement=pre_pre + attn.query=soft, alpha=0.3");
  for (const Cell& row : experiment.rows) CHECK(row.baseline == std::optional<std::size_t>(0));
  // A placement of the descriptor reads the norm that the sweep sets.
  const Experiment named = files.load("{" + kRest + R"(, "placement": "mine"}, "placements": {"mine": {"mlp":
      {"pre": "soft"}}}, )" + kSoft + R"(, "sweep": {"norms.soft.parameters.alpha": [1, 2]}})");
  CHECK(named.trials.size() == 2);
}

TEST_CASE("formulas: what is wrong is named with its place") {
  const auto formula = [](const std::string& text) { return problem("{\"formula\": \"" + text + "\"}"); };
  const std::string site = "/model/placement/mlp/pre";
  CHECK(formula("gamma * x / rsm(x)") == site + "/formula: character 13: unknown function; did you mean \"rms\"?");
  CHECK(formula("gamm * x") ==
        site +
            "/formula: character 1: unknown value; declare it in \"parameters\" if it is one; did you mean \"gamma\"?");
  CHECK(formula("mean(x)").starts_with(site + "/formula: character 1: the result has one value for each image"));
  CHECK(problem(R"({"formula": 3})") == site + "/formula: expected a string, got 3");
  CHECK(problem(R"({"formula": ""})").starts_with(site + "/formula: character 1: the formula is empty"));
  CHECK(formula("1e999 * x") == site + "/formula: character 1: the number 1e999 is too large or too small");
  CHECK(formula("rms(x, x)") == site + "/formula: character 1: rms takes 1 argument, got 2");
  CHECK(formula("x * mean(alpha)").starts_with(site + "/formula: character 10: unknown value"));
  CHECK(problem(R"({"formula": "x", "parameters": {"a": 1}})") == site + "/parameters/a: the formula does not read it");
  CHECK(problem(R"({"formula": "x", "parameters": {"rms": 1}})") ==
        site + "/parameters/rms: the language of formulas has this word; choose another");
  CHECK(problem(R"({"formula": "x", "parameters": {"eps": 1}})") ==
        site + "/parameters/eps: a key of norms has this name; choose another");
  CHECK(
      problem(R"({"formula": "x", "parameters": {"2a": 1}})").starts_with(site + "/parameters/2a: a parameter's name"));
  CHECK(problem(R"({"formula": "x * a", "parameters": {"a": {"per": "channel"}}})") ==
        site + "/parameters/a: give the initial value, \"init\"");
  CHECK(problem(R"({"formula": "x * a", "parameters": {"a": "1"}})")
            .starts_with(site + "/parameters/a: expected a number"));
  CHECK(problem(R"({"formula": "x", "eps": 1})") ==
        site + "/eps: the formula has no rms, std or norm, which alone add eps");
  CHECK(problem(R"({"formula": "x / rms(x) ", "eps": 0})").starts_with(site + "/eps: must be above 0, got 0"));
  CHECK(problem(R"({"formula": "x", "kind": "soft"})") ==
        site + "/kind: a formula takes the place of a kind; leave one of them out");
  CHECK(problem(R"({"formula": "x", "momentum": 1})").starts_with(site + "/momentum: there is no such key here"));
  CHECK(problem(R"({"formula": "x", "parmeters": {}})") ==
        site + "/parmeters: unknown key; did you mean \"parameters\"?");
  CHECK(problem(R"({"kind": "soft", "alhpa": 1})") == site + "/alhpa: unknown key; did you mean \"alpha\"?");
  CHECK(problem(R"({"kind": "sotf"})") == site + "/kind: unknown word \"sotf\"; did you mean \"soft\"?");
  CHECK(problem(R"("formula")").starts_with(site + ": unknown word \"formula\""));
  CHECK(problem(R"("soft")", R"("norms": {"layer_norm": {"formula": "x"}})")
            .find("a built-in kind of norm has this name; choose another") != std::string::npos);
  // One message for a wrong formula, wherever its name stands.
  CHECK(problem(R"({"kind": "soft", "alpha": 1})", R"("norms": {"soft": {"formula": "x / 0"}})") ==
        "/norms/soft/formula: character 3: division by zero, whatever x is");
  CHECK(problem(R"("layer_norm")", R"("norms": {"soft": "x"})") ==
        "/norms/soft: expected an object with a \"formula\", got \"x\"");
  CHECK(problem(R"("layer_norm")", R"("norms": {"soft": {"about": "?"}})") ==
        "/norms/soft: give the \"formula\", such as \"gamma * x / rms(x)\"");
  std::string many = "x", declared;
  for (char c = 'p'; c < 'x'; ++c) {
    many += std::string(" * ") + c;
    declared += std::string(declared.empty() ? "" : ", ") + '"' + c + "\": 1";
  }
  CHECK(problem("{\"formula\": \"" + many + "\", \"parameters\": {" + declared + "}}") ==
        site + "/formula: a formula has at most 7 parameters, this one has 8");
}

TEST_CASE("formulas: a pattern sets a key wherever it may stand") {
  DescriptorFiles files;
  const auto placed = [&](const std::string& placement, const std::string& pattern) {
    return files.load("{" + kRest + ", \"placement\": " + placement + "}, " + kSoft + ", \"sweep\": {\"model." +
                      pattern + "}}");
  };
  const auto placement = [&](const Experiment& experiment, std::size_t row = 0) {
    return placement_of(experiment.trials[row].config.model);
  };
  const auto alpha = [](const NormSpec& spec) { return spec.formula->parameters[0].init.number; };
  const std::string mixed = R"({"base": "pre_pre", "norm": "soft", "attn": {"query": "batch_norm"},
      "blocks": {"1": {"mlp": {"pre": "batch_norm"}}}})";
  const Experiment all = placed(mixed, R"(placement.**.alpha": [0.3, 2])");
  REQUIRE(all.trials.size() == 2);
  CHECK(all.rows[1].label == "2");
  for (const std::size_t row : {0u, 1u}) {
    const Placement p = placement(all, row);
    const double want = row == 0 ? 0.3 : 2;
    CHECK(alpha(p.attn.pre) == want);
    CHECK(alpha(p.final) == want);
    CHECK(alpha(p.mlp_sites(0).pre) == want);
    CHECK(alpha(p.attention_sites(1).pre) == want);
    CHECK(p.attn.query == norm_of(NormKind::batch_norm));
  }
  // Built-in keys, at sites of all blocks and of one.
  const Placement moved = placement(placed(mixed, R"(placement.**.momentum": [0.5])"));
  CHECK(moved.attn.query.momentum == 0.5);
  CHECK(moved.mlp_sites(1).pre.momentum == 0.5);
  CHECK(alpha(moved.attn.pre) == 1);
  // Only below some steps, in ranges too; a site, which takes any norm.
  const Placement below = placement(placed(mixed, R"(placement.**.attn.**.eps": [0.5])"));
  CHECK(below.attn.pre.eps == 0.5);
  CHECK(below.attn.query.eps == 0.5);
  CHECK(below.mlp_sites(0).pre.eps == 1e-6);
  CHECK(below.final.eps == 1e-6);
  CHECK(placement(placed(mixed, R"(placement.**.mlp.pre": ["soft"])")).blocks.empty());
  CHECK(placement(placed(R"("siamese_norm")", R"(placement.**.eps": [0.5])")).stream_norm.eps == 0.5);
  // What the pattern sets equals what each site says.
  CHECK(placed(R"({"base": "none", "mlp": {"pre": "soft"}})", R"(placement.**.alpha": [0.3])").trials[0].id ==
        placed(R"({"base": "none", "mlp": {"pre": "soft"}})", R"(placement.mlp.pre.alpha": [0.3])").trials[0].id);
  CHECK(placed(R"({"base": "none", "mlp": {"pre": "soft"}})", R"(placement.**.alpha": [1])").trials[0].id ==
        placed(R"({"base": "none", "mlp": {"pre": "soft"}})", R"(placement.**.eps": [1e-6])").trials[0].id);
  // The text tower's norms, whose placement is given by its name.
  const auto text_tower = [&](const std::string& axis) {
    const std::string text =
        R"({"dataset": {"name": "shapes", "captions": true, "label": "kind"}, "model": {"task": "contrast",
        "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "text": {"embed_dim": 16, "depth": 2, "num_heads": 2,
        "placement": "dyt"}}, "eval": {"templates": ["a {}"]}, "sweep": {"model.text.placement.)";
    return vit_of(files.load(text + axis + "}}").trials[0].config);
  };
  const ViTConfig tower = text_tower(R"(**.alpha_init": [0.25])");
  CHECK(tower.text.placement.mlp.pre.alpha_init == 0.25);
  CHECK(tower.placement == find_placement("pre_pre")->placement);
  CHECK(text_tower(R"(attn.pre": ["rms_norm"])").text.placement.attn.pre.kind == NormKind::rms_norm);
  // A row without a place is trained once.
  const Experiment rows = files.load("{" + kRest + "}, " + kSoft + R"(, "sweep": {
      "model.placement": ["pre_pre", {"base": "pre_pre", "norm": "soft"}], "model.placement.**.alpha": [0.3, 1, 3]}})");
  CHECK(rows.trials.size() == 4);
  // In a placement itself, over the base.
  CHECK(alpha(placement(placed(R"({"base": "pre_pre", "norm": "soft", "**.pre.alpha": 7})", "num_heads\": [2]"))
                  .mlp.pre) == 7);
  CHECK(
      alpha(placement(placed(R"({"base": "pre_pre", "norm": "soft", "**.pre.alpha": 7})", "num_heads\": [2]")).final) ==
      1);
  const auto wrong = [&](const std::string& pattern) {
    const std::string text = files.problems("{" + kRest + ", \"placement\": " + mixed + "}, " + kSoft +
                                            ", \"sweep\": {" + pattern + ", \"model.num_heads\": [1, 2]}}");
    return text.substr(text.find(": /") + 2);
  };
  const std::string sweep = "/sweep/model.placement.**.";
  CHECK(wrong(R"("model.placement.**.alhpa": [1])") == sweep + "alhpa: unknown key; did you mean \"alpha\"?");
  CHECK(wrong(R"("model.placement.**.momntum": [1])") == sweep + "momntum: unknown key; did you mean \"momentum\"?");
  CHECK(wrong(R"("model.placement.**.groups": [1])") == sweep + "groups: no norm here has this key");
  CHECK(wrong(R"("model.placement.**.final.momentum": [1])") == sweep + "final.momentum: no norm here has this key");
  CHECK(wrong(R"("model.placement.**.momentum": [0.1, 5])") == sweep + "momentum/1: must be at most 1, got 5");
  CHECK(wrong(R"("model.placement.**.alpha": ["x"])")
            .starts_with(sweep + "alpha/0: character 1: unknown value; an initial value reads numbers"));
  CHECK(wrong(R"("model.placement.attn.**": ["soft"])") ==
        "/sweep/model.placement.attn.**: end it with a site or a key of norms, as in \"**.query\" or \"**.eps\"");
  CHECK(wrong(R"("train.**.lr": [1])") ==
        "/sweep/train.**.lr: ** stands for sites of a placement, as in \"model.placement.**.eps\"");
  CHECK(wrong(R"("model.placement.attn.pre.alpha": [2], "model.placement.**.alpha": [1])") ==
        sweep + "alpha: sets the same thing as model.placement.attn.pre.alpha; leave one of them out");
}

TEST_CASE("formulas: an initial value may be a formula of the site") {
  const std::string ramp = "0.8 - 0.5 * (block - 1) / max(depth - 1, 1)";
  const auto config = [](const std::string& parameter) {
    DescriptorFiles files;
    const std::string norm = R"-({"formula": "x * a / rms(x)", "parameters": {"a": )-" + parameter + "}}";
    return files
        .load("{" + kRest + R"(, "placement": {"base": "pre_pre", "stem": {"patch_out": )" + norm +
              R"(}, "attn": {"query": )" + norm + R"(}, "mlp": {"pre": )" + norm + R"(}, "final": )" + norm + "}}}")
        .trials.front()
        .config;
  };
  const auto starts = [&](const std::string& parameter) {
    ParameterSet parameters;
    make_model(parameters, config(parameter).model);
    std::vector<double> out;
    for (const char* name :
         {"stem.patch_out.a", "blocks.0.attn.query.a", "blocks.0.mlp.pre.a", "blocks.1.mlp.pre.a", "final.a"})
      out.push_back(parameters.parameters()[std::size_t(parameters.find(name))].start);
    return out;
  };
  const auto init = [](const std::string& text) { return "{\"init\": \"" + text + "\"}"; };
  // numpy: 0.8 - 0.5 * (np.arange(5)[[0, 1, 1, 2, 2]] - 1) / max(2 - 1, 1)
  CHECK(starts(init(ramp)) == std::vector<double>{1.3, 0.8, 0.8, 0.8 - 0.5, 0.8 - 0.5});
  CHECK(starts(init("C + N / 1000")) == std::vector<double>{16.064, 8.064, 16.064, 16.064, 16.064});
  CHECK(starts(init("where(block > 1, depth, -3^2)")) == std::vector<double>{-9, -9, -9, 2, 2});
  CHECK(starts("{\"init\": \"0.25\"}") == std::vector<double>(5, 0.25));
  // A constant is one number in each block's program.
  ParameterSet parameters;
  CHECK_NOTHROW(make_model(parameters, config(R"-({"init": "1 / max(block, 1)", "learned": false})-").model));
  CHECK(parameters.find("final.a") == -1);
  // Ids: the tree counts; a number is a number however it is given.
  const auto id = [&](const std::string& parameter) { return trial_id(config(parameter)); };
  CHECK(id(init("1/ (block+1)")) == id(init("1 / (block + 1)")));
  CHECK(id(init("1 / (block + 1)")) != id(init("1 / (1 + block)")));
  CHECK(id(init("0.50")) == id("0.5"));
  CHECK(id(init("2")) != id("0.5"));
  const TrialConfig given = config(init(ramp));
  for (const std::string& text : {canonical_json(given), full_json(given)}) {
    CAPTURE(text);
    CHECK(canonical_json(config_from_json(text, "text")) == canonical_json(given));
    CHECK(text.find(ramp) != text.npos);
  }
  CHECK(id(R"({"init": "1 / C", "per": "channel", "learned": false, "decay": true})") !=
        id(R"({"init": "1 / C", "per": "channel", "learned": false})"));
  const std::string at = "/model/placement/mlp/pre/parameters/a/init: ";
  const auto wrong = [](const std::string& text) {
    return problem(R"({"formula": "x * a", "parameters": {"a": {"init": )" + text + "}}}");
  };
  CHECK(wrong("\"1 / deph\"") ==
        at + "character 5: unknown value; an initial value reads numbers, pi, e, C, N, depth and "
             "block; did you mean \"depth\"?");
  CHECK(wrong("\"x\"").starts_with(at + "character 1: unknown value; an initial value reads numbers"));
  CHECK(wrong("\"progress\"").starts_with(at + "character 1: unknown value; an initial value reads numbers"));
  CHECK(wrong("\"channel\"").starts_with(at + "character 1: unknown value; an initial value reads numbers"));
  CHECK(wrong("\"\"").starts_with(at + "character 1: the formula is empty"));
  CHECK(wrong("\"1 / (2 - 2)\"") == at + "character 3: division by zero, whatever x is");
  CHECK(wrong("true") == at + "expected a number or a formula such as \"1 / sqrt(block)\", got true");
  CHECK(wrong("\"log(block - 1)\"") ==
        "/model/placement: mlp.pre: the initial value \"log(block - 1)\" of a is -inf in block 1");
  CHECK(wrong("\"(-1) ^ block\"")
            .starts_with("/model/placement: mlp.pre: the initial value \"(-1)^block\" of a is nan in block 1"));
  // At one site, and by a sweep.
  CHECK(id_of(R"({"kind": "soft", "alpha": "1 / depth"})") ==
        id_of(R"("soft")", R"("norms": {"soft": {"formula": "gamma * x / (abs(x) + alpha * rms(x)) + beta",
        "parameters": {"alpha": {"init": "1 / depth"}}}})"));
}

TEST_CASE("formulas: a command line gives a text or JSON") {
  CHECK(read_formula_option("x/rms(x)", "--formula").formula->text == "x / rms(x)");
  CHECK(read_formula_option(R"({"formula": "a * x", "parameters": {"a": 2}})", "--formula")
            .formula->parameters[0]
            .init.number == 2);
  CHECK_THROWS_WITH_AS(read_formula_option("x / rsm(x)", "--formula"),
                       "--formula: character 5: unknown function; did you mean \"rms\"?", InputError);
}

TEST_CASE("formulas: the page's norms of the literature are the kinds beside them") {
  std::ifstream page("docs/formulas.md");
  std::string line;
  while (std::getline(page, line) && line != "## Norms of the literature") {
  }
  int rows = 0;
  while (std::getline(page, line)) {
    std::vector<std::string> cells;  // the quoted ones
    for (std::size_t at = 0, end = 0; (at = line.find('`', end)) != line.npos; ++end) {
      end = line.find('`', at + 1);
      cells.push_back(line.substr(at + 1, end - at - 1));
    }
    NormKind kind{};
    if (cells.size() < 2 || !find_word(cells.back(), kind)) continue;
    CAPTURE(line);
    ++rows;
    const std::string parameters = cells.size() == 3 ? ", \"parameters\": " + cells[1] : "";
    NormSpec specs[] = {read_formula_option("{\"formula\": \"" + cells[0] + "\"" + parameters + "}", "test"),
                        norm_of(kind)};
    specs[1].eps = specs[0].eps;
    CHECK(statistics_of(specs[0]) == statistics_of(specs[1]));
    Arena memory;
    Tape tape(cpu_backend(), memory);
    const Tensor x = randn(memory, {2, 3, 8}, DType::f64, 1);
    std::vector<double> starts[2], values[2];
    for (int i = 0; i < 2; ++i) {
      ParameterSet parameter_set;
      const Norm norm(parameter_set, {}, row_of(&Placement::final), {.final = specs[i]}, {.embed_dim = 8, .tokens = 3});
      parameter_set.allocate(DType::f64, 1);
      std::map<std::string, int> named;
      for (const ParameterInfo& info : parameter_set.parameters()) {
        std::string name = info.name.substr(info.name.rfind('.') + 1);
        if (name == "a") name = "alpha";  // of SeeDNorm
        named[name] = parameter_set.find(info.name);
      }
      int number = 0;
      for (const auto& [name, at] : named) {
        starts[i].push_back(parameter_set.parameters()[std::size_t(at)].start);
        const Tensor value = parameter_set.value(at);
        for (std::int64_t c = 0; c < value.size(); ++c)
          value.data<double>()[c] = starts[i].back() + 0.1 * std::sin(double(++number));
      }
      const Step step{.parameters = parameter_set};
      const Tensor y = norm(tape.input(x), {.step = step, .tape = tape, .slice = {2, 0, 2, nullptr}}).value();
      values[i].assign(y.data<double>(), y.data<double>() + y.size());
    }
    CHECK(starts[0] == starts[1]);
    for (std::size_t v = 0; v < values[0].size(); ++v)
      CHECK(values[0][v] == doctest::Approx(values[1][v]).epsilon(1e-12));
  }
  CHECK(rows == 10);
}

TEST_CASE("formulas: the page's norms without a kind are what their papers define") {
  std::ifstream page("docs/formulas.md");
  const auto row_of_page = [&](const std::string& name) {
    std::string line;
    while (std::getline(page, line) && !line.starts_with("| " + name)) {
    }
    std::vector<std::string> cells;
    for (std::size_t at = 0, end = 0; (at = line.find('`', end)) != line.npos; ++end) {
      end = line.find('`', at + 1);
      cells.push_back(line.substr(at + 1, end - at - 1));
    }
    REQUIRE_MESSAGE(cells.size() == 2, name);
    return read_formula_option("{\"formula\": \"" + cells[0] + "\", \"parameters\": " + cells[1] + "}", "test");
  };
  // One token, whose parameters are set by name.
  const std::vector<double> x{0.3, -1.2, 2.0, 0.7};
  const auto normed = [&](const NormSpec& spec, const std::map<std::string, std::vector<double>>& values) {
    Arena memory;
    Tape tape(cpu_backend(), memory);
    ParameterSet set;
    const Norm norm(set, {}, row_of(&Placement::final), {.final = spec}, {.embed_dim = 4, .tokens = 1});
    set.allocate(DType::f64, 1);
    for (const ParameterInfo& info : set.parameters()) {
      const std::string name = info.name.substr(info.name.rfind('.') + 1);
      CHECK(info.start == (name == "s" ? 0.0 : 1.0));
      const std::vector<double>& from = values.at(name);
      REQUIRE(std::int64_t(from.size()) == info.shape.size());
      std::copy(from.begin(), from.end(), set.value(set.find(info.name)).data<double>());
    }
    const Tensor in = memory.empty({1, 1, 4}, DType::f64);
    std::copy(x.begin(), x.end(), in.data<double>());
    const Step step{.parameters = set};
    const Tensor y = norm(tape.input(in), {.step = step, .tape = tape, .slice = {1, 0, 1, nullptr}}).value();
    return std::vector<double>(y.data<double>(), y.data<double>() + 4);
  };
  const std::vector<double> gamma{1.5, 0.5, -1.0, 2.0}, a{0.9, 1.1, -0.5, 2.0};
  const std::vector<double> pre_affine = normed(row_of_page("PreAffineRMSNorm"), {{"gamma", gamma}, {"a", a}}),
                            single_scale = normed(row_of_page("SSNorm"), {{"s", {0.25}}});
  double of_scaled = 0, of_x = 0;
  for (std::size_t c = 0; c < 4; ++c) {
    of_scaled += a[c] * x[c] * a[c] * x[c];
    of_x += x[c] * x[c];
  }
  for (std::size_t c = 0; c < 4; ++c) {
    CHECK(pre_affine[c] == doctest::Approx(gamma[c] * a[c] * x[c] / std::sqrt(of_scaled / 4 + 1e-6)).epsilon(1e-13));
    CHECK(single_scale[c] == doctest::Approx(1.25 * 2 * x[c] / std::sqrt(of_x + 1e-6)).epsilon(1e-13));
  }
}

TEST_CASE("formulas: check looks at zeros and at a random token") {
  const auto notes = [](const std::string& formula, const std::string& parameters = "{}") {
    DescriptorFiles files;
    return formula_notes(files
                             .load("{" + kRest + R"(, "placement": {"base": "pre_pre", "mlp": {"pre": {"formula": ")" +
                                   formula + "\", \"parameters\": " + parameters + "}}}}}")
                             .trials.front()
                             .config.model);
  };
  CHECK(notes("gamma * x / rms(x) + beta").empty());
  CHECK(notes("x / abs(x)") ==
        std::vector<std::string>{"mlp.pre: \"x / abs(x)\" of \"x / abs(x)\" is infinite or no number for zeros"});
  CHECK(notes("x + log(max(x) + 1) ^ 0 * sqrt(-abs(x))").size() == 1);
  CHECK_THROWS_WITH_AS(notes("x * log(a) ^ 2", R"({"a": 0})"),
                       "mlp.pre: \"log(a)\" of \"x * log(a)^2\" is infinite or no number, whatever x is", InputError);
}
