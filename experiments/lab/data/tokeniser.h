// Texts as numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// One number per byte or per word of a text in plain form (plain_text() in experiments/lab/metrics/zero_shot.h), and
/// one more that marks its end.
class Tokeniser {
 public:
  /// 256 numbers and the end mark.
  static Tokeniser of_bytes();
  /// `words` in plain form, none twice; `source` names them in errors.
  static Tokeniser of_words(const std::vector<std::string>& words, std::string source);
  /// A file of one word per line. InputError names the line of a word that is blank, given twice, or not in plain form.
  static Tokeniser from_file(const std::filesystem::path& file);

  /// How many numbers there are. The last one is the end mark.
  std::int64_t size() const { return words_.empty() ? 257 : std::ssize(words_) + 1; }
  const std::string& source() const { return source_; }
  /// Fills `out` with the text, cut if it is too long, and then with at least one end mark. InputError, which begins
  /// with `where`, for a text without words or with a word that is not in the vocabulary.
  void write(std::string_view text, std::span<std::int32_t> out, std::string_view where) const;
  /// The same errors.
  void require(std::string_view text, std::string_view where) const;

 private:
  std::vector<std::int32_t> numbers(std::string_view text, std::string_view where) const;
  std::map<std::string, std::int32_t, std::less<>> words_;  // empty: bytes
  std::string source_;
  bool from_file_ = false;
};

}  // namespace normlab
