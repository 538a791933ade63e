// Names of enumerators and members as text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

namespace normlab {

/// The compiler's name of an enumerator or member, without its scope.
template <auto V>
constexpr std::string_view name_of() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with auto V = normlab::Pool::gap; ...]", "... [V = ...]"
  text = text.substr(text.find("V = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}

/// The number of enumerators from 0 on that have a name. An enum with fewer words specialises kWordCount.
template <class E, std::size_t n = 0>
constexpr std::size_t count_words() {
  if constexpr (name_of<static_cast<E>(n)>().find(')') != std::string_view::npos)  // a value without a name: "(E)3"
    return n;
  else
    return count_words<E, n + 1>();
}
template <class E>
inline constexpr std::size_t kWordCount = count_words<E>();
/// The words of an enum in descriptors and files are its enumerators' names.
template <class E>
inline constexpr auto kWords = []<std::size_t... n>(std::index_sequence<n...>) {
  return std::array{name_of<static_cast<E>(n)>()...};
}
(std::make_index_sequence<kWordCount<E>>());

template <class E>
requires std::is_enum_v<E>
constexpr std::string_view word_of(E value) { return kWords<E>[static_cast<std::size_t>(value)]; }
/// Writes the value with this word to `value`; false if there is none.
template <class E>
constexpr bool find_word(std::string_view word, E& value) {
  const auto found = std::find(std::begin(kWords<E>), std::end(kWords<E>), word);
  if (found == std::end(kWords<E>)) return false;
  value = static_cast<E>(found - std::begin(kWords<E>));
  return true;
}

}  // namespace normlab
