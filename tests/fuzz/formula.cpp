// Any text as a formula of a norm, of an activation and of rows: refused with a place in the text, or taken; then its
// own text has the same tree, and programs are made of it.
#include "core/formula/program.h"
#include "tests/fuzz/target.h"

using namespace normlab::formula;
using namespace normlab::fuzz;

namespace {

template <class Parse>
void check(std::string_view text, const std::vector<Parameter>& parameters, const Parse& parse_as) {
  Tree tree;
  try {
    tree = parse_as(text);
  } catch (const FormulaError& error) {
    return require(error.at <= text.size(), "a place outside of the text");
  }
  const auto same = [](const Term& a, const Term& b) {
    return a.word == b.word && a.arguments == b.arguments && a.number == b.number;
  };
  const Tree again = parse_as(text_of(tree));
  require(std::equal(tree.terms.begin(), tree.terms.end(), again.terms.begin(), again.terms.end(), same),
          "the text of a tree has another tree");
  const Programs programs(tree, {.channels = 3, .tokens = 2}, parameters);
  require(programs.forward.result != kNone && !programs.forward.passes.empty(), "a program without a result");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Name> names{{"alpha", 0}, {"beta", kChannel}, {"gamma", kChannel}};
  static const std::vector<Parameter> parameters{{.name = "alpha"},
                                                 {.name = "beta", .per_channel = true},
                                                 {.name = "gamma", .per_channel = true},
                                                 {.name = "progress"}};
  const std::string_view text = text_of(data, size);
  check(text, parameters, [&](std::string_view t) { return parse(t, names); });
  check(text, {{.name = "progress"}}, parse_elementwise);
  check(text, {{.name = "progress"}}, parse_rows);
  return 0;
}
