// A descriptor's "paper": the publication that it reproduces, and known differences. Not part of a trial or its id.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/field.h"
#include "experiments/lab/descriptor/problems.h"

namespace normlab {

/// Any JSON value, as value_text writes it.
struct JsonText : std::string {};

struct Deviation {
  std::string key;  // "train.precision"
  JsonText paper, here;
  std::string why;
  std::string where;  // "file:line:column: /paper/deviations/0"
};
template <std::same_as<Deviation> T>
constexpr auto rows_of(const T*) {
  return std::tuple{field("key", &T::key, "", kNotEmpty).needed(), field("paper", &T::paper).needed(),
                    field("here", &T::here).needed(), field("why", &T::why, "", kNotEmpty).needed()};
}

struct PaperConfig {
  std::string source;  // publication, section or table; origin of settings from elsewhere
  std::vector<Deviation> deviations;
  bool empty() const { return source.empty(); }
};

template <std::same_as<PaperConfig> T>
constexpr auto rows_of(const T*) {
  return std::tuple{field("source", &T::source, "", kNotEmpty).needed(), field("deviations", &T::deviations)};
}

/// True for the dotted path of a trial's setting, or of an object of settings: "train.optimizer.lr", "model.placement".
bool is_setting(std::string_view path);

}  // namespace normlab
