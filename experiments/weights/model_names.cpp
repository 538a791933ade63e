#include "experiments/weights/model_names.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "nn/placement.h"

namespace normlab {
namespace {

// --- The tables. "{}" is a number, the same one on both sides; a trailing "*" is anything.

/// What a row is about. tensor: one tensor under the whole name, equal on both sides. The others are layers, whose
/// tensors have a suffix: layer: a norm or a linear. patches: the patch embedding. q, k, v: a third of the rows of one
/// tensor. split_heads: a linear whose output is [heads, head width]. join_heads: one whose input is.
enum class Row : std::uint8_t { tensor, layer, patches, q, k, v, split_heads, join_heads };

struct NameRow {
  std::string_view ours, theirs;
  Row row = Row::layer;
};

/// timm's vision_transformer.py and deit.py.
constexpr NameRow kTimmViT[] = {
    {"patch_embed", "patch_embed.proj", Row::patches},
    {"stem.patch_out", "patch_embed.norm"},
    {"cls_token", "cls_token", Row::tensor},
    {"dist_token", "dist_token", Row::tensor},
    {"pos_embed", "pos_embed", Row::tensor},
    {"stem.posembed_out", "norm_pre"},
    {"blocks.{}.attn.pre", "blocks.{}.norm1"},
    {"blocks.{}.attn.q", "blocks.{}.attn.qkv", Row::q},
    {"blocks.{}.attn.k", "blocks.{}.attn.qkv", Row::k},
    {"blocks.{}.attn.v", "blocks.{}.attn.qkv", Row::v},
    {"blocks.{}.attn.query", "blocks.{}.attn.q_norm"},
    {"blocks.{}.attn.key", "blocks.{}.attn.k_norm"},
    {"blocks.{}.attn.inner", "blocks.{}.attn.norm"},
    {"blocks.{}.attn.proj", "blocks.{}.attn.proj"},
    {"blocks.{}.attn.layer_scale", "blocks.{}.ls1.gamma", Row::tensor},
    {"blocks.{}.mlp.pre", "blocks.{}.norm2"},
    {"blocks.{}.mlp.fc1", "blocks.{}.mlp.fc1"},
    {"blocks.{}.mlp.inner", "blocks.{}.mlp.norm"},
    {"blocks.{}.mlp.fc2", "blocks.{}.mlp.fc2"},
    {"blocks.{}.mlp.layer_scale", "blocks.{}.ls2.gamma", Row::tensor},
    {"final", "norm"},
    {"pooled", "fc_norm"},
    {"head", "head"},
    {"head_dist", "head_dist"},
};

/// timm's swin_transformer.py; the official files count the merging layers one lower.
constexpr NameRow kTimmSwin[] = {
    {"patch_embed", "patch_embed.proj", Row::patches},
    {"stem.patch_out", "patch_embed.norm"},
    {"stages.{}.merge", "layers.{}.downsample.norm"},
    {"stages.{}.reduction", "layers.{}.downsample.reduction"},
    {"stages.{}.blocks.{}.attn.pre", "layers.{}.blocks.{}.norm1"},
    {"stages.{}.blocks.{}.attn.q", "layers.{}.blocks.{}.attn.qkv", Row::q},
    {"stages.{}.blocks.{}.attn.k", "layers.{}.blocks.{}.attn.qkv", Row::k},
    {"stages.{}.blocks.{}.attn.v", "layers.{}.blocks.{}.attn.qkv", Row::v},
    {"stages.{}.blocks.{}.attn.bias_table", "layers.{}.blocks.{}.attn.relative_position_bias_table", Row::tensor},
    {"stages.{}.blocks.{}.attn.proj", "layers.{}.blocks.{}.attn.proj"},
    {"stages.{}.blocks.{}.mlp.pre", "layers.{}.blocks.{}.norm2"},
    {"stages.{}.blocks.{}.mlp.fc1", "layers.{}.blocks.{}.mlp.fc1"},
    {"stages.{}.blocks.{}.mlp.fc2", "layers.{}.blocks.{}.mlp.fc2"},
    {"final", "norm"},
    {"head", "head.fc"},
};

/// Big Vision's models/vit.py.
constexpr NameRow kBigVision[] = {
    {"patch_embed", "embedding", Row::patches},
    {"cls_token", "cls", Row::tensor},
    {"pos_embed", "pos_embedding", Row::tensor},
    {"blocks.{}.attn.pre", "Transformer/encoderblock_{}/LayerNorm_0"},
    {"blocks.{}.attn.q", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/query", Row::split_heads},
    {"blocks.{}.attn.k", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/key", Row::split_heads},
    {"blocks.{}.attn.v", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/value", Row::split_heads},
    {"blocks.{}.attn.proj", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/out", Row::join_heads},
    {"blocks.{}.mlp.pre", "Transformer/encoderblock_{}/LayerNorm_1"},
    {"blocks.{}.mlp.fc1", "Transformer/encoderblock_{}/MlpBlock_0/Dense_0"},
    {"blocks.{}.mlp.fc2", "Transformer/encoderblock_{}/MlpBlock_0/Dense_1"},
    {"final", "Transformer/encoder_norm"},
    {"rep", "pre_logits"},
    {"head", "head"},
};

/// vision_transformer's models_vit.py, which numbers all modules of a block in one row.
constexpr NameRow kAugReg[] = {
    {"patch_embed", "embedding", Row::patches},
    {"cls_token", "cls", Row::tensor},
    {"pos_embed", "Transformer/posembed_input/pos_embedding", Row::tensor},
    {"blocks.{}.attn.pre", "Transformer/encoderblock_{}/LayerNorm_0"},
    {"blocks.{}.attn.q", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/query", Row::split_heads},
    {"blocks.{}.attn.k", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/key", Row::split_heads},
    {"blocks.{}.attn.v", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/value", Row::split_heads},
    {"blocks.{}.attn.proj", "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/out", Row::join_heads},
    {"blocks.{}.mlp.pre", "Transformer/encoderblock_{}/LayerNorm_2"},
    {"blocks.{}.mlp.fc1", "Transformer/encoderblock_{}/MlpBlock_3/Dense_0"},
    {"blocks.{}.mlp.fc2", "Transformer/encoderblock_{}/MlpBlock_3/Dense_1"},
    {"final", "Transformer/encoder_norm"},
    {"rep", "pre_logits"},
    {"head", "head"},
};

/// Suffixes of a layer's tensors; a matrix is transposed where the other program keeps [in, out].
struct Suffix {
  std::string_view ours, theirs;
  bool transposed = false;
};
constexpr Suffix kTorchSuffixes[] = {{"weight", "weight"},
                                     {"bias", "bias"},
                                     {"gamma", "weight"},
                                     {"beta", "bias"},
                                     {"alpha", "alpha"},
                                     {"running_mean", "running_mean"},
                                     {"running_var", "running_var"}};
constexpr Suffix kFlaxSuffixes[] = {{"weight", "kernel", true}, {"bias", "bias"}, {"gamma", "scale"}, {"beta", "bias"}};

/// Names that a file may have beside those of the network, or in their place.
struct SpecialName {
  std::string_view theirs;
  SourceName::Use use;
  std::string_view text;  // take: the name it stands for; skip, refuse: why
};
using Use = SourceName::Use;
constexpr SpecialName kNormlabSpecial[] = {
    {"optimizer.*", Use::skip, "state of the optimiser"},
};
constexpr std::string_view kMapHead = "attention pooling (Big Vision's MAP head), which no model here has";
constexpr SpecialName kTimmSpecial[] = {
    {"blocks.{}.gamma_1", Use::take, "blocks.{}.ls1.gamma"},  // DeiT-III's own files
    {"blocks.{}.gamma_2", Use::take, "blocks.{}.ls2.gamma"},
    {"*.relative_position_index", Use::skip, "follows from the window"},
    {"*.attn_mask", Use::skip, "follows from the window"},
    {"*.num_batches_tracked", Use::skip, "a count that evaluation does not use"},
    {"reg_token", Use::refuse, "register tokens, which no model here has"},
    {"attn_pool.*", Use::refuse, "attention pooling, which no model here has"},
};
constexpr SpecialName kFlaxSpecial[] = {
    {"MAPHead_0/*", Use::refuse, kMapHead},
};

constexpr std::string_view kNoPrefix[] = {""};
constexpr std::string_view kFlaxPrefixes[] = {"", "opt/target/", "params/", "params/img/"};

struct SchemeTable {
  std::string_view word, program;
  bool npz = false;
  std::span<const NameRow> vit, swin;
  std::span<const Suffix> suffixes;
  std::span<const SpecialName> special;
  std::span<const std::string_view> prefixes = kNoPrefix;
  std::string_view witness = "";
};
/// In the order of NameScheme.
constexpr std::array<SchemeTable, 4> kSchemes{{
    {"normlab", "normlab", false, {}, {}, {}, kNormlabSpecial},
    {"timm", "timm", false, kTimmViT, kTimmSwin, kTorchSuffixes, kTimmSpecial},
    {"big_vision", "Big Vision", true, kBigVision, {}, kFlaxSuffixes, kFlaxSpecial, kFlaxPrefixes, "embedding/kernel"},
    {"augreg", "AugReg", true, kAugReg, {}, kFlaxSuffixes, kFlaxSpecial, kFlaxPrefixes, "embedding/kernel"},
}};
constexpr std::string_view kScannedBlocks = "Transformer/encoderblock/", kOneBlock = "Transformer/encoderblock_";

const SchemeTable& table_of(NameScheme scheme) { return kSchemes[static_cast<std::size_t>(scheme)]; }
bool is_flax(NameScheme scheme) { return stored_as_npz(scheme); }
std::span<const NameRow> rows_of(const SchemeTable& table, const ModelConfig& config) {
  return kind_of(config) == ModelKind::vit ? table.vit : table.swin;
}

// --- Reading the tables.

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The numbers where `pattern` has "{}", or nothing where it is another name. "*" at the front or the end is anything.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view name) {
  if (pattern.front() == '*') {
    if (name.ends_with(pattern.substr(1))) return std::vector<std::string>{};
    return std::nullopt;
  }
  std::vector<std::string> numbers;
  std::size_t at = 0;
  for (std::size_t p = 0; p < pattern.size(); ++p) {
    if (pattern[p] == '*') return numbers;
    if (pattern.substr(p, 2) == "{}") {
      const std::size_t begin = at;
      while (at < name.size() && is_digit(name[at])) ++at;
      if (at == begin) return std::nullopt;
      numbers.emplace_back(name.substr(begin, at - begin));
      ++p;
    } else if (at == name.size() || name[at++] != pattern[p]) {
      return std::nullopt;
    }
  }
  if (at != name.size()) return std::nullopt;
  return numbers;
}

std::string fill(std::string_view pattern, const std::vector<std::string>& numbers) {
  std::string name;
  std::size_t next = 0;
  for (std::size_t p = 0; p < pattern.size(); ++p) {
    if (pattern.substr(p, 2) == "{}") {
      name += numbers[next++];
      ++p;
    } else {
      name += pattern[p];
    }
  }
  return name;
}

std::vector<std::uint64_t> dims_of(const Shape& shape) {
  std::vector<std::uint64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(static_cast<std::uint64_t>(shape[i]));
  return dims;
}

/// What shapes of theirs need besides ours.
struct Sizes {
  std::int64_t patch_size, channels, num_heads;
};
Sizes sizes_of(const ModelConfig& config) {
  if (const auto* vit = std::get_if<ViTConfig>(&config)) return {vit->patch_size, vit->channels, vit->num_heads};
  const auto& swin = std::get<SwinConfig>(config);
  return {swin.patch_size, swin.channels, 1};  // no scheme splits the heads of a Swin
}

/// Everything about a layer's tensor but its name.
void set_layout(TensorLink& link, Row row, bool transposed, const Shape& shape, const Sizes& c, bool flax) {
  const auto dim = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const bool matrix = shape.rank() == 2;
  const std::uint64_t rows = dim(link.rows), columns = dim(link.columns), heads = dim(c.num_heads);
  if (matrix && transposed) {
    link.order = ValueOrder::transposed;
    link.their_shape = {columns, rows};
  }
  switch (row) {
    case Row::q:
    case Row::k:
    case Row::v:
      link.part = row == Row::q ? 0 : row == Row::k ? 1 : 2;
      link.parts = 3;
      link.their_shape[0] *= 3;
      break;
    case Row::patches: {
      if (!matrix) break;
      const std::uint64_t p = dim(c.patch_size), channels = dim(c.channels);
      link.channels = c.channels;
      if (flax) {
        link.their_shape = {p, p, channels, rows};
      } else {
        link.order = ValueOrder::convolution;
        link.their_shape = {rows, channels, p, p};
      }
      break;
    }
    case Row::split_heads:
      link.their_shape = {heads, rows / heads};
      if (matrix) link.their_shape.insert(link.their_shape.begin(), columns);
      break;
    case Row::join_heads:
      if (matrix) link.their_shape = {heads, columns / heads, rows};
      break;
    case Row::tensor:
    case Row::layer:
      break;
  }
}

void find_theirs(TensorLink& link, const SchemeTable& table, const Shape& shape, const ModelConfig& config) {
  const std::size_t dot = link.ours.rfind('.');
  const std::string_view name = link.ours;
  const std::string_view layer = name.substr(0, dot), suffix = dot == name.npos ? "" : name.substr(dot + 1);
  for (const NameRow& row : rows_of(table, config)) {
    const auto numbers = match(row.ours, row.row == Row::tensor ? name : layer);
    if (!numbers) continue;
    if (row.row == Row::tensor) {
      link.theirs = fill(row.theirs, *numbers);
      return;
    }
    for (const Suffix& word : table.suffixes) {
      if (word.ours != suffix) continue;
      link.theirs = fill(row.theirs, *numbers) + (table.npz ? "/" : ".") + std::string(word.theirs);
      set_layout(link, row.row, word.transposed, shape, sizes_of(config), table.npz);
    }
    return;
  }
}

/// Calls `see(ours, theirs)` with the places of each value.
template <class See>
void for_each_value(const TensorLink& link, See&& see) {
  const std::int64_t pixels = link.columns / link.channels, first = link.part * link.size();
  for (std::int64_t r = 0; r < link.rows; ++r)
    for (std::int64_t c = 0; c < link.columns; ++c) {
      std::int64_t there = r * link.columns + c;
      if (link.order == ValueOrder::transposed) there = c * link.rows + r;
      if (link.order == ValueOrder::convolution)
        there = (r * link.channels + c % link.channels) * pixels + c / link.channels;
      see(r * link.columns + c, first + there);
    }
}

bool has_row(std::span<const NameRow> rows, std::string_view site) {
  const std::string end = "." + std::string(site);
  return std::any_of(rows.begin(), rows.end(),
                     [&](const NameRow& row) { return row.ours == site || row.ours.ends_with(end); });
}

bool normalizes_with_eps(NormKind kind) {
  return kind == NormKind::layer_norm || kind == NormKind::layer_norm_fixed || kind == NormKind::rms_norm;
}

}  // namespace

std::string_view to_string(NameScheme scheme) { return table_of(scheme).word; }

std::optional<NameScheme> name_scheme(std::string_view word) {
  for (std::size_t i = 0; i < kSchemes.size(); ++i)
    if (kSchemes[i].word == word) return static_cast<NameScheme>(i);
  return std::nullopt;
}

bool stored_as_npz(NameScheme scheme) { return table_of(scheme).npz; }

void TensorLink::to_ours(const float* theirs_values, float* ours_values) const {
  for_each_value(*this, [&](std::int64_t here, std::int64_t there) { ours_values[here] = theirs_values[there]; });
}

void TensorLink::to_theirs(const float* ours_values, float* theirs_values) const {
  for_each_value(*this, [&](std::int64_t here, std::int64_t there) { theirs_values[there] = ours_values[here]; });
}

std::vector<TensorLink> link_tensors(NameScheme scheme, const ModelConfig& config, const ParameterSet& set) {
  std::vector<TensorLink> links;
  const auto add = [&](const std::vector<ParameterInfo>& infos, bool buffers) {
    for (std::size_t i = 0; i < infos.size(); ++i) {
      TensorLink link;
      link.ours = infos[i].name;
      link.is_buffer = buffers;
      link.number = static_cast<int>(i);
      link.their_shape = dims_of(infos[i].shape);
      link.rows = infos[i].shape[0];
      link.columns = infos[i].shape.size() / link.rows;
      if (scheme == NameScheme::normlab)
        link.theirs = link.ours;
      else
        find_theirs(link, table_of(scheme), infos[i].shape, config);
      links.push_back(std::move(link));
    }
  };
  add(set.parameters(), false);
  add(set.buffers(), true);
  return links;
}

std::vector<SchemeProblem> scheme_problems(NameScheme scheme, const ModelConfig& config) {
  std::vector<SchemeProblem> problems;
  if (scheme == NameScheme::normlab) return problems;
  using Kind = SchemeProblem::Kind;
  const SchemeTable& table = table_of(scheme);
  const std::span<const NameRow> rows = rows_of(table, config);
  const Placement& placement = placement_of(config);
  const auto report = [&](Kind kind, const auto&... parts) { problems.push_back({kind, concat(parts...)}); };
  if (rows.empty()) {
    report(Kind::maths, "kind: is swin, which ", table.program, " has not");
    return problems;
  }

  visit_sites(placement, [&](std::string_view site, const NormSpec& spec) {
    if (spec.kind == NormKind::none) return;
    if (!has_row(rows, site))
      report(Kind::place, site, ": ", table.program, " has no norm there (it is ", to_string(spec.kind), ")");
    else if (is_flax(scheme) && spec.kind != NormKind::layer_norm)
      report(Kind::maths, site, ": is ", to_string(spec.kind), ", ", table.program, "'s is layer_norm");
    else if (spec.kind == NormKind::affine)
      report(Kind::maths, site, ": is affine, which ", table.program, " lacks; under that name it normalizes");
    else if (is_flax(scheme) && spec.eps != default_eps(NormKind::layer_norm))
      report(Kind::setting, site, ": eps is ", spec.eps, ", ", table.program, "'s is 1e-06");
  });
  const auto lacks = [&](bool there, std::string_view row, std::string_view what) {
    if (there && !has_row(rows, row)) report(Kind::place, what, ": ", table.program, " has none");
  };
  lacks(placement.head_scale != HeadScale::none, "head_scale", "head_scale");
  lacks(placement.residual_scale, "residual_scale", "residual_scale");
  lacks(placement.layer_scale.kind != LayerScaleKind::none, "layer_scale", "layer_scale");
  if (placement.layer_scale.kind == LayerScaleKind::scalar && has_row(rows, "layer_scale"))
    report(Kind::maths, "layer_scale: is one scalar a branch, ", table.program, "'s is a gain a channel");
  const auto* vit = std::get_if<ViTConfig>(&config);
  if (vit == nullptr) return problems;

  lacks(vit->rep_size > 0, "rep", "rep_size");
  lacks(vit->distill_token, "dist_token", "distill_token");
  const bool bypassed = placement.stem.posembed_out.kind != NormKind::none && vit->pool == Pool::token &&
                        !placement.stem.posembed_out_includes_class;
  if (bypassed && has_row(rows, "stem.posembed_out"))
    report(Kind::maths, "stem.posembed_out: the class token passes it by, in ", table.program, " it does not");
  if (!is_flax(scheme)) return problems;
  if (!vit->qkv_bias) report(Kind::maths, "qkv_bias: is false, in ", table.program, " there is always one");
  if (vit->gelu != Gelu::tanh)
    report(Kind::setting, "gelu: is erf, ", table.program, "'s is tanh; say \"gelu\": \"tanh\" where it was meant");
  if (scheme == NameScheme::augreg && vit->pos_embed != PosEmbed::learned)
    report(Kind::maths, "pos_embed: is sincos2d, AugReg's is learned");
  if (scheme == NameScheme::augreg && vit->pool == Pool::token && !vit->class_position())
    report(Kind::maths, "pos_embed_class: is false, in AugReg the class token has a position");
  return problems;
}

std::vector<std::string> scheme_advice(NameScheme scheme, const ModelConfig& config) {
  std::vector<std::string> advice;
  const auto say = [&](const auto&... parts) { advice.push_back(concat(parts...)); };
  const auto* vit = std::get_if<ViTConfig>(&config);
  if (scheme == NameScheme::timm) {
    const double timms_eps = vit != nullptr ? 1e-6 : 1e-5;
    visit_sites(placement_of(config), [&](std::string_view site, const NormSpec& spec) {
      if (normalizes_with_eps(spec.kind) && spec.eps != timms_eps)
        say(site, " has eps ", spec.eps, ": give timm a norm_layer with it");
      if (spec.kind != NormKind::none && spec.kind != NormKind::layer_norm)
        say(site, " is ", to_string(spec.kind), ": timm's network needs such a module there");
    });
    if (std::visit([](const auto& c) { return c.gelu; }, config) == Gelu::tanh)
      say("gelu is tanh: timm needs act_layer=\"gelu_tanh\"");
    if (vit != nullptr && vit->pool == Pool::token && !vit->class_position())
      say("the class token has no position: timm needs no_embed_class=True");
    if (placement_of(config).stem.posembed_out.kind != NormKind::none)
      say("there is a norm after the positions: timm's pre_norm=True leaves out patch_embed.proj.bias, which is here");
  }
  if (scheme == NameScheme::big_vision && vit != nullptr && vit->class_position())
    say("pos_embedding has a row for the class token, as older files: Big Vision adds it to cls when it loads them");
  return advice;
}

SourceName read_source_name(NameScheme scheme, const std::string& name) {
  for (const SpecialName& special : table_of(scheme).special) {
    const auto numbers = match(special.theirs, name);
    if (!numbers) continue;
    if (special.use == Use::take) return {Use::take, fill(special.text, *numbers), {}};
    return {special.use, name, special.text};
  }
  return {Use::take, name, {}};
}

NamePrefixes name_prefixes(NameScheme scheme) {
  const SchemeTable& table = table_of(scheme);
  return {{table.prefixes.begin(), table.prefixes.end()}, table.witness};
}

std::optional<std::string> scanned_name(NameScheme scheme, const std::string& name, std::int64_t block) {
  if (!is_flax(scheme) || !name.starts_with(kScannedBlocks)) return std::nullopt;
  return concat(kOneBlock, block, "/", name.substr(kScannedBlocks.size()));
}

}  // namespace normlab
