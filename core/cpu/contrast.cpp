// The gradients of the contrastive losses.
#include "core/contrast_rule.h"
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
void CpuBackend::contrast_backward(ContrastDims d, const Contrast& cosines, Tensor statistics, Tensor dlosses, Tensor,
                                   Gradient dt, Gradient db) {
  for_param_type("contrast", dlosses.dtype(), [&]<class A>(Type<A>) {
    const ContrastRule<A> rule = contrast_rule<A>(d, cosines, statistics, dlosses);
    const A scale = rule.scale();
    double of_t = 0, of_b = 0;
    for (std::int64_t i = 0; i < d.images; ++i) {
      A *row = cosines.rows.data<A>() + i * d.batch, *col = cosines.cols.data<A>() + i * d.batch;
      const std::int64_t pair = d.first + i;
      for (std::int64_t j = 0; j < d.batch; ++j) {
        const A g = rule.gradient(pair, j, rule.logit(row[j]));
        of_t += double(g * scale * row[j]);
        of_b += double(g);
        row[j] = g * scale;
        col[j] = rule.gradient(j, pair, rule.logit(col[j])) * scale;
      }
    }
    if (dt) put(*dt.to.data<A>(), A(of_t), adds(dt));
    if (db) put(*db.to.data<A>(), d.sigmoid ? A(of_b) : A(0), adds(db));
  });
}

}  // namespace normlab
