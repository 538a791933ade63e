// What goes from one residual branch to the next.
#pragma once

#include "autograd/ops.h"

namespace normlab {

/// [B, N, D]: a value, or a residual sum that is not made yet, so that a norm which comes next makes it on its way.
class Stream {
 public:
  Stream(const Var& value) : sum_{.residual = value, .branch = {}} {}
  explicit Stream(const ResidualSum& sum) : sum_(sum) {}
  bool made() const { return !sum_.branch; }
  /// The value, made now where it was not.
  const Var& value() {
    if (!made()) *this = add(sum_);
    return sum_.residual;
  }
  /// norm(Var), or norm(ResidualSum) of one that is not made yet; it is then.
  template <class F>
  Var normed(F&& norm) {
    if (made()) return norm(value());
    const NormOfSum both = norm(sum_);
    *this = both.sum;
    return both.y;
  }

 private:
  ResidualSum sum_;
};

}  // namespace normlab
