#include "nn/model/step.h"

#include <cstring>

#include "autograd/image_runs.h"
#include "core/backend.h"

namespace normlab {

Var Shard::bias(int first, int count) const {
  return tape.backend().rounds_bias() ? weight(first, count) : parameter(first, count);
}

Tensor Shard::mask(const Shape& shape, double rate, const std::string& site) const {
  if (!step.drops(rate)) return {};
  if (!step.masks)
    return draw_mask(tape, shape, rate, {stream_key(step.drop_seed, "drop", site), first_image(), step.state},
                     image_mask);
  const auto found = step.masks->find(site);
  if (found == step.masks->end()) throw InputError(concat("mask ", site, " is not among the given masks"));
  return given_mask(found->second, shape);
}

Tensor Shard::given_mask(const Tensor& mask, const Shape& shape) const {
  if (!image_mask) return mask.slice(slice.first_image, slice.images);
  const Tensor all = mask.slice(slice.first_image, image_mask.size()), subset = tape.empty(shape, DType::u8);
  const std::int64_t image = shape.size() / slice.images;
  const Tensor from = all.reshape({image_mask.size(), image}), to = subset.reshape({slice.images, image});
  for_image_runs(image_mask, [&](const ImageRun& run) {
    const Tensor images = from.slice(run.first, run.count);
    if (run.kept) std::memcpy(to.slice(run.at, run.count).raw(), images.raw(), images.bytes());
  });
  return subset;
}

Var Shard::dropout(const Var& x, double rate, const std::string& site) const {
  const Tensor drawn = mask(x.shape(), rate, site);
  return drawn ? normlab::dropout(x, drawn, rate) : x;
}

}  // namespace normlab
