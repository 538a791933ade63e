#include "experiments/lab/trials/correctness_file.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

constexpr std::string_view kMagic = "normlab correct ";
constexpr std::string_view kVersion = "1";
constexpr const char* kCorrectnessAdvice = "; delete it and run the trial again, or leave out test-set noise";

[[noreturn]] void reject(const std::filesystem::path& path, std::size_t byte, const std::string& what) {
  throw InputError(concat(path.string(), ": byte ", byte, ": ", what, kCorrectnessAdvice));
}

}  // namespace

void write_correctness(const std::filesystem::path& path, const Correctness& correctness) {
  std::string text = concat(kMagic, kVersion, " ", correctness.images(), " ", correctness.data_hash(), "\n");
  text.append(correctness.bits().begin(), correctness.bits().end());
  write_atomically(path, text);
}

Correctness read_correctness(const std::filesystem::path& path) { return parse_correctness(read_file(path), path); }

Correctness parse_correctness(std::string_view all, const std::filesystem::path& path) {
  if (!all.starts_with(kMagic)) reject(path, 0, concat("the file does not begin with \"", kMagic, "\""));
  const std::size_t line_end = all.substr(0, kMagic.size() + Correctness::kMaxHash + 50).find('\n');
  if (line_end == all.npos) reject(path, 0, "the first line does not end");
  std::size_t at = kMagic.size();
  const auto word = [&] {
    const std::size_t end = std::min(all.find(' ', at), line_end);
    const std::string_view result = all.substr(at, end - at);
    at = std::min(end + 1, line_end);
    return result;
  };
  if (const std::string_view version = word(); version != kVersion)
    reject(path, kMagic.size(),
           concat("version ", in_quotes(Correctness::is_data_hash(version) ? version : "?"), ", this program reads ",
                  kVersion));
  const std::size_t count_at = at;
  const std::int64_t images = std::int64_t(whole_number(word()).value_or(~std::uint64_t{0}));
  if (images < 0) reject(path, count_at, "the number of images is not a number");
  const std::string_view hash = all.substr(at, line_end - at);
  if (!Correctness::is_data_hash(hash)) reject(path, at, "the data hash is missing or has invalid characters");

  // Compare sizes before allocating memory: the count may be anything.
  const std::string_view bits = all.substr(line_end + 1);
  const std::size_t bytes = std::size_t(images / 8 + (images % 8 != 0));
  if (bits.size() != bytes)
    reject(path, all.size(), concat(images, " images need ", bytes, " bytes, but there are ", bits.size()));
  if (images % 8 != 0 && std::uint8_t(bits.back()) >> (images % 8) != 0)
    reject(path, all.size() - 1, "bits after the last image are set");
  Correctness result(images, std::string(hash));
  for (std::int64_t i = 0; i < images; ++i) result.set(i, (std::uint8_t(bits[std::size_t(i / 8)]) >> (i % 8) & 1) != 0);
  return result;
}

}  // namespace normlab
