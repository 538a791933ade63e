#include "experiments/lab/descriptor/paper.h"

#include <set>

#include "experiments/lab/descriptor/forms.h"

namespace normlab {
namespace {

template <class T>
bool has_setting(std::string_view path) {
  if constexpr (std::is_same_v<T, ModelConfig>) {
    return path == "kind" || path == "variant" || path == "layer_scale" || has_setting<ViTConfig>(path) ||
           has_setting<SwinConfig>(path);
  } else if constexpr (kHasFields<T>) {
    const std::size_t dot = path.find('.');
    bool found = false;
    for_each_field<T>([&](const auto& field) {
      using Member = typename std::remove_cvref_t<decltype(field)>::Member;
      if (field.key != path.substr(0, dot)) return;
      found = dot == path.npos || has_setting<Member>(path.substr(dot + 1));
    });
    return found;
  }
  return false;
}

}  // namespace

void Form<Deviation>::read(FieldReader& in, const JsonNode& node, Deviation& out, Range) {
  out.where = concat(to_string(node.at), ": ", node.at.pointer());
  if (!in.object(node, out)) return out.key.clear();
  if (!out.key.empty() && !is_setting(out.key))
    in.report(node.find("key")->value.at,
              concat("there is no setting ", out.key, "; `normlab check --keys` lists them"));
  if (out.paper == out.here) in.report(node.at, "\"paper\" and \"here\" are equal, so this is no deviation; remove it");
}

void Form<PaperConfig>::read(FieldReader& in, const JsonNode& node, PaperConfig& out, Range) {
  in.object(node, out);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < out.deviations.size(); ++i)
    if (const std::string& key = out.deviations[i].key; is_setting(key) && !seen.insert(key).second)
      in.report(node.find("deviations")->value.items[i].find("key")->value.at, key + " is listed twice");
}

bool is_setting(std::string_view path) { return has_setting<TrialConfig>(path); }

}  // namespace normlab
