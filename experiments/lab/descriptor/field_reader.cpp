#include "experiments/lab/descriptor/field_reader.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "nn/model/init.h"

namespace normlab {
namespace {

std::string number_text(double value) { return value_text(value); }

/// Why a non-integer number was refused, with the integer probably meant.
std::string not_an_integer(const JsonNode& node) {
  if (node.kind != JsonKind::real) return "expected an integer, got " + describe(node);
  if (node.text.find_first_of(".eE") == std::string::npos) return "the integer " + describe(node) + " is too large";
  const bool whole = std::abs(node.real) < 9e15 && std::floor(node.real) == node.real;
  return "expected an integer, got " + describe(node) + (whole ? "; write " + value_text(node) : "");
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

void FieldReader::value(const JsonNode& node, bool& out, Range) {
  if (node.kind != JsonKind::boolean) return report(node.at, "expected true or false, got " + describe(node));
  out = node.boolean;
}

template <class Number>
void FieldReader::check_range(const JsonNode& node, Number read, Range range, Number& out) {
  const double number = double(read);
  const auto refuse = [&](const char* bound, double limit, std::string_view why = {}) {
    report(node.at,
           concat("must be ", bound, " ", number_text(limit), ", got ", describe(node), why.empty() ? "" : "; ", why));
  };
  if (range.of_descriptors && mode_ == ReadMode::canonical)
    out = read;
  else if (range.low_open ? number <= range.low : number < range.low)
    refuse(range.low_open ? "above" : "at least", range.low);
  else if (range.high_open ? number >= range.high : number > range.high)
    refuse(range.high_open ? "below" : "at most", range.high, range.why_high);
  else
    out = read;
}

void FieldReader::value(const JsonNode& node, std::int64_t& out, Range range) {
  constexpr auto kMax = std::uint64_t(std::numeric_limits<std::int64_t>::max());
  if (node.kind == JsonKind::integer) return check_range(node, node.integer, range, out);
  if (node.kind != JsonKind::natural) return report(node.at, not_an_integer(node));
  if (node.natural > kMax) return report(node.at, "the integer " + describe(node) + " is too large");
  check_range(node, std::int64_t(node.natural), range, out);
}

void FieldReader::value(const JsonNode& node, std::optional<std::int64_t>& out, Range range) {
  value(node, out.emplace(), range);
}

void FieldReader::value(const JsonNode& node, std::uint64_t& out, Range range) {
  if (node.kind == JsonKind::integer) return report(node.at, "must be at least 0, got " + describe(node));
  if (node.kind != JsonKind::natural) return report(node.at, not_an_integer(node));
  check_range(node, node.natural, range, out);
}

void FieldReader::value(const JsonNode& node, double& out, Range range) {
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
                                             : concat("becomes ", number_text(range.high), " as a float"),
                                  "; got ", describe(node)));
  check_range(node, read == 0 ? 0.0 : read, range, out);  // -0.0 would give another trial id
}

void FieldReader::value(const JsonNode& node, std::string& out, Range) {
  if (!node.is_string()) return report(node.at, "expected a string, got " + describe(node));
  out = node.text;
}

void FieldReader::value(const JsonNode& node, std::array<std::int64_t, 2>& out, Range range) {
  if (!node.is_array()) {
    value(node, out[0], range);
    out[1] = out[0];
    return;
  }
  if (node.items.size() != 2)
    return report(node.at, concat("expected a number or [height, width], got ", node.items.size(), " numbers"));
  value(node.items[0], out[0], range);
  value(node.items[1], out[1], range);
}

void FieldReader::value(const JsonNode& node, std::array<double, 2>& out, Range range) {
  if (!node.is_array() || node.items.size() != 2)
    return report(node.at, "expected [smallest, largest], got " + describe(node));
  const std::size_t before = reported_;
  value(node.items[0], out[0], range);
  value(node.items[1], out[1], range);
  if (reported_ == before && out[0] > out[1]) report(node.at, "the first number is larger than the second");
}

/// The optimiser's name determines the defaults of omitted settings.
void FieldReader::value(const JsonNode& node, OptimizerSettings& out, Range) {
  const JsonMember* const name = node.is_object() ? node.find("name") : nullptr;
  if (OptimizerName known{}; name != nullptr && name->value.is_string() && find_word(name->value.text, known))
    out = defaults_beside(OptimizerSettings{.name = known});
  object(node, out);
}

void FieldReader::value(const JsonNode& node, ClassGroups& out, Range) {
  if (!node.is_object()) return report(node.at, "expected an object {\"name\": [classes]}, got " + describe(node));
  out.clear();
  for (const JsonMember& member : node.members) {
    std::vector<std::string>& members = out.emplace_back(member.key, std::vector<std::string>()).second;
    value(member.value, members, {});
    if (member.value.is_array() && members.empty()) report(member.value.at, "name at least one class");
  }
  std::sort(out.begin(), out.end());  // objects have no order
}

void FieldReader::value(const JsonNode& node, StartFrom& out, Range) {
  object(node, out, {"row", "seed"});
  if (!node.is_object()) return;
  if (const JsonMember* row = node.find("row")) {
    out.row = row->value;
    if (!row->value.is_object()) report(row->value.at, "expected an object {axis: value}, got " + describe(row->value));
  }
  if (const JsonMember* seed = node.find("seed")) value(seed->value, out.seed.emplace(), {});
}

/// null, the name of a file, or an object with either "file" or "from".
void FieldReader::value(const JsonNode& node, StartConfig& out, Range) {
  if (mode_ == ReadMode::canonical) return object(node, out);
  if (node.kind == JsonKind::null) return;
  StartKeys keys;
  if (node.is_string())
    keys.file = node.text;
  else
    object(node, keys);
  static_cast<StartRule&>(out) = keys;
  out.at = node.at;
  const JsonMember* const path = node.is_object() ? node.find("file") : nullptr;
  if (path != nullptr) out.at = path->value.at;
  out.file = keys.file;
  out.sha256 = keys.sha256;
  const JsonMember* const from = node.is_object() ? node.find("from") : nullptr;
  if (from != nullptr) {
    out.from = keys.from;
    const JsonMember* const descriptor = from->value.find("descriptor");
    out.at = descriptor == nullptr ? from->value.at : descriptor->value.at;
  }
  if (const JsonMember* const hash = node.is_object() ? node.find("sha256") : nullptr) {
    if (from != nullptr) report(hash->value.at, "only a file has a \"sha256\"");
    const bool hex = keys.sha256.find_first_not_of("0123456789abcdef") == keys.sha256.npos;
    if (hash->value.is_string() && (keys.sha256.size() != 64 || !hex))
      report(hash->value.at,
             concat("expected a SHA-256, 64 digits from 0 to 9 and a to f, got ", describe(hash->value)));
  }
  if (from != nullptr && keys.names != StartNames::stated)
    report(node.at, "only a file has \"names\"; a trial's weights have those of normlab");
}

void FieldReader::value(const JsonNode& node, NormSpec& out, Range) {
  NormKind kind{};
  const auto read_kind = [&](const JsonNode& word) {
    const std::size_t before = reported_;
    value(word, kind, {});
    if (reported_ == before) out = default_norm(kind);
  };
  if (node.is_string()) return read_kind(node);
  if (!node.is_object())
    return report(node.at, "expected a kind of norm or an object with \"kind\", got " + describe(node));
  // Without a kind, the object changes settings of the base's norm at this site.
  if (const JsonMember* given = node.find("kind"))
    read_kind(given->value);
  else if (out.kind == NormKind::none)
    return report(node.at, "there is no norm here; give its \"kind\"");
  object(node, out);
}

void FieldReader::value(const JsonNode& node, InitConfig& out, Range) {
  out = {};
  if (!node.is_object()) return value(node, out.base, {});
  object(node, out);
  if (node.find("base") == nullptr)
    report(node.at, "give the \"base\" whose parts the other keys change, such as \"big_vision\"");
}

void FieldReader::value(const JsonNode& node, DropoutRates& out, Range range) {
  out = {};
  if (node.is_object()) return object(node, out);
  double all = 0;
  value(node, all, range);
  out = all;
}

void FieldReader::value(const JsonNode& node, LayerScale& out, Range) {
  if (node.is_string()) {
    out = {};
    return value(node, out.kind, {});
  }
  if (node.is_object() && node.find("kind") != nullptr) out = {};
  object(node, out, {"init"});
  const JsonMember* init = node.find("init");
  if (init == nullptr) return;
  if (out.kind == LayerScaleKind::none) return report(init->key_at, "there is no layer_scale; give its \"kind\"");
  out.auto_init = init->value.is_string() && init->value.text == "auto";
  out.init = 0.0;
  if (out.auto_init) return;
  if (!init->value.is_number())
    return report(init->value.at, "expected a number or \"auto\", got " + describe(init->value));
  value(init->value, out.init, {});
}

void FieldReader::value(const JsonNode& node, Placement& out, Range) {
  const auto row = [&](const JsonNode& name) {
    if (!name.is_string()) return report(name.at, "expected the name of a placement, got " + describe(name));
    if (const auto user = rows_.rows_.find(name.text); user != rows_.rows_.end()) {
      const PlacementRows::Reading& reading = user->second.of(kind_);
      if (reading.state == PlacementRows::State::reading)
        return report(name.at, "placement \"" + name.text + "\" is based on itself");
      rows_.read(user->second, kind_, problems_);
      out = reading.placement;
    } else if (const NamedPlacement* named = find_placement(name.text)) {
      out = kind_ == ModelKind::swin ? swin_placement(named->placement) : named->placement;
    } else {
      report(name.at, unknown_word("placement", name.text, rows_.names()));
    }
  };
  if (node.is_string()) return row(node);
  if (!node.is_object())
    return report(node.at, "expected a placement's name or an object of sites, got " + describe(node));
  out = {};
  if (const JsonMember* base = node.find("base")) row(base->value);
  object(node, out, {"base", kBlocksKey});
  // Sites for all blocks also apply to ranges that the base defines.
  for (BlockRange& range : out.blocks) {
    if (const JsonMember* sites = node.find("attn")) value(sites->value, range.attn, {});
    if (const JsonMember* sites = node.find("mlp")) value(sites->value, range.mlp, {});
  }
  if (const JsonMember* given = node.find(kBlocksKey)) blocks(given->value, out);
}

void FieldReader::variant(const JsonNode& node, ViTConfig& out) {
  if (!node.is_string()) return report(node.at, "expected a word such as \"S/16\", got " + describe(node));
  constexpr std::string_view kDeiT = "DeiT-";
  const std::size_t slash = node.text.find('/');
  std::string name = node.text.substr(0, slash);
  const bool deit = name.starts_with(kDeiT);
  if (deit) name.erase(0, kDeiT.size());
  const auto* found = std::find_if(std::begin(kVariants), std::end(kVariants), [&](const Variant& v) {
    return v.name == name && (!deit || v.depth == 12);  // there is no DeiT-L
  });
  if (found == std::end(kVariants))
    return report(node.at, unknown_word("variant", node.text.substr(0, slash),
                                        {"Ti", "S", "B", "L", "DeiT-Ti", "DeiT-S", "DeiT-B"}));
  const std::string patch = slash == std::string::npos ? "" : node.text.substr(slash + 1);
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(patch.data(), patch.data() + patch.size(), size);
  if (error != std::errc() || end != patch.data() + patch.size() || size < 1)
    return report(node.at,
                  concat("expected a patch size after the slash, such as \"", deit ? kDeiT : "", name, "/16\""));
  out.embed_dim = found->embed_dim;
  out.depth = found->depth;
  out.num_heads = found->num_heads;
  out.patch_size = size;
  if (!deit) return;
  out.pool = Pool::token;
  out.pos_embed_class = true;
}

void FieldReader::variant(const JsonNode& node, SwinConfig& out) {
  if (!node.is_string()) return report(node.at, "expected a word such as \"Swin-T\", got " + describe(node));
  std::vector<std::string_view> names;
  for (const SwinVariant& variant : kSwinVariants) {
    names.push_back(variant.name);
    if (variant.name == node.text) return set_variant(out, variant);
  }
  report(node.at, unknown_word("variant", node.text, names));
}

void FieldReader::value(const JsonNode& node, ModelConfig& out, Range) {
  kind_ = kind_of(out);
  if (const JsonMember* kind = node.find("kind")) value(kind->value, kind_, {});
  if (kind_ == ModelKind::swin) {
    SwinConfig swin;
    swin.placement = swin_placement(placement_of(out));
    model(node, swin);
    simplify_blocks(swin.placement, swin.depth());
    without_idle_drop_path(swin);
    out = swin;
  } else {
    ViTConfig vit = std::get<ViTConfig>(out);
    model(node, vit);
    if (node.find("mlp_dim") == nullptr) vit.mlp_dim = defaults_beside(vit).mlp_dim;
    // Has no effect without a class token, but would distinguish equal trials.
    if (vit.pool != Pool::token) vit.placement.stem.posembed_out_includes_class = true;
    if (vit.placement.merge.kind != NormKind::none) refuse_merge(node);
    simplify_init(vit);
    simplify_blocks(vit.placement, vit.depth);
    simplify_blocks(vit.text.placement, vit.text.depth);
    without_idle_drop_path(vit);
    out = vit;
  }
}

template <class Config>
void FieldReader::model(const JsonNode& node, Config& out) {
  if (const JsonMember* given = node.find("variant")) variant(given->value, out);
  object(node, out, {"kind", "variant", "layer_scale"});
  if (const JsonMember* scale = node.find("layer_scale")) {
    if (out.placement.layer_scale.kind != LayerScaleKind::none)
      return report(scale->key_at, "the placement has a layer_scale already; set it in one place only");
    value(scale->value, out.placement.layer_scale, {});
  }
}

/// Reports at the placement's "merge" key if it is written there.
void FieldReader::refuse_merge(const JsonNode& node) {
  const JsonMember* placement = node.find("placement");
  if (placement == nullptr) return;
  const JsonMember* merge = placement->value.is_object() ? placement->value.find("merge") : nullptr;
  const char* what = "merge is a site of Swin; a ViT has none";
  if (merge == nullptr) return report(placement->value.at, what);
  report(merge->key_at, what);
}

void FieldReader::value(const JsonNode& node, DatasetConfig& out, Range) {
  const JsonMember* directory = nullptr;
  if (node.is_string()) {
    out.name = node.text;
  } else {
    directory = node.find("path");
    // A dataset given only by its folder is named after it.
    if (directory != nullptr && node.find("name") == nullptr && directory->value.is_string())
      out.name = directory->value.text;
    object(node, out);
  }
  if (out.path == out.name) out.path.clear();
  if (out.name.empty()) report(node.at, "a dataset needs a name or a path");
  if (out.layout != DatasetLayout::known || find_dataset(out.name) != nullptr) return;
  std::vector<std::string_view> names;
  for (const KnownDataset& dataset : kKnownDatasets) names.push_back(dataset.name);
  const JsonMember* name = node.find("name");
  const JsonMember* at = name != nullptr ? name : directory;
  report(at != nullptr ? at->value.at : node.at,
         unknown_word("dataset", out.name, names) +
             "; for a data set of your own give \"path\" and \"layout\" (image_folder, webdataset, ...)");
}

void FieldReader::refuse_both(const JsonNode& node, std::string_view a, std::string_view b) {
  const JsonMember* first = node.find(a);
  const JsonMember* second = node.find(b);
  const JsonMember* later = second;
  if (first->key_at.source == second->key_at.source &&
      std::tie(first->key_at.line, first->key_at.column) > std::tie(second->key_at.line, second->key_at.column))
    later = first;
  report(later->key_at, concat(later == first ? b : a, " is given too; leave one of them out"));
}

}  // namespace normlab
