// A formula as its user wrote it: the tree of its text, with the axes of every value.
//
//   sum     = product (("+" | "-") product)*          power = atom ("^" ("-")* power)?
//   product = minus (("*" | "/") minus)*              atom  = number | name | name "(" sum, ... ")" | "(" sum ")"
//   minus   = "-" minus | power                       a < b and a > b are the first argument of where(), and only that
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace normlab::formula {

/// The axes along which a value varies, as bits.
using Axes = std::uint8_t;
inline constexpr Axes kImage = 1, kToken = 2, kChannel = 4, kAllAxes = 7;

inline constexpr std::size_t kMostCharacters = 4096, kMostTerms = 256, kMostNested = 64;

/// A wrong formula. `word`, if any, is unknown, and one of the candidates may be meant.
struct FormulaError : std::runtime_error {
  FormulaError(std::size_t where, const std::string& what, std::string unknown = {},
               std::vector<std::string_view> known = {})
      : std::runtime_error(what), at(where), word(std::move(unknown)), candidates(std::move(known)) {}
  std::size_t at;  // of the text's bytes, from 0
  std::string word;
  std::vector<std::string_view> candidates;
};

/// A name that a formula may read besides the values of the language.
struct Name {
  std::string_view name;
  Axes axes = 0;
};

/// An operation, number, value or parameter. Operators are named by their signs, a minus before a value "neg".
struct Term {
  std::string word{};  // "": a number
  double number = 0;
  std::vector<int> arguments{};
  std::size_t at = 0;
  Axes axes = 0;
  bool of_x = false;
};

struct Tree {
  std::vector<Term> terms;  // arguments before what reads them; the last is the result
  const Term& root() const { return terms.back(); }
  bool reads(std::string_view word) const;
  /// Whether some value is an epsilon's: a deviation, a root mean square or a norm.
  bool reads_eps() const;
  bool reduces() const;
  /// Whether some reduction is over tokens, so that tokens of an image depend on each other.
  bool over_tokens() const;
};

/// The tree of `text`. FormulaError if it is none, or if its result is no norm of x.
Tree parse(std::string_view text, std::span<const Name> parameters);

/// The tree of a function of each value x and kGate alone, without parameters and reductions.
Tree parse_elementwise(std::string_view text);
/// A second input beside x, which norms do not have: what a gated MLP multiplies by.
inline constexpr std::string_view kGate = "g";
/// The tree of a function of each row of x and kGate, without parameters.
Tree parse_rows(std::string_view text);

/// The tree of a number that the values of kSiteValues determine.
Tree parse_number(std::string_view text);
inline constexpr std::string_view kSiteValues[] = {"C", "N", "depth", "block"};

/// The number that a tree, or the part below a term, gives for these values of kSiteValues. NaN if it depends on others.
double evaluate(const Tree& tree, std::span<const double> site_values, int term = -1);

/// The text of a term, or of the whole tree, whose tree is the same: the shortest digits that give each number,
/// parentheses only where they change the tree.
std::string text_of(const Tree& tree, int term = -1);

/// Words of the language, which no parameter may have.
std::vector<std::string_view> reserved_words();

/// A function of the language. A reduction is over the channels of a token, and has a variant over the tokens of each
/// channel and one over both.
struct Function {
  std::string_view word;
  std::size_t least, most;  // arguments
  bool reduces = false;     // with `least` arguments
};
/// The function of this word, and what its suffix says that it reduces; null if there is none.
struct Called {
  const Function* function = nullptr;
  Axes over = kChannel;
};
Called find_function(std::string_view word);

}  // namespace normlab::formula
