#include "experiments/lab/descriptor/form.h"

#include <cmath>
#include <limits>

#include "experiments/lab/base/text_layout.h"

namespace normlab {

JsonNode number_schema(const char* name, Range range) {
  JsonNode node = type(name);
  if (std::isfinite(range.low)) node.add(range.low_open ? "exclusiveMinimum" : "minimum", range.low);
  if (std::isfinite(range.high)) node.add(range.high_open ? "exclusiveMaximum" : "maximum", range.high);
  return node;
}

std::string number_words(std::string_view name, Range range) {
  std::string bounds;
  const auto bound = [&](const char* sign, double limit) {
    if (std::isfinite(limit)) bounds += concat(bounds.empty() ? " " : ", ", sign, " ", value_text(limit));
  };
  bound(range.low_open ? ">" : ">=", range.low);
  bound(range.high_open ? "<" : "<=", range.high);
  return concat(name, bounds);
}

std::string alternatives(std::span<const std::string_view> words, std::string_view separator) {
  std::string all;
  for (const std::string_view word : words) all += concat(all.empty() ? "" : separator, word);
  return all;
}

std::string plain_text(const JsonNode& node) {
  if (node.is_object()) return "";
  if (!node.is_array()) return node.is_string() ? node.text : value_text(node);
  std::string items;
  for (const JsonNode& item : node.items) items += concat(items.empty() ? "" : ", ", plain_text(item));
  return concat("[", items, "]");
}

namespace {

/// Why a non-integer number was refused, with the integer probably meant.
std::string not_an_integer(const JsonNode& node) {
  if (node.kind != JsonKind::real) return "expected an integer, got " + describe(node);
  if (!node.text.empty() && node.text.find_first_of(".eE") == std::string::npos)
    return "the integer " + describe(node) + " is too large";
  const bool whole = std::abs(node.real) < 9e15 && std::floor(node.real) == node.real;
  return "expected an integer, got " + describe(node) + (whole ? "; write " + value_text(node) : "");
}

/// The number at that path of T, none if there is another value or nothing.
template <class T>
std::optional<NumberSetting> number_in(std::string_view path) {
  std::optional<NumberSetting> found;
  if constexpr (std::is_same_v<T, ModelConfig>) {
    found = number_in<ViTConfig>(path);
    if (!found) found = number_in<SwinConfig>(path);
  } else if constexpr (kHasFields<T>) {
    for_each_field<T>([&](const auto& field) {
      using Member = typename std::remove_cvref_t<decltype(field)>::Member;
      constexpr bool kInteger = (std::is_integral_v<Member> && !std::is_same_v<Member, bool>) ||
                                std::is_same_v<Member, std::array<std::int64_t, 2>>;  // "image_size": 32
      if (path == field.key && (kInteger || std::is_same_v<Member, double>))
        found = NumberSetting{kInteger, field.range};
      else if (path.starts_with(concat(field.key, ".")))
        found = number_in<Member>(path.substr(field.key.size() + 1));
    });
  }
  return found;
}

/// Paths of settings of T named `key`. Skips norm settings, which exist at every site.
template <class T>
void add_paths(const std::string& prefix, std::string_view key, std::vector<std::string>& out) {
  if constexpr (std::is_same_v<T, ModelConfig>) {
    add_paths<ViTConfig>(prefix, key, out);
    add_paths<SwinConfig>(prefix, key, out);
  } else if constexpr (kHasFields<T> && !std::is_same_v<T, NormSpec>) {
    for_each_field<T>([&](const auto& field) {
      const std::string path = prefix + std::string(field.key);
      if (field.key == key && std::find(out.begin(), out.end(), path) == out.end()) out.push_back(path);
      add_paths<typename std::remove_cvref_t<decltype(field)>::Member>(path + ".", key, out);
    });
  }
}

}  // namespace

void FieldReader::report_below(const JsonNode& node, std::string_view key, const std::string& what) {
  const std::size_t dot = std::min(key.find('.'), key.size());
  const std::string_view first = key.substr(0, dot);
  const JsonNode* below = nullptr;
  if (node.is_array()) {
    const std::size_t index = static_cast<std::size_t>(std::stoul(std::string(first)));
    if (index < node.items.size()) below = &node.items[index];
  } else if (const JsonMember* member = node.find(first)) {
    below = &member->value;
  }
  if (below == nullptr) return report(node.at, what);
  if (dot == key.size()) return report(below->at, what);
  report_below(*below, key.substr(dot + 1), what);
}

template <class Number>
void FieldReader::check_range(const JsonNode& node, Number read, Range range, Number& out) {
  const double number = double(read);
  const auto refuse = [&](const char* bound, double limit, std::string_view why = {}) {
    report(node.at,
           concat("must be ", bound, " ", value_text(limit), ", got ", describe(node), why.empty() ? "" : "; ", why));
  };
  const bool bounded = !range.of_descriptors || mode_ != ReadMode::canonical;
  if (bounded && (range.low_open ? number <= range.low : number < range.low))
    refuse(range.low_open ? "above" : "at least", range.low);
  else if (bounded && (range.high_open ? number >= range.high : number > range.high))
    refuse(range.high_open ? "below" : "at most", range.high, range.why);
  else
    out = read;
}

void FieldReader::number(const JsonNode& node, std::int64_t& out, Range range) {
  constexpr auto kMax = std::uint64_t(std::numeric_limits<std::int64_t>::max());
  if (node.kind == JsonKind::integer) return check_range(node, node.integer, range, out);
  if (node.kind != JsonKind::natural) return report(node.at, not_an_integer(node));
  if (node.natural > kMax) return report(node.at, "the integer " + describe(node) + " is too large");
  check_range(node, std::int64_t(node.natural), range, out);
}

void FieldReader::number(const JsonNode& node, std::uint64_t& out, Range range) {
  if (node.kind == JsonKind::integer) return report(node.at, "must be at least 0, got " + describe(node));
  if (node.kind != JsonKind::natural) return report(node.at, not_an_integer(node));
  check_range(node, node.natural, range, out);
}

void FieldReader::number(const JsonNode& node, double& out, Range range) {
  if (!node.is_number()) return report(node.at, "expected a number, got " + describe(node));
  const double read = node.number();
  if (!std::isfinite(read)) return report(node.at, "expected a finite number, got " + describe(node));
  using Float = std::numeric_limits<float>;  // the type that training uses
  const bool too_large = std::abs(read) > double(Float::max());
  const bool vanishes = read != 0 && std::abs(read) < double(Float::min());
  const bool becomes_bound = range.high_open && read < range.high && double(float(read)) >= range.high;
  if (mode_ == ReadMode::descriptor && (too_large || vanishes || becomes_bound))
    return report(node.at, concat(too_large  ? "is more than a float can hold (3.4e38)"
                                  : vanishes ? "becomes 0 as a float (the smallest is 1.2e-38)"
                                             : concat("becomes ", value_text(range.high), " as a float"),
                                  "; got ", describe(node)));
  check_range(node, read == 0 ? 0.0 : read, range, out);  // -0.0 would give another trial id
}

void FieldReader::refuse_both(const JsonNode& node, std::string_view a, std::string_view b) {
  const JsonMember *first = node.find(a), *second = node.find(b);
  if (first == nullptr || second == nullptr) return;
  const JsonMember* later = second;
  if (first->key_at.source == second->key_at.source &&
      std::tie(first->key_at.line, first->key_at.column) > std::tie(second->key_at.line, second->key_at.column))
    later = first;
  report(later->key_at, concat(later == first ? b : a, " is given too; leave one of them out"));
  for (const JsonMember* member : {first, second})
    problems_.used(member->key_at);  // already reported, so not as unused
}

namespace {
/// What networks elsewhere have and these do not, and what comes nearest.
constexpr std::pair<std::string_view, std::string_view> kMissing[] = {
    {"hyper_connections",
     "several residual streams are only those of the placement \"siamese_norm\" and of \"stream_norm\""},
    {"mhc", "several residual streams are only those of the placement \"siamese_norm\" and of \"stream_norm\""},
    {"experts", "a wider MLP is \"mlp_dim\", a gated one \"mlp\": \"gated\""},
    {"num_experts", "a wider MLP is \"mlp_dim\", a gated one \"mlp\": \"gated\""},
    {"parallel_blocks", "attention and MLP follow one another; their norms are those of \"placement\""},
    {"num_kv_heads", "each head has its own keys and values; \"num_heads\" says how many there are"},
    {"relative_position_bias", "only a model of kind swin has it, always; a vit has \"pos_embed\""},
    {"weight_standardization", "norms are of activations: \"normlab explain --placements\" lists what there is"},
};
}  // namespace

std::optional<NumberSetting> number_setting(std::string_view path) { return number_in<TrialConfig>(path); }

std::string unknown_setting(std::string_view key, const std::vector<std::string_view>& candidates) {
  for (const auto& [word, nearest_thing] : kMissing)
    if (edit_distance(key, word) == 0) return concat("there is no such setting; ", nearest_thing);
  if (key == kLeaveOneOutAxis) return concat("there is no such key here; did you mean \"sweep.", key, "\"?");
  constexpr std::size_t kFew = 3;
  std::vector<std::string> paths;
  add_paths<TrialConfig>("", key, paths);
  std::erase(paths, key);
  // More deeply nested settings are rarely meant.
  const auto depth = [](const std::string& path) { return std::count(path.begin(), path.end(), '.'); };
  std::ptrdiff_t least = std::numeric_limits<std::ptrdiff_t>::max();
  for (const std::string& path : paths) least = std::min(least, depth(path));
  std::erase_if(paths, [&](const std::string& path) { return depth(path) > least; });
  if (paths.empty() || paths.size() > kFew) return unknown_key(key, candidates);
  for (std::string& path : paths) path = in_quotes(path);
  return concat("there is no such key here; did you mean ", joined(paths, " or "), "?");
}

}  // namespace normlab
