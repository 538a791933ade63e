#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

Var patchify(const Var& images, std::int64_t patch_height, std::int64_t patch_width) {
  const Shape& s = images.shape();
  if (s.rank() != 4)
    throw InputError(concat("patchify: images is ", s.str(), ", expected [batch, height, width, channels]"));
  if (patch_height < 1 || patch_width < 1 || s[1] % patch_height || s[2] % patch_width)
    throw InputError(
        concat("patchify: a patch of ", patch_height, "x", patch_width, " does not divide images ", s.str()));
  const PatchDims dims{.batch = s[0],
                       .height = s[1],
                       .width = s[2],
                       .channels = s[3],
                       .patch_height = patch_height,
                       .patch_width = patch_width};
  Tape& tape = images.tape();
  Tensor y = tape.empty({s[0], s[1] / patch_height * (s[2] / patch_width), patch_height * patch_width * s[3]},
                        images.value().dtype());
  tape.backend().gather(dims, images.value(), {y});
  return tape.record("patchify", {images}, y,
                     [=](Backend& backend, const Tensor& dy, Grads& d) { backend.scatter(dims, dy, d[0]); });
}

}  // namespace normlab
