// Any text as a formula: refused with a place in the text, or taken; then its own text has the same tree, and programs
// are made of it.
#include "core/formula/program.h"
#include "tests/fuzz/target.h"

using namespace normlab::formula;
using namespace normlab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Name> names{{"alpha", 0}, {"beta", kChannel}, {"gamma", kChannel}};
  static const std::vector<Parameter> parameters{
      {.name = "alpha"}, {.name = "beta", .per_channel = true}, {.name = "gamma", .per_channel = true}};
  const std::string_view text = text_of(data, size);
  Tree tree;
  try {
    tree = parse(text, names);
  } catch (const FormulaError& error) {
    require(error.at <= size, "a place outside of the text");
    return 0;
  }
  const auto same = [](const Term& a, const Term& b) {
    return a.word == b.word && a.arguments == b.arguments && a.number == b.number;
  };
  const Tree again = parse(text_of(tree), names);
  require(std::equal(tree.terms.begin(), tree.terms.end(), again.terms.begin(), again.terms.end(), same),
          "the text of a tree has another tree");
  const Programs programs(tree, {.channels = 3, .tokens = 2}, parameters);
  require(programs.forward.result != kNone && !programs.forward.passes.empty(), "a program without a result");
  return 0;
}
