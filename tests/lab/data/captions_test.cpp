// Captions of images: in shards beside the images, and of generated scenes.
#include "experiments/lab/data/dataset.h"
#include "experiments/lab/data/tokeniser.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

struct Folder : TempFolder {
  Folder() {
    std::filesystem::create_directories(*this / "pairs");
    write_file(*this / "pairs/classes.txt", "ant\nbee\n");
    write_file(*this / "pairs/words.txt", "a\nred\nant\nbee\n");
    train(
        {{"1.jpg", make_jpeg(8, 8, 1)}, {"1.txt", "a red ant\n"}, {"2.txt", "A bee."}, {"2.jpg", make_jpeg(8, 8, 2)}});
    eval({{"1.jpg", make_jpeg(8, 8, 3)}, {"1.txt", "a red bee"}, {"1.cls", "1"}});
  }
  void train(const Members& members) const { write_tar(*this / "pairs/train-000000.tar", members); }
  void eval(const Members& members) const { write_tar(*this / "pairs/test-000000.tar", members); }
  DataPair load(const std::string& vocabulary = "") const {
    DatasetConfig c;
    c.name = "pairs";
    c.layout = DatasetLayout::webdataset;
    c.allow_absent_classes = true;
    c.captions = true;
    c.vocabulary = vocabulary;
    return load_dataset(c, path(), 2);
  }
  std::string refused(const std::string& vocabulary = "") const {
    return input_error([&] { load(vocabulary); });
  }
};

}  // namespace

TEST_CASE("captions: of shards, with classes where images are evaluated") {
  const Folder folder;
  const DataPair data = folder.load("words.txt");
  CHECK(data.train.captions == std::vector<std::string>{"a red ant\n", "A bee."});
  CHECK(data.train.labels == std::vector<std::int32_t>{0, 0});
  CHECK(data.eval.labels == std::vector<std::int32_t>{1});
  CHECK(data.train.tokeniser->size() == 5);
  CHECK(folder.load().train.tokeniser->size() == 257);
}

TEST_CASE("captions: their change changes the identity of the data") {
  const Folder folder;
  const std::string before = data_hash(folder.load());
  CHECK(data_hash(folder.load()) == before);
  folder.eval({{"1.jpg", make_jpeg(8, 8, 3)}, {"1.txt", "a red ant"}, {"1.cls", "1"}});
  CHECK(data_hash(folder.load()) != before);
}

TEST_CASE("captions: missing, empty and unknown ones are named") {
  const Folder folder;
  folder.train({{"1.jpg", make_jpeg(8, 8, 1)}, {"1.txt", "a red disc"}});
  CHECK_SAYS(folder.refused("words.txt"), "unknown word \"disc\"");
  CHECK_SAYS(folder.refused("words.txt"), "words.txt: add the word to it");
  CHECK_SAYS(folder.refused("none.txt"), "none.txt");
  folder.train({{"1.jpg", make_jpeg(8, 8, 1)}});
  CHECK_SAYS(folder.refused(), "train-000000.tar: sample \"1\" has no .txt");
  folder.train({{"1.jpg", make_jpeg(8, 8, 1)}, {"1.txt", " \n"}});
  CHECK_SAYS(folder.refused(), "member \"1.txt\": the caption is empty; write a text, or leave the sample out");
  folder.train({{"1.jpg", make_jpeg(8, 8, 1)}, {"1.txt", "a bee"}});
  folder.eval({{"1.jpg", make_jpeg(8, 8, 3)}, {"1.txt", "a red bee"}});
  CHECK_SAYS(folder.refused(), "test-000000.tar: sample \"1\" has no .cls");
}

TEST_CASE("captions: generated scenes have theirs") {
  DatasetConfig c;
  c.label = ShapesLabel::kind;
  c.captions = true;
  c.train_images = 20;
  c.eval_images = 10;
  const DataPair data = load_dataset(c, std::nullopt, 1);
  REQUIRE(data.train.captions.size() == 20);
  for (std::size_t i = 0; i < 20; ++i)
    CHECK(data.train.captions[i].find(data.train.class_names[std::size_t(data.train.labels[i])]) != std::string::npos);
  c.captions = false;
  const DataPair without = load_dataset(c, std::nullopt, 1);
  CHECK(without.train.captions.empty());
  CHECK(without.train.pixels == data.train.pixels);
  CHECK(data_hash(without) != data_hash(data));
}

TEST_CASE("captions: classes of equal names need captions, and no name chooses among them") {
  const Folder folder;
  write_file(folder / "pairs/classes.txt", "crane\ncrane\n");
  CHECK(folder.load().train.class_names == std::vector<std::string>{"crane", "crane"});
  DatasetConfig c;
  c.name = "pairs";
  c.layout = DatasetLayout::webdataset;
  c.allow_absent_classes = true;
  folder.train({{"1.jpg", make_jpeg(8, 8, 1)}, {"1.cls", "0"}});
  CHECK_SAYS(input_error([&] { load_dataset(c, folder.path(), 1); }),
             "the classes of labels 0 and 1 are both named \"crane\"; only with captions may names be equal");
  folder.train({{"1.jpg", make_jpeg(8, 8, 1)}, {"1.cls", "0"}, {"1.txt", "a crane"}});
  c.captions = true;
  c.classes = {"crane"};
  CHECK_SAYS(input_error([&] { load_dataset(c, folder.path(), 1); }), "2 classes have the name \"crane\"");
}

TEST_CASE("captions: a byte-order mark is no part of a caption or a vocabulary") {
  const Folder folder;
  const std::string before = data_hash(folder.load());
  folder.eval({{"1.jpg", make_jpeg(8, 8, 3)},
               {"1.txt",
                "\xef\xbb\xbf"
                "a red bee"},
               {"1.cls", "1"}});
  write_file(folder / "pairs/words.txt",
             "\xef\xbb\xbf"
             "a\r\nred\r\n\"ant\"\r\nbee\r\n");
  CHECK(folder.load("words.txt").eval.captions == std::vector<std::string>{"a red bee"});
  CHECK(data_hash(folder.load()) == before);
}
