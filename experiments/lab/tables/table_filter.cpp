#include "experiments/lab/tables/table_filter.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"

namespace normlab {
namespace {

FieldValue number(double value) { return {concat(value), value}; }

template <Figure TableLine::*kFigure>
FieldValue figure(const TableLine& line) {
  return {(line.*kFigure).text, (line.*kFigure).value};
}

template <SeedState... kStates>
FieldValue seeds_that_are(const TableLine& line) {
  const auto is = [](const TableSeed& seed) { return ((seed.state == kStates) || ...); };
  return number(double(std::count_if(line.seeds.begin(), line.seeds.end(), is)));
}

struct Column {
  std::string_view name;
  FieldValue (*value)(const TableLine& line);
};
constexpr Column kColumns[] = {{"row",
                                [](const TableLine& line) {
                                  return FieldValue{line.label, parse_number(line.label)};
                                }},
                               {"mean", figure<&TableLine::mean>},
                               {"half_width", figure<&TableLine::half_width>},
                               {"n", [](const TableLine& line) { return number(double(line.n)); }},
                               {"planned", [](const TableLine& line) { return number(double(line.seeds.size())); }},
                               {"gain", figure<&TableLine::gain>},
                               {"gain_half_width", figure<&TableLine::gain_half_width>},
                               {"pairs", [](const TableLine& line) { return number(double(line.pairs)); }},
                               {"p", figure<&TableLine::p>},
                               {"differs", [](const TableLine& line) { return number(line.differs ? 1 : 0); }},
                               {"done", seeds_that_are<SeedState::done>},
                               {"diverged", seeds_that_are<SeedState::diverged>},
                               {"failed", seeds_that_are<SeedState::failed>},
                               {"running", seeds_that_are<SeedState::running>},
                               {"missing", seeds_that_are<SeedState::missing, SeedState::stopped>},
                               {"unreadable", seeds_that_are<SeedState::unreadable>}};

}  // namespace

FieldNames table_fields(std::vector<std::string> axes) {
  std::vector<std::string_view> names;
  for (const Column& column : kColumns) names.push_back(column.name);
  return {std::move(axes), std::move(names)};
}

FieldValue field_value(const TableLine& line, const FieldNames& names, std::size_t field) {
  if (field >= names.axes()) return kColumns[field - names.axes()].value(line);
  return {line.axes[field], parse_number(line.axes[field])};
}

LineTest table_filter(const std::string& expression, const FieldNames& names) {
  return [holds = parse_condition(expression, names), names](const TableLine& line) {
    return holds([&](std::size_t field) { return field_value(line, names, field); });
  };
}

void sort_lines(std::vector<TableLine>& lines, const std::string& key, const FieldNames& fields) {
  if (key.empty()) return;
  const bool descending = key.front() == '-';
  const std::string name = descending ? key.substr(1) : key;
  const auto field = fields.find(name);
  if (!field) throw InputError("--sort: " + fields.unknown(name));
  struct Keyed {
    FieldValue value;
    std::size_t line;
  };
  std::vector<Keyed> order;
  for (std::size_t i = 0; i < lines.size(); ++i) order.push_back({field_value(lines[i], fields, *field), i});
  const bool by_number =
      std::all_of(order.begin(), order.end(), [](const Keyed& k) { return k.value.text.empty() || k.value.number; });
  std::stable_sort(order.begin(), order.end(), [&](const Keyed& a, const Keyed& b) {
    const bool a_empty = a.value.text.empty() && !a.value.number, b_empty = b.value.text.empty() && !b.value.number;
    if (a_empty || b_empty) return !a_empty && b_empty;
    const Keyed &first = descending ? b : a, &second = descending ? a : b;
    return by_number ? *first.value.number < *second.value.number : first.value.text < second.value.text;
  });
  std::vector<TableLine> sorted;
  sorted.reserve(lines.size());
  for (const Keyed& k : order) sorted.push_back(std::move(lines[k.line]));
  lines = std::move(sorted);
}

}  // namespace normlab
