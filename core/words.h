// Words for enumerators.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace normlab {

/// Whether a value of E has an enumerator.
template <auto V>
constexpr bool is_enumerator() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with auto V = normlab::Pool::gap; ...]", "(normlab::Pool)2"
  text = text.substr(text.find("V = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1).find(')') == text.npos;
}

/// The words of the enumerators of E, which count from 0, in descriptors and files, in their order; the last `wordless`
/// have none. An enum states its words beside it:
///   constexpr auto stated_words(Pool) { return words<Pool>("token", "gap"); }
template <class E, std::size_t wordless = 0>
constexpr auto words(std::same_as<const char*> auto... each) {
  constexpr std::size_t kCount = sizeof...(each) + wordless;
  static_assert(is_enumerator<E(kCount - 1)>() && !is_enumerator<E(kCount)>(), "one word for each enumerator");
  return std::array{std::string_view(each)...};
}
template <class E>
inline constexpr auto kWords = stated_words(E());
template <class E>
inline constexpr std::size_t kWordCount = kWords<E>.size();

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
