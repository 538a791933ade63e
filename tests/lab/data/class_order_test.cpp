#include "experiments/lab/data/class_order.h"

#include "experiments/lab/data/pack.h"
#include "experiments/lab/data/readers.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {
using Names = std::vector<std::string>;
}

TEST_CASE("class order: natural is that of timm 1.0.31's natural_key") {
  // sorted(names, key=natural_key), where the keys differ
  const Names sorted{"",
                     "0",
                     "1",
                     "2",
                     "10",
                     "11",
                     "a",
                     "A1",
                     "a1b",
                     "a2",
                     "a2b3",
                     "a2b11",
                     "A10",
                     "a 1",
                     "ab",
                     "Abyssinian",
                     "american_bulldog",
                     "Bengal",
                     "bengal2",
                     "c9",
                     "c10",
                     "n01440764",
                     "n01443537",
                     "x1",
                     "x007",
                     "x12345678901234567890",
                     "x12345678901234567891",
                     "x-1",
                     "\xc3\xa9"};
  Names reversed(sorted.rbegin(), sorted.rend());
  CHECK(in_natural_order(reversed) == sorted);
  CHECK(in_natural_order({"7", "07", "007"}) == Names{"007", "07", "7"});
}

TEST_CASE("class order: a file numbers the classes") {
  const TempFolder folder;
  write_file(folder / "order.txt", "c\na\nb\n");
  CHECK(in_class_order({"a", "b"}, "order.txt", folder.path()) == Names{"c", "a", "b"});
  CHECK_SAYS(input_error([&] {
               in_class_order({"a", "x"}, "order.txt", folder.path());
             }),
             "order.txt: does not list the class \"x\"");
  for (const char* outside : {"/etc/passwd", "../order.txt", "a/../../order.txt"})
    CHECK_SAYS(input_error([&] { in_class_order({"a"}, outside, folder.path()); }), "is no file below");
  CHECK_SAYS(input_error([&] { in_class_order({"a"}, "none.txt", folder.path()); }),
             "none.txt: no such file; a class order is \"bytes\", \"natural\", or a file");
  CHECK(in_class_order({"b", "10", "2"}, "bytes", folder.path()) == Names{"10", "2", "b"});
  CHECK(in_class_order({"b", "10", "2"}, "natural", folder.path()) == Names{"2", "10", "b"});
  CHECK(in_class_order({"b", "10", "2"}, "", folder.path()) == Names{"b", "10", "2"});
}

TEST_CASE("class order: names that a text file would change survive packing") {
  const TempFolder folder;
  const Names names{"\xef\xbb\xbfx", "\"quoted\"", "\"", "a \"b\" c", "plain"};
  ImageSet images;
  images.height = images.width = 4;
  images.channels = 3;
  images.class_names = names;
  images.num_classes = std::ssize(names);
  images.pixels.resize(48);
  images.labels = {0};
  images.keys = {"k"};
  pack_images(images, "train", folder / "out", {});
  CHECK(read_class_names(folder / "out/classes.txt") == names);
  images.class_names[0] = "two\nlines";
  CHECK_SAYS(input_error([&] { pack_images(images, "train", folder / "other", {}); }),
             "class \"two\\nlines\": a class name in classes.txt cannot have a line break");
}
