#include "experiments/data/slice.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/random.h"

namespace normlab {
namespace {

constexpr const char* kForms = R"(a slice is "train", "train[:800]", "train[800:1000]" or "train[:99%]")";

std::optional<SliceBound> parse_bound(std::string_view text, std::string_view slice) {
  if (text.empty()) return std::nullopt;
  SliceBound bound;
  bound.percent = text.back() == '%';
  if (bound.percent) text.remove_suffix(1);
  const bool digits = !text.empty() && text.size() <= 15 &&
                      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!digits)
    throw InputError(concat("slice \"", slice, "\": a bound is a whole number of images or percent; ", kForms));
  for (const char c : text) bound.value = 10 * bound.value + (c - '0');
  if (bound.percent && bound.value > 100) throw InputError(concat("slice \"", slice, "\": more than 100%"));
  return bound;
}

}  // namespace

Slice parse_slice(std::string_view text) {
  const std::size_t open = text.find('[');
  Slice slice{std::string(text), std::string(text.substr(0, open)), {}, {}};
  const bool named = !slice.split.empty() && std::all_of(slice.split.begin(), slice.split.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
  if (!named) throw InputError(concat("slice \"", text, "\": names no split; ", kForms));
  if (open == std::string_view::npos) return slice;
  const std::size_t colon = text.find(':', open);
  if (colon == std::string_view::npos || text.back() != ']') {
    throw InputError(concat("slice \"", text, "\": what follows the split is not [begin:end]; ", kForms));
  }
  slice.begin = parse_bound(text.substr(open + 1, colon - open - 1), text);
  slice.end = parse_bound(text.substr(colon + 1, text.size() - colon - 2), text);
  return slice;
}

std::vector<std::int64_t> slice_indices(const Slice& slice, std::string_view dataset, std::int64_t samples) {
  const auto position = [&](const std::optional<SliceBound>& bound, std::int64_t absent) {
    if (!bound) return absent;
    return bound->percent ? samples * bound->value / 100 : bound->value;
  };
  const std::int64_t begin = position(slice.begin, 0), end = position(slice.end, samples);
  const std::string where = concat("dataset \"", dataset, "\", slice \"", slice.text, "\": ");
  if (end > samples) throw InputError(concat(where, "ends at ", end, ", but the split has ", samples, " images"));
  if (begin >= end) throw InputError(concat(where, "is empty: from ", begin, " to ", end, " of ", samples, " images"));
  std::vector<std::int64_t> order = permutation(stream_key(0, "slice", dataset), samples, 0);
  std::vector<std::int64_t> chosen(order.begin() + begin, order.begin() + end);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace normlab
