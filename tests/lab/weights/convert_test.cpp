#include "experiments/lab/weights/convert.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tests/lab/base/text.h"
#include "tests/lab/weights/network_files.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;

namespace {

/// A fixture's tensors with one replaced (empty: removed) or added.
Tensors changed(const Tensors& file, const std::string& name, std::optional<HostTensor> replacement) {
  Tensors out(file.source());
  for (const HostTensor& tensor : file)
    if (tensor.name != name) out.add(tensor);
  if (replacement) out.add(*replacement);
  return out;
}

HostTensor zeros(const std::string& name, const std::vector<std::uint64_t>& shape) {
  std::uint64_t size = 1;
  for (const std::uint64_t extent : shape) size *= extent;
  return host_tensor<float>(name, shape, std::vector<float>(size));
}

ConversionReport report_of(const Tensors& file, NameScheme scheme, const ViTConfig& config,
                           const ImportOptions& options) {
  Weights network(config);
  ConversionReport report;
  import_weights(file, scheme, config, options, network.weights, report);
  return report;
}

/// The error of an import; "" without an error.
std::string refusal(const Tensors& file, NameScheme scheme, const ViTConfig& config,
                    const ImportOptions& options = {}) {
  try {
    report_of(file, scheme, config, options);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

struct Loaded {
  ViTConfig config;
  Tensors tensors;
};
Loaded load(std::size_t number) {
  return {network_vit(kNetworkFiles[number]), read_weight_file(network_path(kNetworkFiles[number])).tensors};
}

/// The values of a network that takes a file of Flax.
std::vector<float> imported(const Tensors& tensors, const ViTConfig& config) {
  Weights network(config);
  ConversionReport report;
  import_weights(tensors, NameScheme::big_vision, config, {}, network.weights, report);
  return all_values(network.weights);
}

/// A file of Flax whose two blocks are stored as one, with a first axis for the block.
Tensors scanned_blocks(const Tensors& file) {
  Tensors scanned("scanned.npz");
  const std::string first = "params/Transformer/encoderblock_0/", second = "params/Transformer/encoderblock_1/";
  for (const HostTensor& tensor : file) {
    if (tensor.name.starts_with(second)) continue;
    if (!tensor.name.starts_with(first)) {
      scanned.add(tensor);
      continue;
    }
    const std::string rest = tensor.name.substr(first.size());
    std::vector<float> values = tensor.floats(), more = file.get(second + rest).floats();
    values.insert(values.end(), more.begin(), more.end());
    std::vector<std::uint64_t> shape = tensor.shape;
    shape.insert(shape.begin(), 2);
    scanned.add(host_tensor<float>("params/Transformer/encoderblock/" + rest, shape, values));
  }
  return scanned;
}

}  // namespace

TEST_CASE("convert: networks of other programs give their own logits") {
  for (const NetworkFile& file : kNetworkFiles) {
    CAPTURE(std::string(file.name));
    const ModelConfig config = network_model(file);
    Weights network(config);
    ConversionReport report;
    import_weights(read_weight_file(network_path(file)).tensors, file.scheme, config, {}, network.weights, report);
    CHECK(report.missing.empty());
    CHECK(report.left_over.empty());
    const std::vector<double> ours = logits_of(network.weights, config);
    const std::vector<float> theirs = values_of<float>(expected_file().get(std::string("logits/") + file.name));
    REQUIRE(ours.size() == theirs.size());
    double largest = 0.0;
    for (std::size_t i = 0; i < ours.size(); ++i) largest = std::max(largest, std::abs(ours[i] - double(theirs[i])));
    CHECK(largest < 1e-5);
  }
}

TEST_CASE("convert: every file comes back as it was") {
  for (const NetworkFile& file : kNetworkFiles) {
    CAPTURE(std::string(file.name));
    const ModelConfig config = network_model(file);
    const Tensors source = read_weight_file(network_path(file)).tensors;
    Weights network(config);
    ConversionReport report;
    import_weights(source, file.scheme, config, {}, network.weights, report);
    CHECK(report.matched == source.size());
    const Tensors back = export_weights(network.weights, config, file.scheme);
    CHECK(back.size() == source.size());
    for (const HostTensor& tensor : source) {
      const bool prefixed = tensor.name.starts_with("params/");
      const HostTensor& returned = back.get(prefixed ? tensor.name.substr(7) : tensor.name);
      CAPTURE(tensor.name);
      CHECK(returned.shape == tensor.shape);
      CHECK(returned.floats() == tensor.floats());
    }
  }
}

TEST_CASE("convert: what timm stores in another form gives its logits, and is written in the usual form") {
  for (const NetworkFile& file :
       {NetworkFile{"timm_placed_registers", NameScheme::timm}, NetworkFile{"timm_eva02_biases", NameScheme::timm}}) {
    CAPTURE(std::string(file.name));
    const ModelConfig config = network_model(file);
    const Tensors source = read_weight_file(network_path(file)).tensors;
    Weights network(config);
    ConversionReport report;
    import_weights(source, file.scheme, config, {}, network.weights, report);
    CHECK(report.matched == source.size());
    const std::vector<double> ours = logits_of(network.weights, config);
    const std::vector<float> theirs = values_of<float>(expected_file().get(std::string("logits/") + file.name));
    REQUIRE(ours.size() == theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(std::abs(ours[i] - double(theirs[i])) < 1e-5);
    // Read again, it is the same network.
    Weights again(config);
    ConversionReport second;
    import_weights(export_weights(network.weights, config, file.scheme), file.scheme, config, {}, again.weights,
                   second);
    CHECK(all_values(again.weights) == all_values(network.weights));
  }
}

TEST_CASE("convert: positions of registers are told from those of patches") {
  const NetworkFile file{"timm_placed_registers", NameScheme::timm};
  const ViTConfig config = network_vit(file);
  const Tensors source = read_weight_file(network_path(file)).tensors;
  Weights network(config);
  ConversionReport report;
  import_weights(source, NameScheme::timm, config, {}, network.weights, report);
  const std::vector<float> table = source.get("pos_embed").floats(), tokens = source.get("reg_token").floats();
  const Tensor ours = network.weights.read(network.weights.find("reg_token")),
               placed = network.weights.read(network.weights.find("pos_embed"));
  REQUIRE(placed.size() == 7 * 8);
  for (std::size_t i = 0; i < 24; ++i) CHECK(ours.data<float>()[i] == tokens[i] + table[8 + i]);
  CHECK(std::equal(table.begin(), table.begin() + 8, placed.data<float>()));
  CHECK(std::equal(table.begin() + 32, table.end(), placed.data<float>() + 8));
  CHECK(has(report.text(), "rows of registers were added to the registers"));
  const Tensors back = export_weights(network.weights, config, NameScheme::timm);
  const std::vector<float> written = back.get("pos_embed").floats();
  REQUIRE(written.size() == table.size());
  for (std::size_t i = 8; i < 32; ++i) CHECK(written[i] == 0.0f);
  // Without registers here, they are tokens too many, and no network has 9 patches of 2 x 3.
  ViTConfig fewer = config;
  fewer.registers = 0;
  CHECK(has(refusal(source, NameScheme::timm, fewer, {.allow_left_over = true}), "pos_embed is [1, 10, 8]"));
}

TEST_CASE("convert: names of Eva in a gated MLP") {
  ViTConfig c = network_vit({"timm_eva02", NameScheme::timm});
  const auto their_name = [&](const std::string& ours) {
    ParameterSet set;
    make_model(set, c);
    for (const TensorLink& link : link_tensors(NameScheme::timm, c, set))
      if (link.ours == ours) return concat(link.theirs, " ", link.part, "/", link.parts);
    return std::string();
  };
  CHECK(their_name("blocks.0.mlp.fc1.weight") == "blocks.0.mlp.fc1.weight 0/2");
  CHECK(their_name("blocks.0.mlp.fc3.bias") == "blocks.0.mlp.fc1.bias 1/2");
  c.placement.mlp.inner = norm_of(NormKind::layer_norm);
  CHECK(their_name("blocks.0.mlp.fc1.weight") == "blocks.0.mlp.fc1_g.weight 0/1");
  CHECK(their_name("blocks.0.mlp.fc3.bias") == "blocks.0.mlp.fc1_x.bias 0/1");
  c.mlp = MlpForm::plain;
  c.activation = {};
  CHECK(their_name("blocks.0.mlp.fc1.weight") == "blocks.0.mlp.fc1.weight 0/1");
}

TEST_CASE("convert: rotary positions of another grid need its name") {
  const auto [config, file] = load(10);
  ViTConfig own = config;
  own.rotary = RotaryDialect::eva02;
  const std::string said = "its rotary positions count patches in another grid, 4x4; give \"rotary\" its \"grid\"";
  CHECK(has(refusal(file, NameScheme::timm, own, {.resize_positions = Resampling::bilinear, .grid = PatchGrid{4, 4}}),
            said));
  CHECK_FALSE(has(refusal(file, NameScheme::timm, own, {.grid = PatchGrid{2, 3}}), said));
}

TEST_CASE("convert: every placement is exported and imported or refused by its site") {
  std::size_t held = 0;
  const auto check = [&](const ModelConfig& config) {
    for (const NameScheme scheme :
         {NameScheme::normlab, NameScheme::timm, NameScheme::big_vision, NameScheme::augreg}) {
      CAPTURE(word_of(scheme));
      Weights network(config);
      fill_with_counts(network.weights);
      const std::vector<SchemeProblem> problems = scheme_problems(scheme, config);
      if (!problems.empty()) {
        CHECK_THROWS_WITH_AS(export_weights(network.weights, config, scheme),
                             doctest::Contains(problems.front().what.c_str()), InputError);
        continue;
      }
      ++held;
      const Tensors out = export_weights(network.weights, config, scheme);
      Weights back(config, 7);
      ConversionReport report;
      import_weights(out, scheme, config, {}, back.weights, report);
      CHECK(all_values(back.weights) == all_values(network.weights));
    }
  };
  for (const NamedPlacement& row : named_placements()) {
    CAPTURE(row.name);
    ViTConfig vit;
    vit.image_size = {8, 12};
    vit.embed_dim = 8;
    vit.depth = 2;
    vit.num_heads = 2;
    vit.mlp_dim = 12;
    vit.gelu = GeluForm::tanh;
    vit.placement = row.at(vit.depth);
    check(vit);
    vit.pool = Pool::token;
    vit.pos_embed_class = true;
    check(vit);
    SwinConfig swin;
    swin.embed_dim = 8;
    swin.depths = {1, 2};
    swin.num_heads = {2, 4};
    swin.window = 4;
    swin.placement = swin_placement(row.at(swin.depth()));
    if (validate(swin).empty()) check(swin);  // a Swin has no stem.posembed_out
  }
  // Our names fit always; timm has pre_pre and the rows that only change its kind of norm.
  CHECK(held > 3 * named_placements().size() + 10);
}

TEST_CASE("convert: a missing tensor is an error unless allowed") {
  const auto [config, file] = load(0);
  const Tensors lacking = changed(file, "blocks.1.attn.qkv.bias", std::nullopt);
  CHECK(has(refusal(lacking, NameScheme::timm, config), "1 tensors are missing"));
  const ConversionReport report = report_of(lacking, NameScheme::timm, config, {.allow_missing = true});
  CHECK(report.missing == std::vector<std::string>{"blocks.1.attn.qkv.bias"});  // once, not for q, k and v
  CHECK(has(report.text(), "31 tensors matched, 1 missing, 0 left over\n  missing    blocks.1.attn.qkv.bias\n"));
}

TEST_CASE("convert: a tensor that is left over is an error unless allowed") {
  const auto [config, file] = load(0);
  const Tensors more = changed(file, "", zeros("extra", {2}));
  CHECK(has(refusal(more, NameScheme::timm, config), "1 tensors are left over"));
  CHECK(refusal(more, NameScheme::timm, config, {.allow_left_over = true}) == "");
}

TEST_CASE("convert: a file without any tensor of the network is refused, with the prefix that hides its names") {
  const auto [config, file] = load(0);
  for (const std::string prefix : {"module.", "model.backbone."}) {
    Tensors hidden(file.source());
    for (HostTensor tensor : file) {
      tensor.name = prefix + tensor.name;
      hidden.add(tensor);
    }
    const std::string said = concat("no tensor has a name of the network; all names begin with \"", prefix, "\"");
    CHECK(has(refusal(hidden, NameScheme::timm, config), said));
    CHECK(has(refusal(hidden, NameScheme::timm, config, {.allow_missing = true, .allow_left_over = true}), said));
  }
  Tensors other("other");
  other.add(zeros("weight", {2}));
  CHECK(refusal(other, NameScheme::timm, config, {.allow_missing = true, .allow_left_over = true}) ==
        "other: no tensor has a name of the network");
}

TEST_CASE("convert: what is left out is reported, and drops no other tensor") {
  const auto [config, file] = load(0);
  const Tensors more = changed(file, "extra.weight", zeros("extra.weight", {2, 2}));
  CHECK(has(refusal(more, NameScheme::timm, config, {.leave_out = {"stem"}}), "1 tensors are left over"));
  const ConversionReport report = report_of(more, NameScheme::timm, config, {.leave_out = {"head", "extra.*"}});
  CHECK(report.left_out == std::vector<std::string>{"head.weight", "head.bias", "extra.weight"});
  CHECK(report.left_over.empty());
}

TEST_CASE("convert: a pattern of what is left out must match a tensor") {
  const auto [config, file] = load(0);
  CHECK(has(refusal(file, NameScheme::timm, config, {.leave_out = {"head", "hed"}}),
            "no tensor matches \"hed\" of \"leave_out\""));
}

TEST_CASE("convert: tensors of missing blocks are counted") {
  const auto [config, file] = load(0);
  ViTConfig deeper = config;
  deeper.depth = 3;
  CHECK(has(refusal(file, NameScheme::timm, deeper), "12 tensors are missing"));
  CHECK(has(refusal(file, NameScheme::timm, deeper, {.allow_left_over = true}), "12 tensors are missing"));
}

TEST_CASE("convert: positions with a class token do not fit a network without") {
  const auto [config, file] = load(0);
  ViTConfig gap = config;
  gap.pool = Pool::gap;
  gap.pos_embed_class = false;
  CHECK(has(refusal(file, NameScheme::timm, gap), "pos_embed is [1, 7, 8], but this model needs [1, 6, 8]"));
}

TEST_CASE("convert: tensors of another shape or type are named all at once") {
  const auto [config, file] = load(0);
  Tensors wrong = changed(file, "head.bias", zeros("head.bias", {6}));
  wrong = changed(wrong, "norm.weight", host_tensor<std::int32_t>("norm.weight", {8}, std::vector<std::int32_t>(8)));
  const std::string text = refusal(wrong, NameScheme::timm, config);
  CHECK(has(text, "head.bias is [6], but this model needs [5]"));
  CHECK(has(text, "norm.weight holds I32"));
}

TEST_CASE("convert: a tensor of another shape with as many elements is refused") {
  const auto [config, file] = load(0);
  const Tensors turned = changed(file, "patch_embed.proj.weight", zeros("patch_embed.proj.weight", {8, 4, 4, 3}));
  CHECK(has(refusal(turned, NameScheme::timm, config), "[8, 4, 4, 3], but this model needs [8, 3, 4, 4]"));
}

TEST_CASE("convert: the error about positions names the setting that fits") {
  const auto [config, file] = load(0);
  ViTConfig without = config;
  without.pos_embed_class = false;
  CHECK(has(refusal(file, NameScheme::timm, without), "\"pos_embed_class\": true"));
}

TEST_CASE("convert: half precision is widened") {
  const auto [config, file] = load(0);
  std::vector<bf16> halves;
  for (const float value : file.get("norm.weight").floats()) halves.push_back(bf16(value));
  Weights network(config);
  ConversionReport report;
  import_weights(changed(file, "norm.weight", host_tensor<bf16>("norm.weight", {8}, halves)), NameScheme::timm, config,
                 {}, network.weights, report);
  const Tensor gamma = network.weights.value(network.weights.find("final.gamma"));
  for (std::size_t i = 0; i < halves.size(); ++i) CHECK(gamma.data<float>()[i] == float(halves[i]));
}

TEST_CASE("convert: parts that no network here has are refused even if allowed") {
  const auto [config, file] = load(0);
  const ImportOptions everything{.allow_missing = true, .allow_left_over = true};
  CHECK(has(refusal(changed(file, "", zeros("attn_pool.latent", {1, 1, 8})), NameScheme::timm, config, everything),
            "attn_pool.latent: attention pooling"));
  const auto [flax_config, flax] = load(3);
  CHECK(has(refusal(changed(flax, "", zeros("params/MAPHead_0/probe", {1, 1, 8})), NameScheme::big_vision, flax_config,
                    everything),
            "params/MAPHead_0/probe: attention pooling"));
}

TEST_CASE("convert: LayerScale is read under DeiT-III's own names") {
  const auto [config, file] = load(1);
  HostTensor gain = file.get("blocks.0.ls1.gamma");
  gain.name = "blocks.0.gamma_1";
  Weights network(config);
  ConversionReport report;
  import_weights(changed(file, "blocks.0.ls1.gamma", gain), NameScheme::timm, config, {}, network.weights, report);
  const Tensor ours = network.weights.value(network.weights.find("blocks.0.attn.layer_scale"));
  CHECK(std::vector<float>(ours.data<float>(), ours.data<float>() + 8) == gain.floats());
}

TEST_CASE("convert: a LayerScale under two names is refused") {
  const auto [config, file] = load(1);
  HostTensor gain = file.get("blocks.0.ls1.gamma");
  gain.name = "blocks.0.gamma_1";
  CHECK(has(refusal(changed(file, "", gain), NameScheme::timm, config), "are the same tensor of the network"));
}

TEST_CASE("convert: files of Flax are read under each prefix") {
  const auto [config, file] = load(3);
  const std::vector<float> straight = imported(file, config);
  for (const std::string prefix : {"", "opt/target/", "params/img/"}) {
    Tensors renamed("renamed.npz");
    for (HostTensor tensor : file) {
      tensor.name = prefix + tensor.name.substr(7);
      renamed.add(tensor);
    }
    CAPTURE(prefix);
    CHECK(imported(renamed, config) == straight);
  }
}

TEST_CASE("convert: two prefixes in a file of Flax are refused") {
  const auto [config, file] = load(3);
  Tensors two = file;
  two.add(zeros("params/img/embedding/kernel", {4, 4, 3, 8}));
  CHECK(has(refusal(two, NameScheme::big_vision, config), "\"params/\" and \"params/img/\""));
}

TEST_CASE("convert: tensors under the names of another program are refused") {
  const auto [config, file] = load(3);
  CHECK(
      has(refusal(load(0).tensors, NameScheme::big_vision, config), "the tensors do not have the names of big_vision"));
}

TEST_CASE("convert: blocks of Flax that are stored as one are read") {
  const auto [config, file] = load(3);
  CHECK(imported(scanned_blocks(file), config) == imported(file, config));
}

TEST_CASE("convert: scanned tensors that are left over are named once each") {
  const auto [config, file] = load(3);
  Tensors scanned = scanned_blocks(file);
  for (const std::string name : {"a", "b"}) scanned.add(zeros("params/Transformer/encoderblock/" + name, {2, 4}));
  CHECK(report_of(scanned, NameScheme::big_vision, config, {.allow_left_over = true}).left_over.size() == 2);
}

TEST_CASE("convert: as many blocks must be stored as one as the network has") {
  const auto [config, file] = load(3);
  const Tensors scanned = scanned_blocks(file);
  ViTConfig deeper = config;
  deeper.depth = 3;
  CHECK(has(refusal(scanned, NameScheme::big_vision, deeper), "its first axis must be the 3 blocks"));
}

TEST_CASE("convert: the position of Flax's class token is added to the token") {
  const auto [config, file] = load(3);
  std::vector<float> positions(8, 0.25f), token = file.get("params/cls").floats();
  const std::vector<float> rest = file.get("params/pos_embedding").floats();
  positions.insert(positions.end(), rest.begin(), rest.end());
  for (float& value : token) value -= 0.25f;
  Tensors older =
      changed(file, "params/pos_embedding", host_tensor<float>("params/pos_embedding", {1, 7, 8}, positions));
  older = changed(older, "params/cls", host_tensor<float>("params/cls", {1, 1, 8}, token));
  const std::vector<float> straight = imported(file, config);
  const std::vector<float> folded = imported(older, config);
  double largest = 0.0;
  for (std::size_t i = 0; i < folded.size(); ++i)
    largest = std::max(largest, std::abs(double(folded[i]) - double(straight[i])));
  CHECK(largest < 1e-6);
}

TEST_CASE("convert: a grid with one patch more than a square has no position of a class token") {
  const auto [config, file] = load(3);
  ViTConfig wide = config;
  wide.image_size = {8, 20};  // 2 x 5
  const Tensors ten = changed(file, "params/pos_embedding", zeros("params/pos_embedding", {1, 10, 8}));
  const ConversionReport report = report_of(ten, NameScheme::big_vision, wide, {});
  CHECK_FALSE(has(report.text(), "class token"));
}

TEST_CASE("convert: positions of another grid are resized only if asked") {
  const auto [config, file] = load(0);
  std::vector<float> rows(5 * 8);  // a class token and 2 x 2 patches
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = float(i % 8) + 10.0f * float(i / 8);
  const Tensors square = changed(file, "pos_embed", host_tensor<float>("pos_embed", {1, 5, 8}, rows));
  CHECK(has(refusal(square, NameScheme::timm, config),
            "pos_embed is [1, 5, 8], but this model needs [1, 7, 8]; --resize-positions resizes its grid of 2x2"));
  Weights network(config);
  ConversionReport report;
  import_weights(square, NameScheme::timm, config, {.resize_positions = Resampling::corners}, network.weights, report);
  CHECK(report.positions == "positions 2x2 -> 2x3 by corners, 1 prefix token kept");
  const float* ours = network.weights.value(network.weights.find("pos_embed")).data<float>();
  CHECK(ours[0] == 0.0f);           // the class token's
  CHECK(ours[8] == 10.0f);          // a corner
  CHECK(ours[2 * 8] == 15.0f);      // between two
  CHECK(ours[3 * 8 + 1] == 21.0f);  // the next corner
}

TEST_CASE("convert: positions that are not a square grid are refused") {
  const auto [config, file] = load(0);
  const Tensors odd = changed(file, "pos_embed", zeros("pos_embed", {1, 4, 8}));
  const std::string said = refusal(odd, NameScheme::timm, config, {.resize_positions = Resampling::corners});
  CHECK(has(said, "pos_embed is [1, 4, 8], but this model needs [1, 7, 8]; nothing states its grid: run `normlab"));
}

namespace {

/// Positions [1, patches, 8] that grow by 1 from channel to channel, and by 10 from row to row of the table.
Tensors counted_positions(std::uint64_t patches) {
  std::vector<float> values(patches * 8);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i % 8) + 10.0f * float(i / 8);
  const auto [config, file] = load(0);
  return changed(file, "pos_embed", host_tensor<float>("pos_embed", {1, patches, 8}, values));
}
/// The network of that file on another grid of patches, whose class token has no position.
ViTConfig with_grid(std::int64_t height, std::int64_t width) {
  ViTConfig c = load(0).config;
  c.image_size = {height * c.patch_size, width * c.patch_size};
  c.pool = Pool::gap;
  c.pos_embed_class = false;
  return c;
}
/// Positions of a network that took them, [patches, 8].
std::vector<float> positions_of(const Tensors& file, const ViTConfig& config, const PatchGrid& grid) {
  Weights network(config);
  ConversionReport report;
  import_weights(file, NameScheme::timm, config,
                 {.allow_left_over = true, .resize_positions = Resampling::bilinear, .grid = grid}, network.weights,
                 report);
  const Tensor table = network.weights.value(network.weights.find("pos_embed"));
  return {table.data<float>(), table.data<float>() + table.size()};
}

}  // namespace

TEST_CASE("convert: positions are resized from the grid that their network states") {
  const Tensors file = counted_positions(16);
  // From 2 x 8 to 4 x 4 by half pixels: rows at -1/4, 1/4, 3/4 and 5/4 of the two, columns as means of neighbours.
  const std::vector<float> square = positions_of(file, with_grid(4, 4), {2, 8});
  const double row_share[] = {0, 0.25, 0.75, 1};
  for (std::size_t y = 0; y < 4; ++y)
    for (std::size_t x = 0; x < 4; ++x)
      CHECK(square[(y * 4 + x) * 8 + 3] == doctest::Approx(3 + 10 * (8 * row_share[y] + 2 * double(x) + 0.5)));
  // To 2 x 4: rows stay.
  const std::vector<float> narrow = positions_of(file, with_grid(2, 4), {2, 8});
  for (std::size_t y = 0; y < 2; ++y)
    for (std::size_t x = 0; x < 4; ++x)
      CHECK(narrow[(y * 4 + x) * 8] == doctest::Approx(10 * (8 * double(y) + 2 * double(x) + 0.5)));
  CHECK(positions_of(file, with_grid(2, 8), {2, 8}) == file.get("pos_embed").floats());
}

TEST_CASE("convert: positions of another grid with as many patches are refused unless they are resized") {
  const Tensors file = counted_positions(16);
  const auto said = [&](const ViTConfig& config, std::optional<Resampling> how, std::optional<PatchGrid> grid) {
    return refusal(file, NameScheme::timm, config, {.allow_left_over = true, .resize_positions = how, .grid = grid});
  };
  CHECK(said(with_grid(2, 8), {}, {}) == "");  // the model is the file's
  CHECK(has(said(with_grid(4, 4), {}, PatchGrid{2, 8}),
            "pos_embed is of another grid, but this model needs 4x4; --resize-positions resizes its grid of 2x8"));
  CHECK(said(with_grid(4, 4), Resampling::bilinear, {}) == "");  // a square
  // Nothing states whether these are 2 x 8 or 4 x 4.
  CHECK(has(said(with_grid(2, 8), Resampling::bilinear, {}), "nothing states its grid"));
  CHECK(has(said(with_grid(4, 4), Resampling::bilinear, PatchGrid{4, 5}),
            "pos_embed is of another grid, but this model needs 4x4; its network has a grid of 4x5"));
  ViTConfig token = with_grid(5, 3);
  token.pool = Pool::token;
  CHECK(has(said(token, Resampling::bilinear, PatchGrid{3, 5}), "its class token has a position"));
}

TEST_CASE("convert: Swin's files have the names of timm or of its authors") {
  const NetworkFile& timm = kNetworkFiles[6];
  const ModelConfig config = network_model(timm);
  const Tensors file = read_weight_file(network_path(timm)).tensors;
  Tensors official("official.safetensors");
  for (HostTensor tensor : file) {
    if (tensor.name.starts_with("layers.1.downsample.")) tensor.name.replace(7, 1, "0");
    if (tensor.name.starts_with("head.fc.")) tensor.name.erase(5, 3);
    official.add(tensor);
  }
  official.add(host_tensor<std::int64_t>("layers.0.blocks.0.attn.relative_position_index", {1}, {0}));
  official.add(zeros("layers.0.blocks.1.attn_mask", {1}));
  Weights theirs(config), authors(config, 7);
  ConversionReport report;
  import_weights(file, NameScheme::timm, config, {}, theirs.weights, report);
  CHECK(report.notes.empty());
  report = {};
  import_weights(official, NameScheme::timm, config, {}, authors.weights, report);
  CHECK(all_values(authors.weights) == all_values(theirs.weights));
  CHECK(has(report.text(), "these are the names of Swin's authors"));
  CHECK(report.skipped.size() == 1);

  Tensors both = official;
  both.add(zeros("head.fc.bias", {5}));
  Weights network(config);
  CHECK_THROWS_WITH_AS(import_weights(both, NameScheme::timm, config, {}, network.weights, report),
                       doctest::Contains("are the same tensor of the network"), InputError);
}

TEST_CASE("convert: fixed positions are exported to timm as a tensor") {
  auto [config, file] = load(0);
  config.pos_embed = PosEmbed::sincos2d;
  config.pos_embed_class = false;
  Weights network(config);
  fill_with_counts(network.weights);
  const Tensors out = export_weights(network.weights, config, NameScheme::timm);
  CHECK(out.get("pos_embed").shape == std::vector<std::uint64_t>{1, 6, 8});
  CHECK(refusal(out, NameScheme::timm, config) == "");
}

TEST_CASE("convert: fixed positions of timm must be those of the network") {
  auto [config, file] = load(0);
  config.pos_embed = PosEmbed::sincos2d;
  config.pos_embed_class = false;
  const Weights network(config);
  const Tensors out = export_weights(network.weights, config, NameScheme::timm);
  const Tensors other = changed(out, "pos_embed", zeros("pos_embed", {1, 6, 8}));
  CHECK(has(refusal(other, NameScheme::timm, config), "pos_embed differs from sincos2d by 1"));
}

TEST_CASE("convert: the optimiser in a checkpoint is skipped") {
  const auto [config, file] = load(0);
  const Weights network(config);
  Tensors ours = export_weights(network.weights, config, NameScheme::normlab);
  ours.add(zeros("optimizer.m/head.bias", {5}));
  const ConversionReport report = report_of(ours, NameScheme::normlab, config, {});
  CHECK(report.skipped.at("state of the optimiser") == std::vector<std::string>{"optimizer.m/head.bias"});
}
