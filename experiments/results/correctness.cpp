#include "experiments/results/correctness.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "experiments/results/files.h"

namespace normlab {
namespace {

constexpr std::string_view kMagic = "normlab correct ";
constexpr std::string_view kVersion = "1";
constexpr std::size_t kMaxHash = 200;
constexpr const char* kAdvice = "; remove it and run the trial again, or leave test-set noise out";

bool printable_word(std::string_view text) {
  return !text.empty() && text.size() <= kMaxHash &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

std::size_t byte_count(std::int64_t images) { return std::size_t(images / 8 + (images % 8 != 0)); }

[[noreturn]] void reject(const std::filesystem::path& path, std::size_t byte, const std::string& what) {
  throw InputError(concat(path.string(), ": byte ", byte, ": ", what, kAdvice));
}

}  // namespace

Correctness::Correctness(std::int64_t images, std::string data_hash)
    : images_(images), data_hash_(std::move(data_hash)) {
  if (images < 0) throw InputError(concat("correctness: ", images, " images; expected 0 or more"));
  if (!printable_word(data_hash_))
    throw InputError(concat("correctness: the data hash has ", data_hash_.size(),
                            " bytes or a space in it; expected 1 to ", kMaxHash, " printable ASCII characters"));
  bits_.resize(byte_count(images));
}

void Correctness::set(std::int64_t image, bool correct) {
  const auto mask = std::uint8_t(1U << (image % 8));
  std::uint8_t& byte = bits_[std::size_t(image / 8)];
  byte = std::uint8_t(correct ? byte | mask : byte & ~mask);
}

std::int64_t Correctness::count() const {
  std::int64_t sum = 0;
  for (const std::uint8_t byte : bits_) sum += std::popcount(byte);
  return sum;
}

void write_correctness(const std::filesystem::path& path, const Correctness& correctness) {
  std::string text = concat(kMagic, kVersion, " ", correctness.images(), " ", correctness.data_hash(), "\n");
  text.append(correctness.bits().begin(), correctness.bits().end());
  write_atomically(path, text);
}

Correctness read_correctness(const std::filesystem::path& path) { return parse_correctness(read_file(path), path); }

Correctness parse_correctness(std::string_view all, const std::filesystem::path& path) {
  if (!all.starts_with(kMagic)) reject(path, 0, concat("this does not begin with \"", kMagic, "\""));
  const std::size_t line_end = all.substr(0, kMagic.size() + kMaxHash + 50).find('\n');
  if (line_end == all.npos) reject(path, 0, "the first line has no end");
  std::size_t at = kMagic.size();
  const auto word = [&] {
    const std::size_t end = std::min(all.find(' ', at), line_end);
    const std::string_view result = all.substr(at, end - at);
    at = std::min(end + 1, line_end);
    return result;
  };
  if (const std::string_view version = word(); version != kVersion)
    reject(path, kMagic.size(),
           concat("version \"", printable_word(version) ? version : "?", "\", this program reads ", kVersion));
  const std::size_t count_at = at;
  const std::string_view count = word();
  std::int64_t images = 0;
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), images);
  if (count.empty() || error != std::errc() || end != count.data() + count.size() || images < 0)
    reject(path, count_at, "the number of images is no number");
  const std::string_view hash = all.substr(at, line_end - at);
  if (!printable_word(hash)) reject(path, at, "the data hash is missing or has characters that it cannot have");

  // Sizes are compared before memory is asked for: the count may be anything.
  const std::string_view bits = all.substr(line_end + 1);
  if (bits.size() != byte_count(images))
    reject(path, all.size(), concat(images, " images need ", byte_count(images), " bytes, there are ", bits.size()));
  if (images % 8 != 0 && std::uint8_t(bits.back()) >> (images % 8) != 0)
    reject(path, all.size() - 1, "bits after the last image are set");
  Correctness result;
  result.images_ = images;
  result.data_hash_ = hash;
  result.bits_.assign(bits.begin(), bits.end());
  return result;
}

}  // namespace normlab
