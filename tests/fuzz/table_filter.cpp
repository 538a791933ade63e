// Any text as `--where`, up to a form feed, and as `--sort` after it: refused with an InputError that points at the
// place, or taken; then brackets change nothing and `not` changes each answer.
#include "experiments/lab/tables/table_filter.h"

#include "core/error.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

namespace {

std::vector<TableLine> some_lines() {
  std::vector<TableLine> lines(4);
  const char* placements[] = {"pre_pre", "dpn", "dpn", ""};
  const char* rates[] = {"0.001", "3e-3", "nan", "Ti/4"};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    TableLine& line = lines[i];
    line.label = placements[i];
    line.axes = {placements[i], rates[i]};
    line.n = i;
    line.seeds.resize(i);
    for (TableSeed& seed : line.seeds) seed.state = SeedState(i + 2);
    if (i % 2 == 0) line.mean = {1.5 * double(i), "1.5"};
    if (i > 1) line.gain = {-0.25, "-0.3"};
    line.differs = i == 2;
  }
  return lines;
}

/// What an expression says of each line; nothing where it is refused.
std::optional<std::vector<bool>> matches(const std::string& expression, const FieldNames& fields,
                                         const std::vector<TableLine>& lines) {
  try {
    const LineTest filter = table_filter(expression, fields);
    std::vector<bool> out;
    for (const TableLine& line : lines) out.push_back(filter(line));
    return out;
  } catch (const InputError& error) {
    require(std::string_view(error.what()).starts_with("--where: column "), "an error without a place");
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const FieldNames fields = table_fields({"model.placement", "train.optimizer.lr"});
  static const std::vector<TableLine> lines = some_lines();
  const std::vector<std::string> parts = parts_of(text_of(data, size));
  if (const auto plain = matches(parts[0], fields, lines);
      plain && parts[0].find_first_not_of(" \t\n") != std::string::npos) {
    if (const auto in_brackets = matches("(" + parts[0] + ")", fields, lines))
      require(*in_brackets == *plain, "brackets change what matches");
    if (const auto negated = matches("not (" + parts[0] + ")", fields, lines))
      for (std::size_t i = 0; i < lines.size(); ++i) require((*negated)[i] != (*plain)[i], "not changes nothing");
  }
  if (parts.size() < 2) return 0;
  std::vector<TableLine> sorted = lines;
  try {
    sort_lines(sorted, parts[1], fields);
  } catch (const InputError& error) {
    require(std::string_view(error.what()).starts_with("--sort: "), "an error that does not name the option");
    return 0;
  }
  require(sorted.size() == lines.size(), "a line is lost");
  std::size_t seeds = 0;
  for (const TableLine& line : sorted) seeds += line.seeds.size();
  require(seeds == 6, "a line is there twice");
  return 0;
}
