#include "experiments/lab/descriptor/leave_one_out.h"

#include <algorithm>

#include "core/error.h"
#include "experiments/lab/descriptor/design.h"
#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/merge.h"

namespace normlab {
namespace {

constexpr std::string_view kPlacementPath = "model.placement";

/// The value of a part of a placement that puts it back: no norm at a site, otherwise the default; none for a path that
/// is no part.
std::optional<JsonNode> without_part(std::string_view part) {
  if (part.starts_with(concat(kBlocksKey, "."))) {
    const std::size_t range = part.find('.', kBlocksKey.size() + 1);
    part = range == part.npos ? "" : part.substr(range + 1);
  }
  std::optional<JsonNode> value;
  if (std::find(kSites.begin(), kSites.end(), part) != kSites.end()) value = word_of(NormKind::none);
  if (part == "attn.exclude_self") value = AttentionSites{}.exclude_self;
  for_each_field<Placement>([&](const auto& row) {
    using Form = Form<typename std::remove_cvref_t<decltype(row)>::Member>;
    if (row.key == part && !Form::words({}).empty())
      value = Form::write(Placement{}.*row.member, {/*everything=*/true, ModelKind::vit});
  });
  return value;
}

/// The value of that text on the axis.
const AxisValue& value_on(const Axis& axis, const std::string& text) {
  return *std::find_if(axis.values.begin(), axis.values.end(), [&](const AxisValue& v) { return v.text == text; });
}

}  // namespace

void Form<LeftOutFeature>::read(FieldReader& in, const JsonNode& node, LeftOutFeature& out, Range) {
  out.at = node.at;
  const JsonNode *name = value_of(node, "name"), *set = value_of(node, "set");
  if (name != nullptr && set != nullptr && node.members.size() == 2 && name->is_string() && !name->text.empty() &&
      set->is_object()) {
    for (const JsonMember& member : set->members) {
      const auto holds = [&](std::string_view root) { return is_within(member.key, root); };
      if (std::none_of(std::begin(kSettingRoots), std::end(kSettingRoots), holds))
        in.report(member.key_at, unknown_setting(member.key.substr(0, member.key.find('.')),
                                                 {std::begin(kSettingRoots), std::end(kSettingRoots)}));
    }
    out.name = name->text;
    out.set = *set;
    return;
  }
  out.name = node.text;
  if (is_within(out.name, kPlacementPath) && out.name != kPlacementPath) out.name.erase(0, kPlacementPath.size() + 1);
  std::optional<JsonNode> value = node.is_string() ? without_part(out.name) : std::nullopt;
  if (!value)
    return in.report(node.at, concat("expected a part of the placement such as \"attn.out\" or \"head_scale\", or "
                                     "{\"name\": \"EMA\", \"set\": {\"train.ema.decay\": 0}}, got ",
                                     describe(node)));
  value->at = node.at;
  out.set.add(concat(kPlacementPath, ".", out.name), *std::move(value));
}

AxisGroup read_leave_one_out(const JsonMember& member, PlacementRows& rows, Problems& problems) {
  LeaveOneOut read;
  FieldReader in(rows, problems, ModelKind::vit, ReadMode::block);
  in.value(member.value, read);
  if (in.reported() > 0) return {};
  Axis axis{std::string(kLeaveOneOutAxis), member.key_at, {}, {}};
  const std::string whole = axis_label(kPlacementPath, read.base, rows);
  read.features.insert(read.features.begin(), {"", json_object(), read.base.at});
  for (const LeftOutFeature& feature : read.features) {
    const std::string name = axis.values.empty() ? whole : concat(whole, " - ", visible_line(feature.name));
    if (std::any_of(axis.values.begin(), axis.values.end(), [&](const AxisValue& v) { return v.label == name; }))
      problems.add(feature.at, concat(in_quotes(name), " is given twice"));
    AxisValue& value = axis.values.emplace_back(AxisValue{feature.set, value_text(name), name});
    value.node.at = feature.at;
    value.node.members.insert(value.node.members.begin(), {std::string(kPlacementPath), read.base.at, read.base});
  }
  return {std::move(axis)};
}

const Axis* leave_one_out_axis(const Grid& grid) {
  for (const AxisGroup& group : grid.groups)
    if (group.front().path == kLeaveOneOutAxis) return &group.front();
  return nullptr;
}

std::optional<AxisLabels> with_all_features(const AxisLabels& values, const std::vector<Grid>& grids) {
  AxisLabels whole = values;
  for (auto& [path, text] : whole)
    if (path == kLeaveOneOutAxis)
      for (const Grid& grid : grids)
        if (const Axis* axis = leave_one_out_axis(grid); axis && find_axis_value({grid}, path, text).axis) {
          text = axis->values.front().text;
          return whole;
        }
  return std::nullopt;
}

bool report_no_feature(const Grid& grid, const AxisLabels& values, const AxisLabels& other, Problems& problems) {
  const Axis* const axis = leave_one_out_axis(grid);
  if (axis == nullptr) return false;
  const std::string &own = *find_value(values, axis->path), &same = *find_value(other, axis->path);
  if (own == same) return false;
  problems.add(value_on(*axis, own).node.at,
               concat("leaves nothing out: the row is the same as ", in_quotes(value_on(*axis, same).label),
                      "; `normlab explain --placements` shows what placements have"));
  return true;
}

}  // namespace normlab
