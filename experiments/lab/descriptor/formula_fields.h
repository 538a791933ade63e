// The keys of a formula's parameter.
#pragma once

#include "core/field.h"
#include "core/words.h"

namespace normlab {

enum class ParameterPer : std::uint8_t { one, channel };
constexpr auto stated_words(ParameterPer) { return words<ParameterPer>("one", "channel"); }

struct ParameterKeys {
  double init = 1;
  ParameterPer per = ParameterPer::one;
  bool learned = true, decay = false;
};
template <std::same_as<ParameterKeys> T>
constexpr auto rows_of(const T*) {
  return std::tuple{field("init", &T::init, "initial value"),
                    field("per", &T::per, "one value, or one for each channel"),
                    field("learned", &T::learned, "false: a constant, which a sweep may vary"),
                    field("decay", &T::decay, "train.optimizer.weight_decay applies to it")};
}
}  // namespace normlab
