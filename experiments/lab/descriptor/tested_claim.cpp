#include "experiments/lab/descriptor/tested_claim.h"

#include <algorithm>

#include "core/words.h"
#include "experiments/lab/descriptor/block_reader.h"

namespace normlab {
namespace {

using Kind = ClaimTestKind;

class ClaimReader : BlockReader {
 public:
  using BlockReader::BlockReader;

  TestedClaim read(const JsonNode& node) {
    TestedClaim claim;
    if (!check_keys(node,
                    {"source", "short", "says", "paraphrase", "printed", "reading", "scale", "scale_note", "bench",
                     "repeat", "tests"},
                    {"source", "says", "scale"}))
      return claim;
    claim.source = text(node, "source");
    claim.says = claim.brief = text(node, "says");
    for (const auto& [key, to] :
         {std::pair{"short", &claim.brief}, {"reading", &claim.reading}, {"scale_note", &claim.scale_note}})
      if (node.find(key)) *to = text(node, key);
    flag(node, "paraphrase", claim.paraphrase);
    printed(node, claim);
    word(node, "scale", claim.scale);
    timing(node, claim);
    const JsonMember* list = node.find("tests");
    if (list == nullptr) {
      if (claim.scale != ClaimScale::paper)
        problems_.add(node.at, "a claim that is tested here needs \"tests\"; without tests its scale is \"paper\"");
      return claim;
    }
    if (!list->value.is_array() || list->value.items.empty())
      problems_.add(list->value.at, "expected a list of one object or more, got " + describe(list->value));
    for (const JsonNode& item : list->value.items) test(item, claim.tests);
    const auto timed = std::count_if(claim.tests.begin(), claim.tests.end(),
                                     [](const ClaimTest& test) { return test.kind == Kind::timing; });
    if (timed > 0 && std::size_t(timed) < claim.tests.size())
      problems_.add(list->value.at, "tests of kind \"timing\" cannot be mixed with others; make two claims of them");
    return claim;
  }

 private:
  template <class E>
  void word(const JsonNode& node, std::string_view key, E& value) {
    const JsonNode& word = node.find(key)->value;
    if (word.is_string() && find_word(word.text, value)) return;
    std::string words;
    for (const std::string_view each : kWords<E>) words += concat(words.empty() ? "" : ", ", "\"", each, "\"");
    problems_.add(word.at, concat("expected one of ", words, "; got ", describe(word)));
  }

  void flag(const JsonNode& node, std::string_view key, bool& value) {
    const JsonMember* member = node.find(key);
    if (member == nullptr) return;
    if (member->value.kind != JsonKind::boolean)
      problems_.add(member->value.at, "expected true or false, got " + describe(member->value));
    value = member->value.boolean;
  }

  void printed(const JsonNode& node, TestedClaim& claim) {
    const JsonMember* member = node.find("printed");
    if (member == nullptr) return;
    if (member->value.is_string()) {
      claim.printed = text(node, "printed");
      return;
    }
    if (!check_keys(member->value, {"as", "unit", "where", "cells"}, {"as", "where", "cells"})) return;
    PrintedFigures& figures = claim.figures;
    word(member->value, "as", figures.as);
    figures.where = text(member->value, "where");
    if (member->value.find("unit")) figures.unit = text(member->value, "unit");
    const JsonNode& cells = member->value.find("cells")->value;
    if (!cells.is_object() || cells.members.empty())
      problems_.add(cells.at, "expected an object with one cell or more, such as {\"B/32\": [63.8, 61.2]}");
    for (const JsonMember& cell : cells.members) {
      const bool single = figures.as == PrintedAs::value;
      const std::vector<JsonNode> numbers = single ? std::vector{cell.value} : cell.value.items;
      if (numbers.size() != (single ? 1 : 2) ||
          !std::all_of(numbers.begin(), numbers.end(), [](const JsonNode& n) { return n.is_number(); })) {
        problems_.add(cell.value.at, concat(single ? "expected a number" : "expected [baseline, value]", ", got ",
                                            describe(cell.value)));
        continue;
      }
      for (const JsonNode& number : numbers) {
        const std::string written = number.kind == JsonKind::real ? number.text : "";
        const std::size_t point = written.find('.');
        if (point != written.npos) figures.decimals = std::max(figures.decimals, int(written.size() - point - 1));
      }
      const double first = numbers.front().number(), last = numbers.back().number();
      if (figures.as == PrintedAs::ratio && first == 0) problems_.add(cell.value.at, "a ratio to 0 has no value");
      figures.values.emplace_back(cell.key, figures.as == PrintedAs::difference ? last - first
                                            : figures.as == PrintedAs::ratio    ? last / first
                                                                                : last);
    }
    if (figures.as == PrintedAs::ratio) figures.decimals = 2;
  }

  void timing(const JsonNode& node, TestedClaim& claim) {
    if (const JsonMember* bench = node.find("bench")) {
      const std::vector<JsonNode>& words = bench->value.items;
      const auto is_word = [](const JsonNode& word) { return word.is_string() && !word.text.empty(); };
      if (!bench->value.is_array() || words.empty() || !std::all_of(words.begin(), words.end(), is_word))
        problems_.add(bench->value.at, "expected a list of one string or more, each the arguments of a `bench`, got " +
                                           describe(bench->value));
      for (const JsonNode& word : words) claim.bench.push_back(word.text);
    } else if (claim.scale == ClaimScale::timing) {
      problems_.add(node.at, "a claim of scale \"timing\" needs \"bench\"");
    }
    const JsonMember* repeat = node.find("repeat");
    if (repeat == nullptr) return;
    if (repeat->value.kind == JsonKind::natural && repeat->value.natural >= 2 && repeat->value.natural <= 1000)
      claim.repeat = std::size_t(repeat->value.natural);
    else
      problems_.add(repeat->value.at, "expected a whole number from 2 to 1000, got " + describe(repeat->value));
  }

  void test(const JsonNode& node, std::vector<ClaimTest>& out) {
    std::vector<std::string_view> keys;
    for (const ClaimTestKey& known : claim_test_keys()) keys.push_back(known.key);
    if (!check_keys(node, keys, {"kind"})) return;
    ClaimTest test;
    test.place = concat(to_string(node.at), ": ", node.at.pointer());
    word(node, "kind", test.kind);
    for (const ClaimTestKey& known : claim_test_keys()) {
      const auto among = [&](const std::vector<Kind>& kinds) {
        return std::find(kinds.begin(), kinds.end(), test.kind) != kinds.end();
      };
      const bool needed = among(known.needed);
      const JsonMember* member = node.find(known.key);
      if (member != nullptr && !needed && !among(known.optional))
        problems_.add(member->key_at, concat("a test of kind \"", word_of(test.kind), "\" does not read this key"));
      if (member == nullptr && needed)
        problems_.add(node.at, concat("a test of kind \"", word_of(test.kind), "\" needs \"", known.key, "\""));
    }
    for (const auto& [key, to] : {std::pair{"where", &test.where},
                                  {"against", &test.against},
                                  {"metric", &test.metric},
                                  {"of", &test.of},
                                  {"over", &test.over},
                                  {"against_of", &test.against_of}})
      if (node.find(key)) *to = text(node, key);
    for (const auto& [key, to] : {std::pair{"first", &test.first}, {"last", &test.last}})
      if (const JsonMember* steps = node.find(key)) {
        if (steps->value.kind == JsonKind::natural && steps->value.natural > 0 && steps->value.natural < 1'000'000)
          *to = std::int64_t(steps->value.natural);
        else
          problems_.add(steps->value.at, "expected a whole number above 0, got " + describe(steps->value));
      }
    if (test.first && test.last) problems_.add(node.at, "give \"first\" or \"last\", not both");
    for (const auto& [key, to] : {std::pair{"any", &test.any}, {"chance", &test.chance}}) flag(node, key, *to);
    if (const JsonMember* margin = node.find("margin")) {
      if (!(margin->value.is_number() && margin->value.number() > 0))
        problems_.add(margin->value.at, "expected a number above 0, got " + describe(margin->value));
      test.margin = margin->value.number();
    }
    if (test.against.empty() && !test.against_of.empty())
      problems_.add(node.find("against_of")->key_at,
                    "names the measurement of the rows that \"against\" selects, so it "
                    "needs \"against\"");
    range(node, test.range);
    const bool ratio = test.kind == Kind::probe || test.kind == Kind::timing;
    if (ratio && std::min(test.range.low.value_or(1), test.range.high.value_or(1)) <= 0)
      problems_.add(node.at, concat("a test of kind \"", word_of(test.kind),
                                    "\" compares positive numbers, so its bounds must be above 0; null stands for no "
                                    "bound"));
    out.push_back(std::move(test));
  }

  void range(const JsonNode& node, ClaimRange& range) {
    const JsonMember *inside = node.find("range"), *outside = node.find("outside");
    if ((inside == nullptr) == (outside == nullptr))
      return problems_.add(node.at, "needs either \"range\" or \"outside\": [low, high], with null for no bound");
    range.outside = outside != nullptr;
    const JsonNode& list = (inside ? inside : outside)->value;
    const auto bound = [&](std::size_t i) {
      return list.is_array() && list.items.size() == 2 &&
             (list.items[i].is_number() || list.items[i].kind == JsonKind::null);
    };
    if (!bound(0) || !bound(1))
      return problems_.add(list.at, "expected [low, high], each a number or null, got " + describe(list));
    if (list.items[0].is_number()) range.low = list.items[0].number();
    if (list.items[1].is_number()) range.high = list.items[1].number();
    if (!range.low && !range.high) problems_.add(list.at, "every estimate lies in this range; give a bound");
    if (range.low && range.high && *range.low > *range.high)
      problems_.add(list.at, "the low bound is above the high one");
  }
};

}  // namespace

const std::vector<ClaimTestKey>& claim_test_keys() {
  using enum ClaimTestKind;
  static const std::vector<Kind> all{gain,  interaction, slope,    contrast, difference,
                                     probe, trend,       diverged, best,     timing};
  static const std::vector<ClaimTestKey> keys{
      {"kind", all, {}},
      {"where", {}, {gain, interaction, slope, contrast, difference, probe, trend, diverged, best}},
      {"against", {interaction, contrast, best}, {probe, diverged}},
      {"against_of", {}, {probe}},
      {"metric", {}, {gain, interaction, slope, contrast, best}},
      {"of", {difference, probe, trend, timing}, {}},
      {"over", {slope, difference, best, timing}, {probe}},
      {"first", {}, {probe, trend}},
      {"last", {}, {probe, trend}},
      {"any", {}, {gain, contrast, difference, probe, trend, diverged}},
      {"margin", {}, {gain, interaction, contrast}},
      {"chance", {}, {gain}},
      {"range", {}, all},
      {"outside", {}, all},
  };
  return keys;
}

TestedClaim read_claim_block(const JsonNode& node, Problems& problems) { return ClaimReader(problems).read(node); }

}  // namespace normlab
