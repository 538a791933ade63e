#include "experiments/lab/descriptor/tested_claim.h"

#include <algorithm>
#include <set>

#include "experiments/lab/descriptor/forms.h"

namespace normlab {
namespace {

using Kind = ClaimTestKind;

/// [low, high], with null for no bound.
void read_bounds(FieldReader& in, const JsonNode& list, ClaimRange& range) {
  const auto is_bound = [](const JsonNode& item) { return item.is_number() || item.kind == JsonKind::null; };
  if (list.items.size() != 2 || !std::all_of(list.items.begin(), list.items.end(), is_bound))
    return in.report(list.at, "expected [low, high], each a number or null, got " + describe(list));
  if (list.items[0].is_number()) range.low = list.items[0].number();
  if (list.items[1].is_number()) range.high = list.items[1].number();
  if (!range.low && !range.high) in.report(list.at, "every estimate lies in this range; give a bound");
  if (range.low && range.high && *range.low > *range.high) in.report(list.at, "the low bound is above the high one");
}

void read_cells(FieldReader& in, const JsonNode& cells, PrintedFigures& figures) {
  if (!cells.is_object() || cells.members.empty())
    in.report(cells.at, "expected an object with one cell or more, such as {\"B/32\": [63.8, 61.2]}");
  const bool single = figures.as == PrintedAs::value;
  for (const JsonMember& cell : cells.members) {
    const std::vector<JsonNode> numbers = single ? std::vector{cell.value} : cell.value.items;
    if (numbers.size() != (single ? 1 : 2) ||
        !std::all_of(numbers.begin(), numbers.end(), [](const JsonNode& n) { return n.is_number(); })) {
      in.report(cell.value.at,
                concat(single ? "expected a number" : "expected [baseline, value]", ", got ", describe(cell.value)));
      continue;
    }
    for (const JsonNode& number : numbers) figures.decimals = std::max(figures.decimals, decimals_of(number));
    const double first = numbers.front().number(), last = numbers.back().number();
    if (figures.as == PrintedAs::ratio && first == 0) in.report(cell.value.at, "a ratio to 0 has no value");
    figures.values.emplace_back(cell.key, figures.as == PrintedAs::difference ? last - first
                                          : figures.as == PrintedAs::ratio    ? last / first
                                                                              : last);
  }
  if (figures.as == PrintedAs::ratio) figures.decimals = 2;
}

template <class T>
bool has_setting(std::string_view path) {
  if constexpr (std::is_same_v<T, ModelConfig>) {
    return path == "kind" || path == "variant" || path == "layer_scale" || has_setting<ViTConfig>(path) ||
           has_setting<SwinConfig>(path);
  } else if constexpr (kHasFields<T>) {
    const std::size_t dot = path.find('.');
    bool found = false;
    for_each_field<T>([&](const auto& field) {
      using Member = typename std::remove_cvref_t<decltype(field)>::Member;
      if (field.key != path.substr(0, dot)) return;
      found = dot == path.npos || has_setting<Member>(path.substr(dot + 1));
    });
    return found;
  }
  return false;
}

}  // namespace

void Form<PrintedFigures>::read(FieldReader& in, const JsonNode& node, PrintedFigures& out, Range) {
  if (node.is_string()) return in.value(node, out.words, kNotEmpty);
  const bool complete = in.object(node, out, {"cells"});
  const JsonMember* cells = node.find("cells");
  if (node.is_object() && cells == nullptr) in.report(node.at, "the key \"cells\" is missing");
  if (complete && cells != nullptr) read_cells(in, cells->value, out);
}

void Form<ClaimTest>::read(FieldReader& in, const JsonNode& node, ClaimTest& out, Range) {
  out.place = concat(to_string(node.at), ": ", node.at.pointer());
  if (!in.object(node, out, {"range", "outside"})) return;
  const auto problem = [&](auto&&... what) { in.report(node.at, concat(what...)); };
  const auto needs = [&](const char* key, std::initializer_list<Kind> kinds) {
    if (node.find(key) == nullptr && std::find(kinds.begin(), kinds.end(), out.kind) != kinds.end())
      problem("a test of kind \"", word_of(out.kind), "\" needs \"", key, "\"");
  };
  needs("against", {Kind::interaction, Kind::contrast, Kind::best});
  needs("of", {Kind::difference, Kind::probe, Kind::trend, Kind::timing});
  needs("over", {Kind::slope, Kind::difference, Kind::best, Kind::timing});
  if (out.first && out.last) problem("give \"first\" or \"last\", not both");
  if (const JsonMember* margin = node.find("margin"); out.margin && !(*out.margin > 0))
    in.report(margin->value.at, "expected a number above 0, got " + describe(margin->value));
  if (out.against.empty() && !out.against_of.empty())
    in.report(node.find("against_of")->key_at,
              "names the measurement of the rows that \"against\" selects, so it needs \"against\"");
  const JsonMember *inside = node.find("range"), *outside = node.find("outside");
  if ((inside == nullptr) == (outside == nullptr))
    return problem("needs either \"range\" or \"outside\": [low, high], with null for no bound");
  out.range.outside = outside != nullptr;
  read_bounds(in, (inside != nullptr ? inside : outside)->value, out.range);
  const bool ratio = out.kind == Kind::probe || out.kind == Kind::timing;
  if (ratio && std::min(out.range.low.value_or(1), out.range.high.value_or(1)) <= 0)
    problem("a test of kind \"", word_of(out.kind),
            "\" compares positive numbers, so its bounds must be above 0; null stands for no bound");
}

void Form<TestedClaim>::read(FieldReader& in, const JsonNode& node, TestedClaim& out, Range) {
  if (!in.object(node, out)) return;
  if (node.find("short") == nullptr) out.brief = out.says;
  if (node.find("bench") == nullptr && out.scale == ClaimScale::timing)
    in.report(node.at, "a claim of scale \"timing\" needs \"bench\"");
  const JsonMember* list = node.find("tests");
  if (list == nullptr && out.scale != ClaimScale::paper)
    in.report(node.at, "a claim that is tested here needs \"tests\"; without tests its scale is \"paper\"");
  const auto timed = std::count_if(out.tests.begin(), out.tests.end(),
                                   [](const ClaimTest& test) { return test.kind == Kind::timing; });
  if (timed > 0 && std::size_t(timed) < out.tests.size())
    in.report(list->value.at, "tests of kind \"timing\" cannot be mixed with others; make two claims of them");
}

void Form<Deviation>::read(FieldReader& in, const JsonNode& node, Deviation& out, Range) {
  out.where = concat(to_string(node.at), ": ", node.at.pointer());
  if (!in.object(node, out)) return out.key.clear();
  if (!out.key.empty() && !is_setting(out.key))
    in.report(node.find("key")->value.at,
              concat("there is no setting ", out.key, "; `normlab check --keys` lists them"));
  if (out.paper == out.here) in.report(node.at, "\"paper\" and \"here\" are equal, so this is no deviation; remove it");
}

void Form<PaperConfig>::read(FieldReader& in, const JsonNode& node, PaperConfig& out, Range) {
  in.object(node, out);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < out.deviations.size(); ++i)
    if (const std::string& key = out.deviations[i].key; is_setting(key) && !seen.insert(key).second)
      in.report(node.find("deviations")->value.items[i].find("key")->value.at, key + " is listed twice");
}

bool is_setting(std::string_view path) { return has_setting<TrialConfig>(path); }

}  // namespace normlab
