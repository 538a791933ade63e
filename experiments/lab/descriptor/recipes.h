// The descriptors of experiments/recipes/, compiled into the program: "extends": "recipe:cifar_small".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

struct Recipe {
  std::string_view name;  // file name without its suffix
  std::string_view text;  // JSON text of a descriptor
};
std::span<const Recipe> recipes();
/// With the prefix.
std::vector<std::string> recipe_names();
/// Null if there is none.
const Recipe* find_recipe(std::string_view name);

inline constexpr std::string_view kRecipePrefix = "recipe:";

}  // namespace normlab
