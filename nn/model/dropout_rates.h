// Dropout rates by place. The field names are the JSON keys of a descriptor's "model.dropout".
#pragma once

#include "core/field.h"

namespace normlab {

struct DropoutRates {
  double stem = 0.0, attn = 0.0, hidden = 0.0, mlp = 0.0;
  DropoutRates() = default;
  /// The same rate everywhere.
  constexpr DropoutRates(double all) : stem(all), attn(all), hidden(all), mlp(all) {}
  bool equal() const { return stem == attn && attn == hidden && hidden == mlp; }
  bool any() const { return stem > 0 || attn > 0 || hidden > 0 || mlp > 0; }
  bool operator==(const DropoutRates&) const = default;
};
template <std::same_as<DropoutRates> T>
constexpr auto rows_of(const T*) {
  return Fields{field("stem", &T::stem, "rate on the tokens after the stem", kRate),
                field("attn", &T::attn, "rate at the end of the attention branch", kRate),
                field("hidden", &T::hidden, "rate on the MLP's hidden layer, after its activation", kRate),
                field("mlp", &T::mlp, "rate at the end of the MLP branch", kRate)};
}
inline constexpr const char* kDropoutDoc =
    "rate after the stem, both branches and the hidden layer, or a rate for each of these places";

}  // namespace normlab
