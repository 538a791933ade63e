// Which function the probe of norms' mappings fits.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/reader.h"
#include "experiments/lab/train/probes.h"

using namespace normlab;

namespace {

SaturationShape shape_of(const NormSpec& pre) {
  TrialConfig config;
  ViTConfig vit;
  vit.placement.attn.pre = pre;
  config.model = vit;
  return mapping_shape(config);
}

}  // namespace

TEST_CASE("mapping: a norm that applies an erf is fitted with one, whatever its kind") {
  NormSpec pointwise = norm_of(NormKind::pointwise);
  CHECK(shape_of(pointwise) == SaturationShape::tanh);
  pointwise.phi = PointwisePhi::erf;
  CHECK(shape_of(pointwise) == SaturationShape::erf);
  CHECK(shape_of(norm_of(NormKind::derf)) == SaturationShape::erf);
  CHECK(shape_of(norm_of(NormKind::dyt)) == SaturationShape::tanh);
  CHECK(shape_of(read_formula_option("gamma * erf(x / rms(x))", "test")) == SaturationShape::erf);
  CHECK(shape_of(read_formula_option("gamma * tanh(x / rms(x))", "test")) == SaturationShape::tanh);
  NormSpec layer_norm = norm_of(NormKind::layer_norm);
  layer_norm.phi = PointwisePhi::erf;  // no setting of this kind
  CHECK(shape_of(layer_norm) == SaturationShape::tanh);
}
