#include "experiments/lab/descriptor/unknown_setting.h"

#include <algorithm>
#include <limits>

#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/fields.h"

namespace normlab {
namespace {

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

std::string unknown_setting(std::string_view key, const std::vector<std::string_view>& candidates) {
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
