// Any text as the files that say what images show: classes.txt, the labels of an image_list by name and in order, and
// the annotations and wnids of tiny-imagenet. What is taken has labels that are classes.
#include "core/error.h"
#include "experiments/lab/data/png.h"
#include "experiments/lab/data/readers.h"
#include "experiments/lab/data/text_lines.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

namespace {

void add_image(const Folder& folder, const std::string& name) {
  Image image;
  image.resize(1, 1);
  const std::vector<std::uint8_t> bytes = png_bytes(image);
  folder.write(name, text_of(bytes.data(), bytes.size()));
}

/// Images that lie flat, in train/ and in val/.
struct Lists : Folder {
  Lists() {
    for (const char* name : {"train/a.png", "train/b c.png", "val/a.png", "val/d.png"}) add_image(*this, name);
  }
};

struct TinyImagenet : Folder {
  TinyImagenet() {
    for (const char* name :
         {"train/n01/images/a.png", "train/n02/images/b.png", "val/images/c.png", "val/images/d.png"})
      add_image(*this, name);
  }
};

template <class Read>
void read(const char* split, const Read& reader) {
  SliceRequest request;
  request.slice = parse_slice(split);
  request.dataset = "fuzz";
  request.keep_encoded = true;
  try {
    const ImageSet images = reader(request);
    require(images.size() > 0, "no images");
    for (const std::int32_t label : images.labels)
      require(label >= 0 && label < images.num_classes, "a label beyond the classes");
  } catch (const InputError& error) {
    require(error.what()[0] != '\0', "an error without words");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Lists lists;
  static const TinyImagenet tiny;
  const std::string_view text = text_of(data, size);
  lists.write("labels.txt", text);
  for (const bool classes : {false, true}) {
    std::filesystem::remove(lists / "classes.txt");
    if (classes) lists.write("classes.txt", "ant\nbee\ncat\n");
    read("train", [&](const SliceRequest& request) { return read_image_list(lists.path(), "labels.txt", request); });
    for (const std::optional<std::int64_t> from : {std::optional<std::int64_t>(), {0}, {1}})
      for (const char* order : {"", "natural"})
        read("val", [&](SliceRequest request) {
          request.class_names = {"cat", "bee", "1", "0"};
          request.numbers = {from, order};
          return read_image_list(lists.path(), "labels.txt", request);
        });
  }
  try {
    const std::vector<std::string> names = read_class_names(lists.write("classes.txt", text));
    require(!names.empty() && std::find(names.begin(), names.end(), "") == names.end(), "a class without a name");
    std::string again;
    for (const std::string& name : names) again += quoted_if_needed(name) + "\n";
    const bool whole = again.find('\r') == again.npos;  // a name's last one is taken for the line's
    require(!whole || read_class_names(lists.write("classes.txt", again)) == names, "names that change when written");
  } catch (const InputError&) {
  }
  tiny.write("wnids.txt", "n02\nn01\n");
  tiny.write("val/val_annotations.txt", text);
  read("val", [&](const SliceRequest& request) { return read_tiny_imagenet(tiny.path(), request); });
  tiny.write("wnids.txt", text);
  read("train", [&](const SliceRequest& request) { return read_tiny_imagenet(tiny.path(), request); });
  return 0;
}
