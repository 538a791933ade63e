// Any bytes, as an .npz and as an .npy: both readers take them or refuse them with an InputError, and what one has
// taken comes back the same from the writer. Mutations leave the checksums and the directory of a zip right.
#include "experiments/lab/weights/npy.h"

#include "core/error.h"
#include "experiments/lab/weights/npy.h"
#include "tests/fuzz/repair.h"
#include "tests/fuzz/target.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;
using namespace normlab::fuzz;

namespace {

void require_same(const HostTensor& a, const HostTensor& b) {
  require(a.dtype == b.dtype && a.shape == b.shape &&
              std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end()),
          "a tensor has changed on its way through the writer");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const HostTensor tensor = parse_npy("x", "fuzz.npy", bytes, nullptr);
    const std::string written = write_npy_bytes(tensor);
    require_same(tensor, parse_npy("x", "again.npy", std::as_bytes(std::span(written)), nullptr));
  } catch (const InputError&) {
  }
  try {
    const Tensors tensors = parse_npz(bytes, "fuzz.npz");
    const std::string written = write_npz_bytes(tensors.views());
    const Tensors again = parse_npz(std::as_bytes(std::span(written)), "again.npz");
    for (const HostTensor& tensor : tensors) require_same(tensor, again.get(tensor.name));
  } catch (const InputError&) {
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_and_repair(data, size, max_size, seed, repair_zip);
}
