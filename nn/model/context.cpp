#include "nn/model/context.h"

#include <cstring>

#include "autograd/image_runs.h"
#include "core/backend.h"

namespace normlab {

Var Context::bias(int number) const { return tape.backend().rounds_bias() ? weight(number) : parameter(number); }

Var Context::stacked_bias(std::span<const int> numbers) const {
  if (tape.backend().rounds_bias()) return stacked_weight(numbers);
  return stacked(numbers, parameters.stacked_read(numbers));
}

Tensor Context::mask(const Shape& shape, double rate, const std::string& site) const {
  if (!drops(rate)) return {};
  if (masks) {
    const auto found = masks->find(site);
    if (found == masks->end()) throw InputError(concat("mask ", site, " is not among the given masks"));
    return kept ? of_kept(found->second, shape) : found->second;
  }
  return draw_mask(tape, shape, rate, {stream_key(drop_seed, "drop", site), part_begin + slice.first_image, state},
                   kept);
}

Tensor Context::of_kept(const Tensor& mask, const Shape& shape) const {
  const Tensor of_some = tape.empty(shape, DType::u8),
               some = of_some.reshape({slice.images, shape.size() / slice.images}),
               all = mask.reshape({kept.size(), mask.size() / kept.size()});
  for_image_runs(kept, [&](const ImageRun& run) {
    const Tensor from = all.slice(run.first, run.count);
    if (run.kept) std::memcpy(some.slice(run.at, run.count).raw(), from.raw(), from.bytes());
  });
  return of_some;
}

Var Context::dropout(const Var& x, double rate, const std::string& site) const {
  const Tensor keep = mask(x.shape(), rate, site);
  return keep ? normlab::dropout(x, keep, rate) : x;
}

}  // namespace normlab
