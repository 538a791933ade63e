// The descriptors of experiments/recipes/, which the build puts into the program: "extends": "recipe:cifar_small".
#pragma once

#include <span>
#include <string_view>

namespace normlab {

struct Recipe {
  std::string_view name;  // the file's, without its ending
  std::string_view text;  // JSON, as descriptors are read
};
std::span<const Recipe> recipes();
/// The recipe of that name, or null.
const Recipe* find_recipe(std::string_view name);

inline constexpr std::string_view kRecipePrefix = "recipe:";

}  // namespace normlab
