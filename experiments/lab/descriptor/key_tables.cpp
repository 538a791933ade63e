#include <cmath>

#include "core/error.h"
#include "experiments/lab/descriptor/fields.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/schema.h"

namespace normlab {
namespace {

template <class T>
struct Type {};

std::string number_words(const char* name, Range range) {
  std::string bounds;
  const auto bound = [&](const char* sign, double limit) {
    if (std::isfinite(limit)) bounds += concat(bounds.empty() ? " " : ", ", sign, " ", value_text(limit));
  };
  bound(range.low_open ? ">" : ">=", range.low);
  bound(range.high_open ? "<" : "<=", range.high);
  return name + bounds;
}

std::string words(Type<bool>, Range) { return "true \\| false"; }
std::string words(Type<double>, Range range) { return number_words("number", range); }
std::string words(Type<std::int64_t>, Range range) { return number_words("integer", range); }
std::string words(Type<std::uint64_t>, Range) { return "integer >= 0"; }
std::string words(Type<std::optional<std::int64_t>>, Range range) { return number_words("integer", range); }
std::string words(Type<std::string>, Range) { return "string"; }
std::string words(Type<std::array<std::int64_t, 2>>, Range range) {
  return number_words("integer or [integer, integer]", range);
}
std::string words(Type<std::array<double, 2>>, Range) { return "[number, number]"; }
std::string words(Type<std::vector<double>>, Range) { return "list of numbers"; }
std::string words(Type<std::vector<std::int64_t>>, Range range) { return number_words("list of integers", range); }
std::string words(Type<std::vector<std::string>>, Range) { return "list of strings"; }
template <class E>
requires std::is_enum_v<E> std::string words(Type<std::vector<E>>, Range) {
  std::string all;
  for (const std::string_view word : kWords<E>) all += concat(all.empty() ? "list of " : " \\| ", word);
  return all;
}
std::string words(Type<ClassGroups>, Range) { return "object of lists of strings"; }
std::string words(Type<StartFrom>, Range) { return "{\"descriptor\", \"row\", \"seed\"}"; }
std::string words(Type<std::vector<Multiplier>>, Range) { return "list of {\"name\", \"lr\", \"weight_decay\"}"; }
std::string words(Type<NormSpec>, Range) { return "norm"; }
std::string words(Type<Placement>, Range) { return "placement"; }
std::string words(Type<DropoutRates>, Range range) { return number_words("number", range) + ", or an object"; }
std::string words(Type<LayerScale>, Range) { return "none \\| channel \\| scalar, or {\"kind\", \"init\"}"; }
template <class Rule>
std::string words(Type<NumberOrRule<Rule>>, Range) {
  std::string all = "number > 0";
  for (const std::string_view word : rule_words<Rule>()) all += concat(" \\| ", word);
  return all;
}
template <class T>
std::string words(Type<T>, Range) {
  std::string all;
  if constexpr (std::is_same_v<T, InitConfig>) return words(Type<Init>(), {}) + ", or an object";
  if constexpr (std::is_enum_v<T>)
    for (const std::string_view word : kWords<T>) all += concat(all.empty() ? "" : " \\| ", word);
  return all.empty() ? "object" : all;
}

std::string default_text(bool value) { return value ? "true" : "false"; }
std::string default_text(double value) { return value_text(value); }
std::string default_text(std::int64_t value) { return default_text(double(value)); }
std::string default_text(std::uint64_t value) { return default_text(double(value)); }
std::string default_text(const std::string& value) { return value; }
std::string default_text(const NormSpec&) { return "none"; }
std::string default_text(const LayerScale&) { return "none"; }
std::string default_text(const DropoutRates&) { return "0"; }
template <class Rule>
std::string default_text(const NumberOrRule<Rule>&) {
  return "1";
}
std::string default_text(const StartFrom&) { return ""; }
std::string default_text(const std::optional<std::int64_t>& value) { return value ? default_text(*value) : ""; }
std::string default_text(const ClassGroups&) { return ""; }
std::string default_text(const Placement&) { return "pre_pre"; }
template <class E>
requires std::is_enum_v<E> std::string default_text(E value) { return std::string(word_of(value)); }
std::string default_text(const InitConfig& init) { return default_text(init.base); }
template <class List>
requires requires(const List& list) { list.begin(); }
std::string default_text(const List& list) {
  std::string items;
  using Item = typename List::value_type;
  if constexpr (!std::is_class_v<Item> || std::is_same_v<Item, std::string>)
    for (const auto& value : list) items += concat(items.empty() ? "" : ", ", default_text(value));
  return concat("[", items, "]");
}

/// Whether a value is a word or number, or an object with rows.
template <class T>
constexpr bool kShortForm = std::is_same_v<T, InitConfig> || std::is_same_v<T, DropoutRates>;

template <class T>
constexpr bool kOwnRows =
    !kShortForm<T> && kHasFields<T> && !std::is_same_v<T, StartFrom> && !std::is_same_v<T, NormSpec> &&
    !std::is_same_v<T, LayerScale> && !std::is_same_v<T, Placement>;

template <class T>
void add_rows(std::string& out, const std::string& prefix, const T& defaults) {
  for_each_field<T>([&](const auto& field) {
    using M = typename std::remove_cvref_t<decltype(field)>::Member;
    const std::string path = prefix + std::string(field.key);
    if constexpr (std::is_same_v<M, ModelConfig>) {
      add_rows(out, path + ".", ViTConfig{});
    } else if constexpr (std::is_same_v<M, StartConfig>) {
      const StartKeys keys;
      add_rows(out, path + ".", keys);
    } else if constexpr (kOwnRows<M>) {
      add_rows(out, path + ".", defaults.*field.member);
    } else {
      const std::string standard = path == "model.mlp_dim" ? "4 embed_dim" : default_text(defaults.*field.member);
      out += concat("| `", path, "` | ", words(Type<M>(), field.range), " | ",
                    standard.empty() ? "" : "`" + standard + "`", " | ", field.doc, " |\n");
      if constexpr (kShortForm<M>) add_rows(out, path + ".", M{});
    }
  });
}

}  // namespace

std::string describe_fields() {
  constexpr std::string_view kHead = "| key | value | default | meaning |\n|---|---|---|---|\n";
  std::string out = "### Top level\n\n| key | value | meaning |\n|---|---|---|\n";
  for (const TopLevelKey& known : kTopLevelKeys)
    out += concat("| `", known.key, "` | ", known.type, " | ", known.doc, " |\n");

  out += concat("\n### Dataset, model, start and training\n\n", kHead);
  out += "| `model.kind` | vit \\| swin | `vit` | the architecture |\n";
  out +=
      "| `model.variant` | such as S/16, DeiT-S/16 |  | sets embed_dim, depth, num_heads and patch_size, for a DeiT "
      "also pool token and pos_embed_class; keys given explicitly take precedence |\n";
  add_rows(out, "", TrialConfig{});
  out += concat("\n### A model of kind swin\n\n", kHead);
  out +=
      "| `model.variant` | such as Swin-T, SwinD-B |  | sets embed_dim, depths and num_heads; keys given explicitly "
      "take precedence |\n";
  add_rows(out, "model.", SwinConfig{});
  out += concat("\n### Checkpoints\n\n", kHead);
  add_rows(out, "checkpoint.", CheckpointConfig{});
  out += concat("\n### A placement given as an object\n\n", kHead);
  out += "| `base` | a placement's name | `none` | the placement that the other keys change |\n";
  add_rows(out, "", Placement{});
  out += concat("| `", kBlocksKey, "` | object |  | ", kBlocksDoc, " |\n");
  out += concat("\n### A norm: its kind as a word, or an object\n\n", kHead);
  add_rows(out, "", NormSpec{});

  out += "\n### Named placements\n\n| name | source |\n|---|---|\n";
  for (const NamedPlacement& row : named_placements()) out += concat("| `", row.name, "` | ", row.source, " |\n");
  return out;
}

}  // namespace normlab
