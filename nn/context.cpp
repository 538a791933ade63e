#include "nn/context.h"

namespace normlab {

Tensor Context::mask(const Shape& shape, double rate, const std::string& site) const {
  if (!training || rate <= 0.0) return {};
  if (masks) {
    const auto found = masks->find(site);
    if (found == masks->end()) throw InputError(concat("mask ", site, " is missing among the given masks"));
    return found->second;
  }
  return draw_mask(tape, shape, rate, {stream_key(drop_seed, "drop", site), slice.first_image, state});
}

Var Context::dropout(const Var& x, double rate, const std::string& site) const {
  const Tensor keep = mask(x.shape(), rate, site);
  return keep ? normlab::dropout(x, keep, rate) : x;
}

Var Context::drop_path(const Var& x, double rate, const std::string& site) const {
  const Tensor keep = mask({x.shape()[0]}, rate, site);
  return keep ? normlab::drop_path(x, keep, rate) : x;
}

}  // namespace normlab
