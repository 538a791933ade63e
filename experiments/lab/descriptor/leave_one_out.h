// "leave_one_out" in a grid: a placement, and a row for each of its features without that feature.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/descriptor/sweep.h"

namespace normlab {

/// Values by path that put a feature back, as {"name": "EMA", "set": {"train.ema.decay": 0}}; or a part of a placement by
/// its path, such as "attn.out".
struct LeftOutFeature {
  std::string name;
  JsonNode set = json_object();
  Position at{};
};

/// A name, or an object of sites.
struct WholePlacement : JsonNode {};

struct LeaveOneOut {
  WholePlacement base;
  std::vector<LeftOutFeature> features;
};
template <std::same_as<LeaveOneOut> T>
constexpr auto rows_of(const T*) {
  return Fields{field("base", &T::base).needed(), field("features", &T::features, "", kNotEmpty).needed()};
}

/// The axis of these rows, whose first value is the base; none after a problem. Values hold settings by path.
AxisGroup read_leave_one_out(const JsonMember& member, PlacementRows& rows, Problems& problems);

/// The axis of a grid; null if it has none.
const Axis* leave_one_out_axis(const Grid& grid);

/// The same row with all features; none unless it has the axis.
std::optional<AxisLabels> with_all_features(const AxisLabels& values, const std::vector<Grid>& grids);

/// Reports a row that repeats `other` of its grid although they leave out different features. False if they do not.
bool report_no_feature(const Grid& grid, const AxisLabels& values, const AxisLabels& other, Problems& problems);

}  // namespace normlab
