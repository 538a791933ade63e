// Rows that describe settings, beside the structs and enums that they describe: key, member, meaning, bounds, and when
// a setting has a meaning. Readers of descriptors, the JSON Schema, the canonical form and the documentation walk these
// rows, so a new setting is a member and its row.
#pragma once

#include <array>
#include <concepts>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/words.h"

namespace normlab {

/// Bounds of a number; an open bound is outside.
struct Range {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  /// Bounds that only a descriptor must keep: results of earlier versions may state what is beyond them.
  bool of_descriptors = false;
  std::string_view why_high{};  // for errors
};
inline constexpr Range kPositive{.low = 0, .low_open = true}, kNotNegative{.low = 0};
inline constexpr Range kRate{.low = 0, .high = 1, .high_open = true};
inline constexpr Range kShare{.low = 0, .high = 1}, kOpenShare{.low = 0, .high = 1, .low_open = true};
// Whole numbers end where sums and products of them still fit 64 bits; steps of a year at a microsecond each are fewer.
inline constexpr double kMostCounted = 1LL << 50;
inline constexpr Range kFromZero{.low = 0, .high = kMostCounted}, kFromOne{.low = 1, .high = kMostCounted},
    kAtOnce{.low = 1, .high = 1 << 24};
inline constexpr Range kEpochs{.low = 0, .high = 1e9, .of_descriptors = true};

/// What a setting needs to have a meaning beside the others of its struct. One that has none is refused in a descriptor
/// unless another trial uses it, is set to its default, and is left out of both written forms.
template <class T>
struct When {
  bool (*holds)(const T&) = nullptr;
  /// Why the setting has no meaning where that does not hold. "{}" stands for its key, "{name}" for the value of the
  /// setting `name` beside it.
  std::string_view otherwise{};
};

template <class T, class M>
struct Field {
  using Member = M;
  std::string_view key;
  M T::*member;
  std::string_view doc;
  Range range{};
  std::array<When<T>, 2> conditions{};

  constexpr Field when(When<T> condition) const {
    Field out = *this;
    out.conditions[has_conditions() ? 1 : 0] = condition;
    return out;
  }
  constexpr bool has_conditions() const { return conditions[0].holds != nullptr; }
  /// The first condition that does not hold; null where the setting has a meaning.
  const When<T>* unmet(const T& value) const {
    for (const When<T>& condition : conditions)
      if (condition.holds != nullptr && !condition.holds(value)) return &condition;
    return nullptr;
  }
};
template <class T, class M>
constexpr Field<T, M> make_field(std::string_view key, M T::*member, std::string_view doc, Range range) {
  return {key, member, doc, range};
}
/// The row of a member, whose name is the key.
template <auto kMember>
constexpr auto field(std::string_view doc, Range range = {}) {
  return make_field(name_of<kMember>(), kMember, doc, range);
}

/// The rows of a struct as a tuple, in the order in which they are written. Each struct of settings declares them:
///   template <std::same_as<Settings> T>
///   constexpr auto rows_of(const T*) { return std::tuple{field<&T::member>("meaning"), ...}; }
/// That is a template so that only files that walk the rows compile them.
template <class T>
constexpr auto fields() {
  return rows_of(static_cast<const T*>(nullptr));
}
template <class T>
constexpr bool kHasFields = std::is_class_v<T>&& requires(const T* settings) {
  rows_of(settings);
};

/// Calls `see(row)` for each row of the struct.
template <class T, class Visitor>
void for_each_field(Visitor&& see) {
  std::apply([&](const auto&... each) { (see(each), ...); }, fields<T>());
}

/// The values that settings have when they are left out, given the others of the same struct.
template <class T>
T defaults_beside(const T&) {
  return {};
}

}  // namespace normlab
