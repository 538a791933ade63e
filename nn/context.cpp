#include "nn/context.h"

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
    if (found == masks->end()) throw InputError(concat("mask ", site, " is missing among the given masks"));
    return found->second;
  }
  return draw_mask(tape, shape, rate, {stream_key(drop_seed, "drop", site), part_begin + slice.first_image, state});
}

Var Context::dropout(const Var& x, double rate, const std::string& site) const {
  const Tensor keep = mask(x.shape(), rate, site);
  return keep ? normlab::dropout(x, keep, rate) : x;
}

Var Context::add_drop_path(const Var& x, const Var& branch, double rate, const std::string& site) const {
  const Tensor keep = mask({x.shape()[0]}, rate, site);
  return keep ? dropout_add(branch, keep, rate, x) : add(x, branch);
}

}  // namespace normlab
