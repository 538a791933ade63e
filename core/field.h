// Rows that describe settings, next to their structs and enums: key, member, meaning, bounds, and when the setting has
// an effect. Descriptor readers, the JSON Schema, the canonical form and the documentation all iterate over these rows,
// so a new setting needs only a member and a row.
#pragma once

#include <array>
#include <concepts>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/words.h"

namespace normlab {

/// Bounds of a number; an open bound is excluded.
struct Range {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  /// The bounds apply to descriptors only, since results of earlier versions may lie outside.
  bool of_descriptors = false;
  std::string_view expected{};  // in the error message about any other value
  std::string_view why{};       // the end of that message, or of the one about a number that is too large
};
inline constexpr Range kPositive{.low = 0, .low_open = true}, kNotNegative{.low = 0};
inline constexpr Range kRate{.low = 0, .high = 1, .high_open = true};
inline constexpr Range kShare{.low = 0, .high = 1}, kOpenShare{.low = 0, .high = 1, .low_open = true};
// Whole numbers end where their sums and products still fit 64 bits. A year of steps of one microsecond is fewer.
inline constexpr double kMostCounted = 1LL << 50;
inline constexpr Range kFromZero{.low = 0, .high = kMostCounted}, kFromOne{.low = 1, .high = kMostCounted},
    kAtOnce{.low = 1, .high = 1 << 24};
inline constexpr Range kEpochs{.low = 0, .high = 1e9, .of_descriptors = true};
/// Of a string, or of a list of strings or objects and of each of its strings.
inline constexpr Range kNotEmpty{.low = 1};

/// A condition on the other settings of a struct under which a setting has an effect. A setting without effect is
/// rejected in a descriptor unless another trial uses it; otherwise it is reset to its default and left out of both
/// written forms.
template <class T>
struct When {
  bool (*holds)(const T&) = nullptr;
  /// Why the setting has no effect if the condition fails. "{}" stands for its key, "{name}" for the value of the
  /// setting `name` in the same struct.
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
  std::size_t count = 0;       // of conditions; comparing `holds` is not constant with g++'s sanitizers (GCC bug 71962)
  std::string_view missing{};  // the error message if the key is missing, where "{}" stands for it; "": it may be

  constexpr Field when(When<T> condition) const {
    Field out = *this;
    out.conditions[out.count++] = condition;
    return out;
  }
  constexpr Field needed(std::string_view message = "the key \"{}\" is missing") const {
    Field out = *this;
    out.missing = message;
    return out;
  }
  constexpr bool has_conditions() const { return count > 0; }
  /// The first condition that fails; null if the setting has an effect.
  const When<T>* unmet(const T& value) const {
    for (std::size_t i = 0; i < count; ++i)
      if (!conditions[i].holds(value)) return &conditions[i];
    return nullptr;
  }
};
template <class T, class M>
constexpr Field<T, M> field(std::string_view key, M T::*member, std::string_view doc = {}, Range range = {}) {
  return {key, member, doc, range};
}

template <std::size_t, class F>
struct FieldAt {
  F field;
};
template <class Numbers, class... F>
struct NumberedFields;
template <std::size_t... i, class... F>
struct NumberedFields<std::index_sequence<i...>, F...> : FieldAt<i, F>... {
  constexpr explicit NumberedFields(const F&... each) : FieldAt<i, F>{each}... {}
};
template <std::size_t i, class F>
[[gnu::always_inline]] constexpr const F& field_at(const FieldAt<i, F>& at) {
  return at.field;
}
/// The rows of a struct or a part of them, in the order in which they are written. In place of a std::tuple, whose many
/// templates take the compiler longer.
template <class... F>
struct Fields : NumberedFields<std::index_sequence_for<F...>, F...> {
  static constexpr std::size_t kCount = sizeof...(F);
  constexpr explicit Fields(const F&... each) : NumberedFields<std::index_sequence_for<F...>, F...>(each...) {}
};
template <class... A, class... B>
constexpr Fields<A..., B...> operator+(const Fields<A...>& a, const Fields<B...>& b) {
  return [&]<std::size_t... i, std::size_t... j>(std::index_sequence<i...>, std::index_sequence<j...>) {
    return Fields<A..., B...>(field_at<i>(a)..., field_at<j>(b)...);
  }
  (std::index_sequence_for<A...>(), std::index_sequence_for<B...>());
}

/// Each struct of settings declares its rows:
///   template <std::same_as<Settings> T>
///   constexpr auto rows_of(const T*) { return Fields{field("member", &T::member, "meaning"), ...}; }
/// As a template this is compiled only in files that use the rows. They are one object for all uses, and not on the
/// stack: some structs have 12 kB of rows.
template <class T>
inline constexpr auto kFieldsOf = rows_of(static_cast<const T*>(nullptr));
template <class T>
constexpr bool kHasFields = std::is_class_v<T>&& requires(const T* settings) {
  rows_of(settings);
};

template <class T, class Visitor>
constexpr void for_each_field(Visitor&& see) {
  [&]<std::size_t... i>(std::index_sequence<i...>) { (see(field_at<i>(kFieldsOf<T>)), ...); }
  (std::make_index_sequence<kFieldsOf<T>.kCount>());
}
template <class T>
inline constexpr auto kKeysOf = [] {
  std::array<std::string_view, kFieldsOf<T>.kCount> out{};
  auto next = out.begin();
  for_each_field<T>([&](const auto& row) { *next++ = row.key; });
  return out;
}();

/// The defaults of omitted settings, given the other settings of the struct.
template <class T>
T defaults_beside(const T&) {
  return {};
}

}  // namespace normlab
