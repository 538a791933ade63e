#include "experiments/lab/weights/model_names.h"

#include "core/error.h"
#include "experiments/lab/weights/model_name_tables.h"

namespace normlab {
namespace {

using namespace name_tables;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The numbers in place of "{}" in `pattern`; none if the name does not match. A leading or trailing "*"
/// matches anything.
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

/// Sets everything about a layer's tensor except its name.
void set_layout(TensorLink& link, Row row, bool transposed, const Shape& shape, const ModelConfig& config, bool flax) {
  const auto dim = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const bool matrix = shape.rank() == 2;
  const std::uint64_t rows = dim(link.rows), columns = dim(link.columns),
                      heads = dim(kind_of(config) == ModelKind::vit ? std::get<ViTConfig>(config).num_heads
                                                                    : 1);  // of no Swin are split
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
      const std::uint64_t p = dim(std::visit([](const auto& c) { return c.patch_size; }, config));
      link.channels = channels(config);
      if (flax) {
        link.their_shape = {p, p, dim(link.channels), rows};
      } else {
        link.order = ValueOrder::convolution;
        link.their_shape = {rows, dim(link.channels), p, p};
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
  const NetworkConfig& c = network(config);
  const bool gated = c.mlp == MlpForm::gated, plain_hidden = c.placement.mlp.inner.kind == NormKind::none;
  for (const NameRow& row : names_of(table, config).rows) {
    const auto numbers = match(row.ours, row.row == Row::tensor ? name : layer);
    if (!numbers) continue;
    if (row.row == Row::tensor) {
      link.theirs = fill(row.theirs, *numbers);
      return;
    }
    for (const Suffix& word : table.suffixes) {
      if (word.ours != suffix) continue;
      const bool packs = gated && plain_hidden && !row.packed.empty();
      const std::string_view theirs = packs ? row.packed : gated && !row.gated.empty() ? row.gated : row.theirs;
      link.theirs = fill(theirs, *numbers) + (table.npz ? "/" : ".") + std::string(word.theirs);
      set_layout(link, row.row, word.transposed, shape, config, table.npz);
      if (!packs) continue;
      link.part = link.role == Role::fc3 ? 1 : 0;
      link.parts = 2;
      link.their_shape[0] *= 2;
    }
    return;
  }
}

/// timm adds positions to all tokens before the patches, or to none. Those of registers are then zero.
void leave_gap(TensorLink& link, const ViTConfig& c) {
  if (!c.class_position()) return;
  link.gap_at = c.class_tokens() * c.embed_dim;
  link.gap = c.registers * c.embed_dim;
  link.their_shape[1] += std::uint64_t(c.registers);
}

/// Calls `see(ours, theirs)` with the index of each value in both tensors.
template <class See>
void for_each_value(const TensorLink& link, See&& see) {
  const std::int64_t pixels = link.columns / link.channels, first = link.part * link.size();
  for (std::int64_t r = 0; r < link.rows; ++r)
    for (std::int64_t c = 0; c < link.columns; ++c) {
      std::int64_t there = r * link.columns + c;
      if (link.order == ValueOrder::transposed) there = c * link.rows + r;
      if (link.order == ValueOrder::convolution)
        there = (r * link.channels + c % link.channels) * pixels + c / link.channels;
      see(r * link.columns + c, first + there + (there < link.gap_at ? 0 : link.gap));
    }
}

}  // namespace

std::vector<std::uint64_t> dims_of(const Shape& shape) {
  std::vector<std::uint64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(static_cast<std::uint64_t>(shape[i]));
  return dims;
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
      link.role = infos[i].role;
      link.number = static_cast<int>(i);
      link.their_shape = dims_of(infos[i].shape);
      link.rows = infos[i].shape[0];
      link.columns = infos[i].shape.size() / link.rows;
      if (scheme == NameScheme::normlab)
        link.theirs = link.ours;
      else
        find_theirs(link, table_of(scheme), infos[i].shape, config);
      if (scheme == NameScheme::timm && link.role == Role::positions) leave_gap(link, std::get<ViTConfig>(config));
      links.push_back(std::move(link));
    }
  };
  add(set.parameters(), false);
  add(set.buffers(), true);
  return links;
}

bool shows_official_swin(NameScheme scheme, const ModelConfig& config, std::string_view name) {
  return scheme == NameScheme::timm && kind_of(config) == ModelKind::swin && name.starts_with(kFirstMerge);
}

SourceName read_source_name(NameScheme scheme, const ModelConfig& config, bool official_swin, const std::string& name) {
  constexpr std::size_t kMostDigits = 3;
  if (const auto merge = match(kMerge, name); official_swin && merge && merge->front().size() <= kMostDigits)
    return {Use::take, concat("layers.", std::stoi(merge->front()) + 1, name.substr(name.find(".downsample."))), {}};
  std::vector<SpecialName> specials(table_of(scheme).special.begin(), table_of(scheme).special.end());
  const std::span<const SpecialName> own = names_of(table_of(scheme), config).special;
  specials.insert(specials.end(), own.begin(), own.end());
  for (const SpecialName& special : specials) {
    const auto numbers = match(special.theirs, name);
    if (!numbers) continue;
    if (special.use == Use::take) return {Use::take, fill(special.text, *numbers), {}};
    return {special.use, name, special.text};
  }
  return {Use::take, name, {}};
}

std::optional<std::string> scanned_name(NameScheme scheme, const std::string& name, std::int64_t block) {
  if (!stored_as_npz(scheme) || !name.starts_with(kScannedBlocks)) return std::nullopt;
  return concat(kOneBlock, block, "/", name.substr(kScannedBlocks.size()));
}

}  // namespace normlab
