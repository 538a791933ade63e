#include "experiments/lab/descriptor/external_numbers.h"

#include <set>

#include "core/error.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/condition.h"
#include "experiments/lab/descriptor/design.h"
#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/metric_names.h"

namespace normlab {
namespace {

/// Of all files together: an archive's descriptor holds them, and has its own limit.
constexpr std::size_t kMaxExternalBytes = kMaxJsonBytes / 4;

constexpr std::string_view kHeading = "row,seed,metric,value";

struct Cell {
  std::string text;
  std::uint32_t column = 1;
};

/// The cells of a line (RFC 4180); none if a quote never closes.
std::vector<Cell> cells_of(std::string_view line) {
  std::vector<Cell> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && line.substr(i + 1).starts_with('"'))
      cells.back().text += line[++i];
    else if (c == '"' && (quoted || i + 1 == cells.back().column))
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.push_back({"", std::uint32_t(i + 2)});
    else
      cells.back().text += c;
  }
  if (quoted) cells.clear();
  return cells;
}

void read_lines(ExternalNumbers& out, Source* source, Problems& problems) {
  std::set<std::tuple<std::string, std::string, std::uint64_t>> known;
  std::uint32_t line_number = 0;
  bool has_lines = false;
  const auto problem = [&](std::uint32_t column, const std::string& what) {
    problems.add({source, std::max(line_number, 1u), column}, "", what);
  };
  for (std::string_view rest = out.text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++line_number == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    if (line_number == 1 && line != kHeading)
      return problem(1, concat("expected the heading ", kHeading, ", got ", in_quotes(line)));
    if (line_number == 1 || line.empty()) continue;
    has_lines = true;
    const std::vector<Cell> cells = cells_of(line);
    if (cells.empty()) {
      problem(1, "a quotation mark is not closed in this line");
      continue;
    }
    if (cells.size() != 4) {
      problem(1, concat("expected four cells, ", kHeading, ", got ", cells.size()));
      continue;
    }
    const Cell &row = cells[0], &seed = cells[1], &metric = cells[2], &value = cells[3];
    const std::optional<std::uint64_t> seed_number = whole_number(seed.text);
    const std::optional<double> number = parse_number(value.text);
    if (row.text.empty() || metric.text.empty())
      problem(row.text.empty() ? row.column : metric.column, "is empty");
    else if (!seed_number)
      problem(seed.column, concat("expected a seed, an integer from 0 to 2^64 - 1, got ", in_quotes(seed.text)));
    else if (!number)
      problem(value.column, concat("expected a finite number, got ", in_quotes(value.text)));
    else if (is_share(metric.text) && (*number < 0 || *number > 1))
      problem(value.column,
              concat("expected a share from 0 to 1, as results have it, got ", value.text, "; divide percent by 100"));
    else if (!known.emplace(row.text, metric.text, *seed_number).second)
      problem(row.column,
              concat(in_quotes(row.text), ", seed ", *seed_number, ", has a value of ", metric.text, " above"));
    else
      out.values.push_back({row.text, *seed_number, metric.text, *number});
  }
  if (!has_lines) problem(1, concat("expected the heading ", kHeading, " and numbers below it"));
}

}  // namespace

std::vector<ExternalNumbers> read_external(JsonNode& root, Sources& sources, Problems& problems,
                                           std::vector<std::filesystem::path>& files) {
  std::vector<ExternalNumbers> all;
  JsonMember* const member = root.find("external");
  if (member == nullptr) return all;
  PlacementRows no_placements;
  FieldReader in(no_placements, problems, ModelKind::vit, ReadMode::block);
  in.value(member->value, all, kNotEmpty);
  if (in.reported() > 0) return {};
  std::set<std::string> labels;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ExternalNumbers& numbers = all[i];
    JsonNode& node = member->value.items[i];
    const Position at = node.find("file")->value.at;
    if (!labels.insert(numbers.label).second)
      problems.add(node.find("label")->value.at, concat(in_quotes(numbers.label), " is given twice"));
    std::string name = numbers.file;
    if (node.find("text") == nullptr) try {
        files.push_back(relative_to(at, numbers.file));
        name = files.back().string();
        numbers.text = RegularFile(name).read(kMaxExternalBytes);
        node.add("text", numbers.text).at = node.at;
      } catch (const InputError& error) {
        problems.add(at, error.what());
        continue;
      }
    bytes += numbers.text.size();
    if (bytes > kMaxExternalBytes)
      return problems.add(at, concat("the files are longer than ", kMaxExternalBytes, " bytes, their limit")), all;
    read_lines(numbers, sources.add(name), problems);
  }
  return all;
}

}  // namespace normlab
