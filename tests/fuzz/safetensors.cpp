// Any bytes as a safetensors file: refused with an InputError, or taken; what was taken lies inside the bytes and comes
// back the same from the writer.
#include "experiments/lab/weights/tensor_map.h"

#include "core/error.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

namespace {

bool same(const TensorView& a, const TensorView& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
         std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end());
}

/// Nothing here may throw: what the reader takes, the writer can write.
void check(const SafetensorsFile& file) {
  const std::string written = write_safetensors_bytes(file.metadata(), file.tensors());
  const SafetensorsFile again = SafetensorsFile::parse(written, "again.safetensors");
  require(again.tensors().size() == file.tensors().size(), "the writer lost or made a tensor");
  for (const TensorView& tensor : file.tensors()) {
    const TensorView* back = again.find(tensor.name);
    require(back != nullptr && same(tensor, *back), "a tensor has changed on its way through the writer");
  }
  for (const HostTensor& tensor : tensors_of(file, "fuzz.safetensors")) try {
      tensor.floats();
    } catch (const InputError&) {  // no plain numbers, and doubles that float cannot hold
    }
  require(write_safetensors_bytes(again.metadata(), again.tensors()) == written, "equal content, other bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  SafetensorsFile file;
  try {
    file = SafetensorsFile::parse(std::string(text_of(data, size)), "fuzz.safetensors");
  } catch (const InputError& error) {
    require(error.what()[0] != '\0', "an error without words");
    return 0;
  }
  check(file);
  return 0;
}
