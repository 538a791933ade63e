#include "experiments/lab/descriptor/draws.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "core/random.h"
#include "experiments/lab/descriptor/forms.h"

namespace normlab {
namespace {

constexpr std::uint64_t kTriesPerValue = 100;

/// Whole numbers also fit settings that are whole.
JsonNode node_of(double value) {
  if (value >= 0 && value < 1e15 && value == std::floor(value)) return std::uint64_t(value);
  return value;
}

}  // namespace

std::vector<double> drawn_values(const Draw& draw, std::string_view path) {
  const bool log = draw.log_uniform.has_value();
  auto [low, high] = log ? *draw.log_uniform : *draw.uniform;
  const std::optional<NumberSetting> setting = number_setting(path);
  const bool whole = setting && setting->integer;
  const double least = whole ? std::ceil(low) : low, most = whole ? std::floor(high) : high;
  if (whole && least > most) return {};
  if (whole) low = least - 0.5, high = most + 0.5;  // so that each integer has its share
  const StreamKey key = stream_key(draw.seed, "tune", path);
  std::vector<double> values;
  std::set<double> known;
  for (std::uint64_t i = 0; i < kTriesPerValue * draw.n && values.size() < draw.n; ++i) {
    const auto words = normlab::draw(key, i);
    const double share = uniform(words[1], words[0]);
    const double exact = log ? low * std::pow(high / low, share) : low + (high - low) * share;
    const double digits = std::strtod(fmt::format("{:.3g}", exact).c_str(), nullptr);
    const double rounded = std::clamp(whole ? std::round(digits) : digits, least, most);
    if (known.insert(rounded).second) values.push_back(rounded);
  }
  return values;
}

Axis read_draw(const JsonMember& member, PlacementRows& rows, Problems& problems) {
  Axis axis{member.key, member.key_at, {}, {}};
  Draw draw;
  FieldReader in(rows, problems, ModelKind::vit, ReadMode::block);
  in.value(member.value, draw);
  if (in.reported() > 0) return axis;
  if (draw.log_uniform.has_value() == draw.uniform.has_value())
    return problems.add(member.value.at, "expected one of \"log_uniform\" and \"uniform\": [smallest, largest]"), axis;
  const std::optional<NumberSetting> setting = number_setting(member.key);
  if (setting) {
    FieldReader ends(rows, problems, ModelKind::vit, ReadMode::descriptor);
    for (const JsonNode& end : member.value.find(draw.log_uniform ? "log_uniform" : "uniform")->value.items) {
      double read = 0;
      ends.number(end, read, setting->range);
    }
    if (ends.reported() > 0) return axis;
  }
  const std::vector<double> values = drawn_values(draw, member.key);
  if (values.size() < draw.n)
    return problems.add(member.value.at, concat("the range holds fewer than ", draw.n, " different ",
                                                setting && setting->integer ? "integers" : "values",
                                                " of three significant digits; list them instead")),
           axis;
  axis.drawn_from = draw.log_uniform ? *draw.log_uniform : *draw.uniform;
  for (const double value : values) {
    JsonNode node = node_of(value);
    node.at = member.value.at;
    axis.values.push_back({node, value_text(node), axis_label(member.key, node, rows)});
  }
  return axis;
}

void state_draw_seeds(JsonNode& root) {
  JsonMember* tune = root.find("tune");
  if (tune == nullptr) return;
  for (JsonNode& stage : tune->value.items)
    if (JsonMember* axes = stage.find("axes"))
      for (JsonMember& axis : axes->value.members)
        if (axis.value.find("n") != nullptr && axis.value.find("seed") == nullptr) {
          JsonNode seed = Draw{}.seed;
          seed.at = axis.value.at;
          axis.value.add("seed", std::move(seed));
        }
}

JsonNode Form<Draw>::schema(Range) {
  JsonNode draw = rows_schema<Draw>();
  draw.add("oneOf", std::vector<JsonNode>{required({"log_uniform"}), required({"uniform"})});
  return draw;
}

}  // namespace normlab
