// What a descriptor's rows are, in formulas and numbers.
#include <doctest/doctest.h>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/formula.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/cli/small_sweep.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

ViTConfig named(std::string_view placement) {
  ViTConfig c;
  c.placement = find_placement(placement)->placement;
  return c;
}

/// The same network with another norm in blocks 1 and 2.
ViTConfig with_other_middle(ViTConfig c) {
  BlockRange range{1, 2, c.placement.attn, c.placement.mlp};
  range.mlp.pre = {.kind = NormKind::layer_norm, .eps = 1e-5};
  c.placement.blocks = {range};
  return c;
}

std::string block_of(std::string_view placement) {
  const BlockFormula formula = block_formula(named(placement), 0);
  std::string out = formula.attention + "\n" + formula.mlp;
  for (const std::string& line : formula.inside) out += "\n" + line;
  return out;
}

void check_width(const std::string& text) {
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    CHECK_MESSAGE(display_width(text.substr(begin, end - begin)) <= 80, text.substr(begin, end - begin));
  }
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A descriptor with a wrong list of blocks, and the setting that puts it right.
struct ThreeRows {
  DescriptorFiles files;
  TemporaryFolder folder;
  std::string file = files.write("x.json", R"({"model": {"depth": 6, "embed_dim": 48, "num_heads": 2, "dropout": 0.1},
    "sweep": {"model.placement": ["pre_pre", "sub_ln",
      {"base": "pre_pre", "blocks": {"0-1,5": {}, "rest": {}}}]}, "baseline": {"model.placement": "pre_pre"}})");
  std::string set = R"( --set 'sweep={"model.placement": ["pre_pre", "sub_ln", {"base": "pre_pre",)"
                    R"( "blocks": {"0-1": {"attn": {"query": "rms_norm", "key": "rms_norm"}},)"
                    R"( "4": {"attn": {"query": "rms_norm", "key": "rms_norm"}}}}]}')";
  Finished explain(const std::string& options) const { return run_program(folder, "explain " + file + options); }
};

/// A descriptor, and what `explain --init` prints of it.
struct Initial {
  DescriptorFiles files;
  TemporaryFolder folder;
  std::string file = files.write("x.json", R"({"model": {"depth": 3, "embed_dim": 48, "num_heads": 2,
    "placement": {"base": "sub_ln", "blocks": {"1": {"mlp": {"pre": {"kind": "dyt", "beta_init": 1}}}}}}})");
  Finished explain(const std::string& options) const { return run_program(folder, "explain --init " + file + options); }
};

}  // namespace

TEST_CASE("formula: the blocks of named placements are those of their papers") {
  CHECK(block_of("pre_pre") == "x = x + Attn(LN(x))\nx = x + MLP(LN(x))");
  CHECK(block_of("post_prepost") == "x = LN(x + Attn(x))\nx = LN(x + MLP(LN(x)))");
  CHECK(block_of("respost_preres") == "x = x + LN(Attn(x))\nx = x + LN(MLP(LN(x)))");
  CHECK(block_of("none") == "x = x + Attn(x)\nx = x + MLP(x)");
  CHECK(block_of("dyt") == "x = x + Attn(DyT(x))\nx = x + MLP(DyT(x))");
  CHECK(block_of("normformer_full") ==
        "x = x + LN(Attn(LN(x)))\nx = r * x + MLP(LN(x))\n"
        "Attn(h) = proj(g * heads), heads = softmax(q k^T / sqrt(d)) v\nMLP(h) = fc2(LN(gelu(fc1(h))))\n"
        "g: a learned gain per head; r: a learned gain per channel");
  CHECK(holds(block_of("normformer_head_scale_after_proj"), "Attn(h) = g * proj(heads),"));
  CHECK(block_of("sub_ln") ==
        "x = x + Attn(LN(x))\nx = x + MLP(LN(x))\nAttn(h) = proj(LN(heads)), heads = softmax(q k^T / sqrt(d)) v\n"
        "MLP(h) = fc2(LN(gelu(fc1(h))))");
  CHECK(block_of("bn_extra") ==
        "x = x + BN(Attn(BN(x)))\nx = x + BN(MLP(BN(x)))\n"
        "Attn(h) = proj(heads), heads = softmax(q k^T / sqrt(d)) BN(v)\nMLP(h) = fc2(gelu(BN(fc1(h))))");
  CHECK(block_of("layer_scale") ==
        "x = x + s * Attn(LN(x))\nx = x + s * MLP(LN(x))\ns: a learned gain per channel, initially 0.1");
  ViTConfig c = named("rms_norm");
  c.placement.attn.query = c.placement.attn.key = {.kind = NormKind::batch_norm, .eps = 1e-3, .momentum = 0.2};
  CHECK(block_formula(c, 0).inside.at(0) ==
        "Attn(h) = proj(heads), heads = softmax(BN[eps=0.001 momentum=0.2](q) BN[eps=0.001 momentum=0.2](k)^T / "
        "sqrt(d)) v");
}

TEST_CASE("formula: the stem shows its norms and positions") {
  ViTConfig c = named("dpn");
  CHECK(stem_formula(c) == "x = LN(Embed(LN(patches))) + pos");
  c.pos_embed = PosEmbed::sincos2d;
  CHECK(stem_formula(c) == "x = LN(Embed(LN(patches))) + sincos2d");
  CHECK(stem_formula(named("stem_posembed")) == "x = LN(Embed(patches) + pos)");
}

TEST_CASE("formula: the stem shows whether norm and positions include the class token") {
  ViTConfig c = named("stem_posembed");
  c.pool = Pool::token;
  CHECK(stem_formula(c) == "x = LN([cls, Embed(patches) + pos])");
  c.placement.stem.posembed_out_includes_class = false;
  CHECK(stem_formula(c) == "x = [cls, LN(Embed(patches) + pos)]");
  c.pos_embed_class = true;
  CHECK(stem_formula(c) == "x = [cls + pos, LN(Embed(patches) + pos)]");
  c.placement.stem.posembed_out_includes_class = true;
  CHECK(stem_formula(c) == "x = LN([cls, Embed(patches)] + pos)");
}

TEST_CASE("formula: the end shows what lies between the blocks and the logits") {
  ViTConfig c = named("dpn");
  CHECK(end_formula(c) == "logits = head(mean_tokens(LN(x)))");
  c.rep_size = 5;
  c.placement.pooled = norm_of(NormKind::rms_norm);
  CHECK(end_formula(c) == "logits = head(tanh(rep(RMS(mean_tokens(LN(x))))))");
  c = named("stem_posembed");
  c.pool = Pool::token;
  CHECK(end_formula(c) == "logits = head(class_token(LN(x)))");
}

TEST_CASE("formula: changes against a baseline name each site") {
  ViTConfig base = named("pre_pre"), other = named("normformer_full");
  base.depth = other.depth = 4;
  CHECK(site_changes(base, base).empty());
  CHECK(site_changes(base, other) ==
        std::vector<std::string>{"attn.out: none -> layer_norm", "mlp.inner: none -> layer_norm",
                                 "head_scale: none -> before_proj", "residual_scale: false -> true"});
}

TEST_CASE("formula: changes against a baseline name the blocks that have them") {
  ViTConfig base = named("pre_pre");
  base.depth = 4;
  ViTConfig other = with_other_middle(base);
  other.placement.final = norm_of(NormKind::none);
  other.placement.layer_scale = {LayerScaleKind::scalar, false, 0.0};
  CHECK(site_changes(base, other) ==
        std::vector<std::string>{"mlp.pre: layer_norm -> layer_norm(eps=1e-05) (blocks 1-2)",
                                 "final: layer_norm -> none", "layer_scale: none -> scalar(init=0)"});
}

TEST_CASE("formula: numbers of blocks are named in runs") { CHECK(runs_name({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8"); }

TEST_CASE("formula: blocks with the same norms are one group") {
  ViTConfig base = named("pre_pre");
  base.depth = 4;
  CHECK(equal_blocks(with_other_middle(base)) == std::vector<std::vector<std::int64_t>>{{0, 3}, {1, 2}});
}

TEST_CASE("explain: a wrong list of blocks is refused with its place") {
  const ThreeRows rows;
  const Finished wrong = rows.explain("");
  CHECK(wrong.code == 2);
  CHECK(holds(wrong.err, "x.json:3:38: /sweep/model.placement/2/blocks/0-1,5: expected blocks"));
}

TEST_CASE("explain: the first row is printed with its formulas and cost") {
  const ThreeRows rows;
  const Finished first = rows.explain(rows.set);
  CHECK_MESSAGE(first.code == 0, first.err);
  CHECK(first.out ==
        "pre_pre\n"
        "stem         x = Embed(patches) + pos\n"
        "blocks 0-5   x = x + Attn(LN(x))\n"
        "             x = x + MLP(LN(x))\n"
        "end          logits = head(mean_tokens(LN(x)))\n"
        "training     dropout 0.1\n"
        "init         big_vision\n"
        "cost         175642 parameters, 13124064 macs per image, 26248128 flops\n"
        "baseline     this row\n"
        "\nThis is the first of 3 rows; --all explains every row.\n");
}

TEST_CASE("explain: --all compares every row with the baseline") {
  const ThreeRows rows;
  const std::string all = rows.explain(rows.set + " --all").out;
  check_width(all);
  CHECK(holds(all, "init         big_vision; v, proj, fc1 and fc2 times 1.576\n"));
  CHECK(holds(all,
              "baseline     pre_pre\n             attn.inner: none -> layer_norm\n"
              "             mlp.inner: none -> layer_norm\n             init_gain: 1 -> sub_ln\n"
              "             +2880 parameters, +0 macs\n"));
  CHECK(holds(all, "blocks 0-1,4 x = x + Attn(LN(x))\n"));
  CHECK(holds(all, "attn.query: none -> rms_norm (blocks 0-1,4)\n"));
  CHECK(holds(all, "+144 parameters, +0 macs\n"));
}

TEST_CASE("explain: --init shows each parameter's distribution and drawn values") {
  const Initial initial;
  const Finished done = initial.explain("");
  CHECK_MESSAGE(done.code == 0, done.err);
  check_width(done.out);
  CHECK(holds(done.out, "blocks.0-2.attn.q.weight [48, 48]: uniform within ±0.25 (Xavier)\n    drawn: mean "));
  CHECK(holds(done.out, "blocks.0-2.attn.v.weight [48, 48]: uniform within ±0.25 (Xavier), times 1.339\n"));
  CHECK(holds(done.out, "min -0.3346, max 0.3346\n"));
  CHECK(holds(done.out, "patch_embed.weight [48, 48]: normal, deviation 0.1641 before the cut at ±0.3282\n(LeCun)\n"));
  CHECK(holds(done.out, "blocks.0-2.mlp.fc1.bias [192]: normal, deviation 1e-06\n"));
  CHECK(holds(done.out, "blocks.0,2.mlp.pre.beta [48]: zero\n"));
  CHECK(holds(done.out, "blocks.1.mlp.pre.beta [48]: one\n"));
  CHECK(holds(done.out, "blocks.1.mlp.pre.alpha [1]: 0.5\n"));
  CHECK(holds(done.out, "head.weight [10, 48]: zero\n"));
}

TEST_CASE("explain: the stages of a Swin show what shifts and when it is padded") {
  const TemporaryFolder folder;
  std::ofstream(folder / "swin.json") << R"({"model": {"kind": "swin", "patch_size": 2, "window": 6,
    "depths": [2, 2, 1], "num_heads": [3, 3, 3]}})";
  const auto text = [&](const std::string& options) {
    const Finished done = run_program(folder, "explain " + in_folder(folder, "swin.json") + options);
    std::string joined;
    for (std::istringstream words(done.out); words.good();) {
      std::string word;
      words >> word;
      joined += word + " ";
    }
    return joined;
  };
  const std::string before = text("");
  CHECK(has(before,
            "blocks 0-1: width 96, 16 x 16 tokens in windows of 6, every other shifted by 3, padded to 18 x 18 "
            "before the shift"));
  CHECK(has(before,
            "blocks 2-3: width 192, 8 x 8 tokens in windows of 6, every other shifted by 3, padded to 12 x 12 "
            "before the shift"));
  CHECK(has(before, "blocks 4: width 384, 4 x 4 tokens in windows of 4 between"));
  CHECK(has(text(" --set model.window_padding=after_shift"),
            "padded to 18 x 18 after the shift, so that opposite edges see each other"));
  CHECK(has(text(" --set model.image_size=[8,32] --set train.augment.crop=stretch --set "
                 "train.eval_transform.crop=stretch"),
            "4 x 16 tokens in windows of 4, every other shifted by 2 columns blocks"));
}

TEST_CASE("explain: --init of another seed draws other values") {
  const Initial initial;
  const Finished other = initial.explain(" --set 'seeds=[7]'");
  CHECK(holds(other.out, ", seed 7\n"));
  CHECK(other.out != initial.explain("").out);
}

TEST_CASE("explain: --placements shows every named placement with its paper") {
  const TemporaryFolder folder;
  const Finished done = run_program(folder, "explain --placements");
  CHECK(done.code == 0);
  check_width(done.out);
  for (const NamedPlacement& row : named_placements())
    CHECK(
        holds("\n" + done.out, concat("\n", row.name, row.placement.blocks.empty() ? "\n    x = " : "\n    blocks 0")));
  CHECK(holds(done.out, "dpn\n    x = LN(Embed(LN(patches))) + pos\n    x = x + Attn(LN(x))\n"));
  CHECK(holds(done.out, "    source: Magneto (arXiv:2210.06423), section 2\n"));
  CHECK(done.out.starts_with("A name such as pre_post says where attention has its norm, then where the MLP"));
  for (const NamedPlacement& row : named_placements()) {
    const bool identified =
        holds(std::string(row.source), "(arXiv:") || holds(std::string(row.source), "(ICCV Workshops 2021)");
    CHECK_MESSAGE((identified || row.name == "none"), row.name << ": " << row.source);
  }
}

TEST_CASE("explain: --placements with a text shows the placements whose names or sources have it") {
  const TemporaryFolder folder;
  const Finished qk = run_program(folder, "explain --placements QK");
  CHECK(qk.code == 0);
  CHECK(holds(qk.out, "\nqk_norm\n    x = x + Attn(LN(x))\n"));
  CHECK(!holds(qk.out, "\npre_pre\n"));
  const Finished paper = run_program(folder, "explain --placements 2302.05442");
  CHECK(paper.out.starts_with("qk_norm\n    x = x + Attn(LN(x))\n"));
  CHECK(!holds(paper.out, "olmo2"));
  const Finished wrong = run_program(folder, "explain --placements preln");
  CHECK(wrong.code == 2);
  CHECK(holds(wrong.err, "explain: unknown placement \"preln\"; did you mean \"Pre-LN\"?"));
}

TEST_CASE("explain: a call without exactly one thing to explain is refused") {
  const TemporaryFolder folder;
  CHECK(run_program(folder, "explain").code == 2);
  CHECK(run_program(folder, "explain --placements x.json").code == 2);
}

TEST_CASE("explain: a descriptor that is not there is refused") {
  const TemporaryFolder folder;
  CHECK(run_program(folder, "explain absent.json").code == 2);
}

TEST_CASE("explain: a row lists each setting that differs from its baseline's, also those of training") {
  const TemporaryFolder folder;
  const std::string file = (folder / "optimisers.json").string();
  std::ofstream(file)
      << R"({"dataset": "gratings", "train": {"epochs": 1}, "baseline": {"train.optimizer.name": "adamw"},
    "sweep": {"train.optimizer.name": ["adamw", "muon"]}})";
  const std::string out = run_program(folder, "explain --all " + file).out;
  CHECK_MESSAGE(has(out, "the same sites\n             train.optimizer.name: \"adamw\" -> \"muon\"\n"), out);
  CHECK(has(out, "train.optimizer.scale: - -> "));
  CHECK(!has(out, "model.placement"));
}
