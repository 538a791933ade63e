#include "experiments/lab/data/scene_captions.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "experiments/lab/metrics/zero_shot.h"

namespace normlab {
namespace {

constexpr std::string_view kCounts[] = {"", "a", "two", "three"};

std::string plural_of(std::string_view kind) { return concat(kind, kind.ends_with('s') ? "es" : "s"); }

}  // namespace

std::string scene_caption(const std::vector<SceneObject>& objects) {
  const SceneObject& largest = objects.at(0);
  std::string text =
      concat("a ", word_of(largest.colour), " ", word_of(largest.kind), " at the ", word_of(largest.position()));
  const auto alike = [](const SceneObject& a) {
    return [&a](const SceneObject& b) { return a.kind == b.kind && a.colour == b.colour; };
  };
  for (auto at = objects.begin() + 1; at != objects.end(); ++at) {
    if (std::any_of(objects.begin() + 1, at, alike(*at))) continue;
    const auto count = static_cast<std::size_t>(std::count_if(at, objects.end(), alike(*at)));
    text += concat(" and ", kCounts[count], " ", word_of(at->colour), " ",
                   count == 1 ? std::string(word_of(at->kind)) : plural_of(word_of(at->kind)));
  }
  return plain_text(text);
}

std::vector<std::string> scene_words() {
  std::set<std::string> words{"a", "and", "at", "the", "two", "three", "1", "2", "3", "4"};
  for (const std::string_view kind : kWords<SceneKind>) words.insert({std::string(kind), plural_of(kind)});
  for (const std::string_view colour : kWords<SceneColour>) words.emplace(colour);
  for (const std::string_view position : kWords<ScenePosition>) {
    const std::string plain = plain_text(position);
    words.insert({plain.substr(0, plain.find(' ')), plain.substr(plain.find(' ') + 1)});
  }
  return {words.begin(), words.end()};
}

}  // namespace normlab
