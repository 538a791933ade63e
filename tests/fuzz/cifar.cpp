// Any bytes as a batch of CIFAR-10 and of CIFAR-100: records with labels that are classes, or an InputError.
#include "core/error.h"
#include "experiments/lab/data/readers.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

namespace {

void read(const Folder& folder, std::size_t record, std::size_t size) {
  SliceRequest request;
  request.slice = parse_slice("test");
  request.dataset = "fuzz";
  try {
    const ImageSet images = read_cifar_binary(folder.path(), request);
    require(images.size() * std::int64_t(record) == std::int64_t(size), "records do not fill the file");
    require(std::int64_t(images.pixels.size()) == images.size() * 32 * 32 * 3, "pixels do not fill the images");
    for (const std::int32_t label : images.labels)
      require(label >= 0 && label < images.num_classes, "a label beyond the classes");
  } catch (const InputError& error) {
    require(error.what()[0] != '\0', "an error without words");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder ten, hundred;
  ten.write("batches.meta.txt", "a\nb\nc\nd\n\n");
  hundred.write("fine_label_names.txt", "a\nb\nc\n");
  ten.write("test_batch.bin", text_of(data, size));
  hundred.write("test.bin", text_of(data, size));
  read(ten, 3073, size);
  read(hundred, 3074, size);
  return 0;
}
