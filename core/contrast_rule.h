// The contrastive losses of LiT (Zhai et al. 2021, "LiT: Zero-Shot Transfer with Locked-image text Tuning", section 3)
// and SigLIP (Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training", section 3): the same arithmetic on
// every device.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "core/kernels.h"

namespace normlab {

/// -log sigmoid(z), without overflow.
template <class A>
NORMLAB_HOST_DEVICE A minus_log_sigmoid(A z) {
  return std::log1p(std::exp(-std::abs(z))) + (z < 0 ? -z : A(0));
}

/// A is float or double.
template <class A>
struct ContrastRule {
  bool sigmoid;
  const A *t, *b;         // exp(t) is the inverse temperature
  const A* statistics{};  // [batch, 4], as in Kernels::contrast()
  const A* up{};          // gradients of the losses [batch]

  NORMLAB_HOST_DEVICE A scale() const { return std::exp(*t); }
  NORMLAB_HOST_DEVICE A logit(A cosine) const { return scale() * cosine + (sigmoid ? *b : A(0)); }
  /// Of one pair from the two softmaxes that it is in: half of either cross-entropy.
  static NORMLAB_HOST_DEVICE A softmax_loss(A z, const A* of_pair) {
    return A(0.5) * (std::log(of_pair[1]) - (z - of_pair[0]) + std::log(of_pair[3]) - (z - of_pair[2]));
  }
  /// The gradient of all losses to the logit `z` of image i and text j.
  NORMLAB_HOST_DEVICE A gradient(std::int64_t i, std::int64_t j, A z) const {
    const A pair = i == j ? A(1) : A(0);
    if (sigmoid) {
      const A e = std::exp(-std::abs(z));
      return up[i] * ((z < 0 ? e : A(1)) / (1 + e) - pair);
    }
    const A *of_image = statistics + 4 * i, *of_text = statistics + 4 * j + 2;
    return A(0.5) * (up[i] * (std::exp(z - of_image[0]) / of_image[1] - pair) +
                     up[j] * (std::exp(z - of_text[0]) / of_text[1] - pair));
  }
};

/// `statistics` and `up` may be empty.
template <class A>
ContrastRule<A> contrast_rule(const ContrastDims& d, const Contrast& cosines, const Tensor& statistics,
                              const Tensor& up) {
  return {d.sigmoid, cosines.t.data<A>(), cosines.b.data<A>(), statistics.data<A>(), up.data<A>()};
}

}  // namespace normlab
