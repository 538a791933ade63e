#include "experiments/lab/cli/old_names.h"

#include <algorithm>

#include "experiments/lab/base/terminal.h"

namespace normlab {

const OldName* find_old_name(std::string_view word) {
  static const std::vector<OldName> all{
      {"missing", "status --missing", {"status", "--missing"}, {}, ""},
      {"curves", "export --curves --by-row", {"export", "--curves", "--by-row"}, {}, ""},
      {"find", "list ID", {"list"}, {}, "ID"},
      {"diff", "explain A B", {"explain"}, {}, "B"},
      {"fewshot", "eval --fewshot", {"eval", "--fewshot"}, {{"--data", "--data-root"}, {"--dataset", "--data"}}, ""},
      {"probe", "eval --probe", {"eval", "--probe"}, {{"--data", "--data-root"}}, ""},
      {"figures",
       "report --figures FOLDER",
       {"report"},
       {{"--output", "--figures"}, {"-o", "--figures"}, {"--last", "--steps"}},
       ""},
      {"schema", "check --schema", {"check", "--schema"}, {}, ""}};
  const auto found = std::find_if(all.begin(), all.end(), [&](const OldName& old) { return old.name == word; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> replaced(const OldName& old, const std::vector<std::string>& given, std::size_t first) {
  tell("normlab {} is now `normlab {}`; the old name goes with the next release\n", old.name, old.now);
  const auto name = given.begin() + std::ptrdiff_t(first);
  std::vector<std::string> words(given.begin(), name), rest(name + 1, given.end());
  words.insert(words.end(), old.words.begin(), old.words.end());
  bool drawn = false;  // the folder of the figures is given
  for (auto word = rest.begin(); word != std::find(rest.begin(), rest.end(), "--"); ++word)
    for (const auto& [before, after] : old.renamed) {
      const bool letter = before.size() == 2;  // its value may follow without a space
      if (letter ? !word->starts_with(before) : word->substr(0, word->find('=')) != before) continue;
      const std::string value = word->substr(before.size());
      *word = after + (letter && !value.empty() ? "=" : "") + value;
      drawn = drawn || after == "--figures";
      break;
    }
  if (old.name == "figures" && !drawn) words.emplace_back("--figures=figures");
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

}  // namespace normlab
