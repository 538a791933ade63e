#include "experiments/lab/data/equal_images.h"

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/data/picked_images.h"

namespace normlab {
namespace {

class Finder {
 public:
  void add(const MeasuredSlice& slice, std::size_t i) {
    if (!slice.digests[i].empty()) first_.try_emplace(slice.digests[i], Place{&slice, i});
  }
  void look_up(const MeasuredSlice& slice, std::size_t i) {
    const auto found = first_.find(slice.digests[i]);
    if (slice.digests[i].empty() || found == first_.end()) return;
    const auto& [other, at] = found->second;
    ++equal_.images;
    const bool contradicts = slice.labels[i] != other->labels[at];
    equal_.other_labels += contradicts;
    std::vector<std::string>& names = contradicts ? contradicting_ : agreeing_;
    if (names.size() < kShown)
      names.push_back(concat(shown(slice.prefix + slice.keys[i]), " is ", shown(other->prefix + other->keys[at])));
  }
  EqualImages take() {
    equal_.shown = std::move(contradicting_);
    for (std::string& name : agreeing_)
      if (equal_.shown.size() < kShown) equal_.shown.push_back(std::move(name));
    return std::move(equal_);
  }

 private:
  static constexpr std::size_t kShown = 3;
  struct Place {
    const MeasuredSlice* slice;
    std::size_t at;
  };
  std::unordered_map<std::string, Place> first_;
  EqualImages equal_;
  std::vector<std::string> contradicting_, agreeing_;
};

std::string words(const EqualImages& equal, const std::string& before, const std::string& after) {
  const std::string labels =
      equal.other_labels > 0 ? concat(", ", equal.other_labels, " of them with another label") : "";
  return concat(equal.images, before, after, labels, ": ", joined(equal.shown, "; "),
                equal.images > std::ssize(equal.shown) ? "; ..." : "");
}

}  // namespace

MeasuredSlice measured_slice(const std::string& name, const ImageSet& images, const ImageMeasures& measures) {
  const std::vector<Slice> parts = parse_slices(name);
  MeasuredSlice out{name,
                    images.shards.empty() && parts.size() == 1 ? key_prefix(parts.front().split) : "",
                    images.labels,
                    {},
                    measures.digests};
  for (std::int64_t i = 0; i < images.size(); ++i) out.keys.push_back(images.key(i));
  return out;
}

EqualImages equal_images(const MeasuredSlice& a, const MeasuredSlice& b) {
  Finder finder;
  for (std::size_t i = 0; i < a.digests.size(); ++i) finder.add(a, i);
  for (std::size_t i = 0; i < b.digests.size(); ++i) finder.look_up(b, i);
  return finder.take();
}

EqualImages equal_images(const MeasuredSlice& slice) {
  Finder finder;
  for (std::size_t i = 0; i < slice.digests.size(); ++i) {
    finder.look_up(slice, i);
    finder.add(slice, i);
  }
  return finder.take();
}

std::vector<std::string> words_on_equal_images(const std::vector<MeasuredSlice>& slices) {
  std::vector<std::string> out;
  for (std::size_t b = 0; b < slices.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (const EqualImages equal = equal_images(slices[a], slices[b]); equal.images > 0)
        out.push_back(words(equal, concat(" images of ", slices[b].name), concat(" are also in ", slices[a].name)));
  for (const MeasuredSlice& slice : slices)
    if (const EqualImages equal = equal_images(slice); equal.images > 0)
      out.push_back(words(equal, concat(" images of ", slice.name), " repeat another one of it"));
  return out;
}

}  // namespace normlab
