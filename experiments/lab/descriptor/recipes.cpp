#include "experiments/lab/descriptor/recipes.h"

#include <algorithm>

namespace normlab {

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(std::string(kRecipePrefix) += recipe.name);
  return names;
}

const Recipe* find_recipe(std::string_view name) {
  const std::span<const Recipe> all = recipes();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Recipe& recipe) { return recipe.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace normlab
