#include "experiments/lab/data/readers.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

struct Folder : TempFolder {
  Folder() {
    for (unsigned i = 1; i <= 3; ++i) write_file(*this / concat("ILSVRC_", i, ".JPEG"), make_jpeg(8, 8, i));
  }
  ImageSet read(const std::string& labels, const std::string& slice = "train",
                const std::vector<std::string>& classes = {}) const {
    write_file(*this / "labels.txt", labels);
    SliceRequest request = request_for(slice);
    request.class_names = classes;
    return read_image_list(path(), "labels.txt", request);
  }
  std::string said(const std::string& labels, const std::vector<std::string>& classes = {}) const {
    return input_error([&] { read(labels, "train", classes); });
  }
};

const char* const kNamed = "ILSVRC_2.JPEG dog\nILSVRC_1.JPEG\tcat\r\n\nILSVRC_3.JPEG   dog\n";

using Labels = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("image_list: lines name images and classes") {
  const Folder folder;
  const ImageSet images = folder.read(kNamed);
  CHECK(images.class_names == std::vector<std::string>{"cat", "dog"});
  CHECK(images.labels == Labels{0, 1, 1});
  CHECK(images.keys[0] == "ILSVRC_1.JPEG");
}

TEST_CASE("image_list: a comma may separate image and label, below names of the columns") {
  const Folder folder;
  for (const char* header : {"", "file,label\n"}) {
    const ImageSet images = folder.read(std::string(header) + "ILSVRC_2.JPEG,maltese dog\nILSVRC_1.JPEG, cat\r\n" +
                                        "ILSVRC_3.JPEG,maltese dog\n");
    CHECK(images.class_names == std::vector<std::string>{"cat", "maltese dog"});
    CHECK(images.labels == Labels{0, 1, 1});
  }
}

TEST_CASE("image_list: lines that hold more than a label are not classes") {
  const Folder folder;
  const char* const form = " is no label alone; write image and label as \"a.png 3\" or \"a.png,3\"";
  for (const char* line : {"ILSVRC_1.JPEG;0", "ILSVRC_1,0", "ILSVRC_1.JPEG", "ILSVRC_1.JPEG,0,cat"})
    CHECK_SAYS(folder.said(concat(line, "\n", line, "\n", line, "\n")), concat("labels.txt:1: \"", line, "\"", form));
  CHECK(folder.read("cat,small\ndog\ndog\n").class_names == std::vector<std::string>{"cat,small", "dog"});
}

TEST_CASE("image_list: labels are places in the classes of training") {
  const Folder folder;
  CHECK(folder.read(kNamed, "train", {"ant", "cat", "dog"}).labels == Labels{1, 2, 2});
}

TEST_CASE("image_list: lines name images and numbers of classes") {
  const Folder folder;
  CHECK(folder.read("ILSVRC_2.JPEG 0\nILSVRC_1.JPEG 2\nILSVRC_3.JPEG 1\n").labels == Labels{2, 0, 1});
}

TEST_CASE("image_list: lines of labels alone follow the order of the images") {
  const Folder folder;
  const ImageSet images = folder.read("0\n0\n2\n");
  CHECK(images.labels == Labels{0, 0, 2});
  CHECK(images.class_names == std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE("image_list: numbers are lines of classes.txt") {
  const Folder folder;
  write_file(folder / "classes.txt", "dog\ncat\nant\n");
  CHECK(folder.read("0\n1\n2\n", "train", {"ant", "cat", "dog"}).labels == Labels{2, 1, 0});
}

TEST_CASE("image_list: numbers from 1 to the number of classes count from 1") {
  const Folder folder;
  const ImageSet images = folder.read("3\n1\n2\n", "train", {"a", "b", "c"});
  CHECK(images.labels == Labels{2, 0, 1});
  CHECK_SAYS(images.provenance, "labels count from 1");
  CHECK_SAYS(folder.said("2\n1\n2\n", {"a", "b", "c"}), "labels count from 1: class \"b\"");
}

TEST_CASE("image_list: numbers without names count from 1 if none is 0") {
  const Folder folder;
  const ImageSet images = folder.read("2\n1\n2\n");
  CHECK(images.class_names == std::vector<std::string>{"1", "2"});
  CHECK(images.labels == Labels{1, 0, 1});
  CHECK_SAYS(images.provenance, "labels count from 1");
}

TEST_CASE("image_list: a number of no class is refused") {
  const Folder folder;
  CHECK_SAYS(folder.said("3\n0\n1\n", {"a", "b", "c"}),
             "labels.txt:1: label \"3\" is neither a class name nor a number from 0 to 2");
}

TEST_CASE("image_list: one file may label the images of several splits") {
  const TempFolder folder;
  write_file(folder / "train/1.jpg", make_jpeg(8, 8, 1));
  write_file(folder / "val/1.jpg", make_jpeg(8, 8, 2));
  write_file(folder / "l.txt", "train/1.jpg cat\nval/1.jpg dog\n");
  SliceRequest request = request_for("val");
  request.class_names = {"cat", "dog"};
  const ImageSet images = read_image_list(folder.path(), "l.txt", request);
  CHECK(images.labels == Labels{1});
  CHECK(images.keys == std::vector<std::string>{"1.jpg"});
}

TEST_CASE("image_list: a split without a folder is refused") {
  const TempFolder folder;
  write_file(folder / "train/1.jpg", make_jpeg(8, 8, 1));
  write_file(folder / "val/1.jpg", make_jpeg(8, 8, 2));
  write_file(folder / "l.txt", "train/1.jpg cat\nval/1.jpg dog\n");
  SliceRequest request = request_for("test");
  request.class_names = {"cat", "dog"};
  CHECK_SAYS(input_error([&] { read_image_list(folder.path(), "l.txt", request); }), "has no folder \"test\"");
}

TEST_CASE("image_list: wrong lines are refused by their number or image") {
  const Folder folder;
  CHECK_SAYS(folder.said(""), "labels.txt: holds no labels");
  CHECK_SAYS(folder.said("1\n2\n"), "labels.txt:2: 2 labels for the 3 images");
  CHECK_SAYS(folder.said("ILSVRC_1.JPEG cat\ncat\n"), "labels.txt:2: some lines name a file and others do not");
  CHECK_SAYS(folder.said("ILSVRC_1.JPEG cat\nILSVRC_2.JPEG dog\n"),
             "ILSVRC_3.JPEG: the file of labels has no line for this image");
  CHECK_SAYS(folder.said(std::string(kNamed) + "ILSVRC_1.JPEG dog\n"),
             "labels.txt:5: \"ILSVRC_1.JPEG\" already has a label, in line 2");
  CHECK_SAYS(folder.said(std::string(kNamed) + "../x.jpg dog\n"), "\"../x.jpg\" is outside the folder");
  CHECK_SAYS(folder.said(std::string(kNamed) + "/x.jpg dog\n"), "\"/x.jpg\" is outside the folder");
  CHECK_SAYS(folder.said(std::string(kNamed) + "gone.jpg dog\n"), "gone.jpg: No such file");
  CHECK_SAYS(folder.said(kNamed, {"cat"}), "labels.txt:1: label \"dog\" is neither");
  CHECK_SAYS(folder.said("0\n1\n999999999\n"), "label 999999999 is too large without names; list the classes");
}

TEST_CASE("image_list: a missing file of labels is an error") {
  const Folder folder;
  CHECK_SAYS(input_error([&] { read_image_list(folder.path(), "", request_for("train")); }), "dataset.labels");
  CHECK_SAYS(input_error([&] { read_image_list(folder.path(), "no.txt", request_for("train")); }),
             "no.txt: cannot be read");
}

TEST_CASE("image_list: a missing image is a bad image") {
  const Folder folder;
  SliceRequest skip = request_for("train");
  skip.skip_bad = true;
  write_file(folder / "labels.txt", std::string(kNamed) + "gone.jpg dog\n");
  const ImageSet images = read_image_list(folder.path(), "labels.txt", skip);
  CHECK(images.size() == 3);
  REQUIRE(images.bad_images.size() == 1);
  CHECK(images.bad_images[0].key == "gone.jpg");
}

TEST_CASE("image_list: a byte-order mark, quotes and ./ are no part of a line") {
  const Folder folder;
  const std::string mark = "\xef\xbb\xbf";
  for (const std::string& list :
       {mark + "ILSVRC_1.JPEG cat\nILSVRC_2.JPEG dog\nILSVRC_3.JPEG dog\n",
        std::string("./ILSVRC_1.JPEG cat\n.//ILSVRC_2.JPEG\tdog\n./ILSVRC_3.JPEG,dog\n"),
        mark + "\"file\",\"label\"\r\n\"ILSVRC_1.JPEG\",\"cat\"\r\nILSVRC_2.JPEG,\"dog\"\r\n\"ILSVRC_3.JPEG\",dog\r\n",
        std::string("\"ILSVRC_1.JPEG\" cat\n\"ILSVRC_2.JPEG\"\t\"dog\"\n\"./ILSVRC_3.JPEG\" \"dog\"\n"),
        mark + "\"cat\"\n\"dog\"\ndog\n"}) {
    CAPTURE(list);
    const ImageSet images = folder.read(list);
    CHECK(images.class_names == std::vector<std::string>{"cat", "dog"});
    CHECK(images.labels == Labels{0, 1, 1});
    CHECK(images.keys[0] == "ILSVRC_1.JPEG");
  }
  const ImageSet quoted = folder.read(
      "ILSVRC_1.JPEG,\"a \"\"big\"\" cat, old\"\nILSVRC_2.JPEG \"maltese dog\"\n\"ILSVRC_3.JPEG\",maltese dog\n");
  CHECK(quoted.class_names == std::vector<std::string>{"a \"big\" cat, old", "maltese dog"});
  CHECK(quoted.labels == Labels{0, 1, 1});
  CHECK_SAYS(folder.said("\xff\xfe" + std::string("1\0\n\0", 4)), "labels.txt: is UTF-16; save it as UTF-8");
}

TEST_CASE("image_list: names of classes.txt are read as those of the list") {
  const Folder folder;
  write_file(folder / "classes.txt", "\xef\xbb\xbf\"ant\"\r\n\"bee, wild\"\r\n\"say \"\"hi\"\"\"\r\n");
  const ImageSet images = folder.read("ILSVRC_1.JPEG,\"bee, wild\"\nILSVRC_2.JPEG,ant\nILSVRC_3.JPEG,ant\n");
  CHECK(images.class_names == std::vector<std::string>{"ant", "bee, wild", "say \"hi\""});
  CHECK(images.labels == Labels{1, 0, 0});
}

TEST_CASE("image_list: without names a base makes the classes of a part those of the whole") {
  const Folder folder;
  SliceRequest request = request_for("train");
  write_file(folder / "labels.txt", "3\n2\n5\n");
  for (const std::int64_t from : {0, 1}) {
    request.numbers.from = from;
    const ImageSet images = read_image_list(folder.path(), "labels.txt", request);
    CHECK(images.class_names.front() == std::to_string(from));
    CHECK(images.class_names.back() == "5");
    for (const std::size_t i : {0, 1, 2})
      CHECK(images.class_names[std::size_t(images.labels[i])] == std::vector<std::string>{"3", "2", "5"}[i]);
  }
  write_file(folder / "labels.txt", "0\n2\n5\n");
  CHECK_SAYS(input_error([&] { read_image_list(folder.path(), "labels.txt", request); }),
             "labels.txt:1: label \"0\" is neither a class name nor a number from 1 to 5");
}

TEST_CASE("image_list: numbers without names keep their classes in any order") {
  const Folder folder;
  SliceRequest request = request_for("train");
  request.numbers.order = "bytes";
  write_file(folder / "labels.txt", "10\n2\n07\n");
  const ImageSet images = read_image_list(folder.path(), "labels.txt", request);
  CHECK(images.class_names == std::vector<std::string>{"1", "10", "2", "3", "4", "5", "6", "7", "8", "9"});
  CHECK(images.labels == Labels{1, 2, 7});
}

TEST_CASE("image_list: without names a list of words and numbers has both as classes") {
  const Folder folder;
  const ImageSet images = folder.read("cat\n1\n2\n");
  CHECK(images.class_names == std::vector<std::string>{"1", "2", "cat"});
  CHECK(images.labels == Labels{2, 0, 1});
  SliceRequest request = request_for("train");
  request.numbers.from = 1;
  write_file(folder / "labels.txt", "0\n0\n0\n");
  CHECK_SAYS(input_error([&] { read_image_list(folder.path(), "labels.txt", request); }),
             "label \"0\" is neither a class name nor a number from 1 to 1");
}

TEST_CASE("image_list: the lines of another split count for the reading, but may have labels of no class") {
  const TempFolder folder;
  for (const char* split : {"train", "val", "test"}) write_file(folder / split / "1.jpg", make_jpeg(8, 8, 1));
  write_file(folder / "classes.txt", "ant\nbee\ncat\n");
  write_file(folder / "l.txt", "train/1.jpg 3\nval/1.jpg 2\ntest/1.jpg -1\n");
  CHECK(read_image_list(folder.path(), "l.txt", request_for("val")).labels == Labels{1});
  CHECK_SAYS(input_error([&] { read_image_list(folder.path(), "l.txt", request_for("test")); }),
             "l.txt:3: label \"-1\" is neither a class name nor a number");
  write_file(folder / "l.txt", "train/1.jpg 1\nval/1.jpg 2\ntest/1.jpg -1\n");
  CHECK_SAYS(input_error([&] { read_image_list(folder.path(), "l.txt", request_for("val")); }),
             "l.txt:2: label \"2\" of \"1.jpg\" may be of several classes");
}
