#include "experiments/lab/descriptor/config_difference.h"

#include <nlohmann/json.hpp>

#include "experiments/lab/descriptor/canonical.h"

namespace normlab {
namespace {

using Json = nlohmann::ordered_json;

void compare(const std::string& path, const Json* base, const Json* other, std::vector<SettingDifference>& found) {
  if (base != nullptr && other != nullptr && *base == *other) return;
  const auto below = [&](const std::string& key) { return path.empty() ? key : path + '.' + key; };
  if (base != nullptr && other != nullptr && base->is_object() && other->is_object()) {
    for (const auto& [key, value] : base->items())
      compare(below(key), &value, other->contains(key) ? &(*other)[key] : nullptr, found);
    for (const auto& [key, value] : other->items())
      if (!base->contains(key)) compare(below(key), nullptr, &value, found);
    return;
  }
  found.push_back({path, base == nullptr ? "" : base->dump(), other == nullptr ? "" : other->dump()});
}

}  // namespace

std::vector<SettingDifference> config_differences(const TrialConfig& base, const TrialConfig& other) {
  Json a = Json::parse(full_json(base)), b = Json::parse(full_json(other));
  a.erase("seed");
  b.erase("seed");
  std::vector<SettingDifference> found;
  compare("", &a, &b, found);
  return found;
}

}  // namespace normlab
