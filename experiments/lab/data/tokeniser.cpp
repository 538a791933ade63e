#include "experiments/lab/data/tokeniser.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/data/readers.h"
#include "experiments/lab/metrics/zero_shot.h"

namespace normlab {

Tokeniser Tokeniser::of_bytes() {
  Tokeniser out;
  out.source_ = "bytes";
  return out;
}

Tokeniser Tokeniser::of_words(const std::vector<std::string>& words, std::string source) {
  Tokeniser out;
  out.source_ = std::move(source);
  for (const std::string& word : words) out.words_.emplace(word, static_cast<std::int32_t>(out.words_.size()));
  return out;
}

Tokeniser Tokeniser::from_file(const std::filesystem::path& file) {
  const std::vector<std::string> words = read_names(file, "word", "it lists the words of the captions, one per line");
  for (std::size_t i = 0; i < words.size(); ++i)
    if (const std::string plain = plain_text(words[i]); plain != words[i] || plain.find(' ') != plain.npos)
      throw InputError(concat(file.string(), ":", i + 1, ": ", in_quotes(words[i]),
                              " never occurs, because texts are read in lower case and without punctuation; write ",
                              in_quotes(plain.substr(0, plain.find(' '))), ", or leave it out"));
  Tokeniser out = of_words(words, file.string());
  out.from_file_ = true;
  return out;
}

std::vector<std::int32_t> Tokeniser::numbers(std::string_view text, std::string_view where) const {
  const std::string plain = plain_text(text);
  if (plain.empty()) throw InputError(concat(where, ": the text is empty; write a text, or leave the image out"));
  std::vector<std::int32_t> out;
  if (words_.empty()) {
    for (const char c : plain) out.push_back(static_cast<unsigned char>(c));
    return out;
  }
  for (std::size_t first = 0; first < plain.size();) {
    const std::size_t end = std::min(plain.find(' ', first), plain.size());
    const std::string_view word = std::string_view(plain).substr(first, end - first);
    const auto found = words_.find(word);
    if (found == words_.end()) {
      std::vector<std::string_view> known;
      for (const auto& [name, number] : words_) known.push_back(name);
      throw InputError(concat(
          where, ": ", unknown_word("word", word, known), "; the vocabulary is ", source_,
          from_file_ ? ": add the word to it, or leave dataset.vocabulary out to read bytes" : ": use only these"));
    }
    out.push_back(found->second);
    first = end + 1;
  }
  return out;
}

void Tokeniser::write(std::string_view text, std::span<std::int32_t> out, std::string_view where) const {
  const std::vector<std::int32_t> all = numbers(text, where);
  const std::size_t count = std::min(all.size(), out.size() - 1);
  std::copy_n(all.begin(), count, out.begin());
  std::fill(out.begin() + std::ptrdiff_t(count), out.end(), static_cast<std::int32_t>(size() - 1));
}

void Tokeniser::require(std::string_view text, std::string_view where) const { (void)numbers(text, where); }

}  // namespace normlab
