#include "experiments/lab/data/tokeniser.h"

#include <doctest/doctest.h>

#include "experiments/lab/data/scenes.h"
#include "experiments/lab/metrics/zero_shot.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

std::vector<std::int32_t> written(const Tokeniser& tokeniser, std::string_view text, std::size_t length) {
  std::vector<std::int32_t> out(length, -1);
  tokeniser.write(text, out, "here");
  return out;
}

std::string refused(const std::string& words) {
  const TempFolder folder;
  write_file(folder / "words.txt", words);
  return input_error([&] { Tokeniser::from_file(folder / "words.txt"); });
}

}  // namespace

TEST_CASE("plain text: lower case, single spaces, no punctuation but braces") {
  CHECK(plain_text(" A photo of  the_large {}.\n") == "a photo of the large {}");
  CHECK(plain_text("Caf\xc3\xa9, T-shirt!") == "caf\xc3\xa9 tshirt");
  CHECK(plain_text("...").empty());
}

TEST_CASE("class texts: the first of several names, in each template") {
  CHECK(class_texts("Great_White shark, Carcharodon", {"a photo of a {}.", "{}!"}) ==
        std::vector<std::string>{"a photo of a great white shark", "great white shark"});
  CHECK(class_texts("tench, Tinca tinca", {}) == std::vector<std::string>{"tench"});
}

TEST_CASE("tokeniser: words, then end marks") {
  const Tokeniser tokeniser = Tokeniser::of_words({"red", "disc", "a"}, "w.txt");
  CHECK(tokeniser.size() == 4);
  CHECK(written(tokeniser, "A red disc.", 6) == std::vector<std::int32_t>{2, 0, 1, 3, 3, 3});
  CHECK(written(tokeniser, "a red red red disc", 4) == std::vector<std::int32_t>{2, 0, 0, 3});
}

TEST_CASE("tokeniser: bytes, then end marks") {
  const Tokeniser tokeniser = Tokeniser::of_bytes();
  CHECK(tokeniser.size() == 257);
  CHECK(written(tokeniser, "Ab", 4) == std::vector<std::int32_t>{'a', 'b', 256, 256});
  CHECK(written(tokeniser, "\xc3\xa9", 3) == std::vector<std::int32_t>{0xc3, 0xa9, 256});
}

TEST_CASE("tokeniser: an unknown word and an empty text are named") {
  const Tokeniser tokeniser = Tokeniser::of_words({"red", "disc"}, "the words of shapes");
  CHECK(input_error([&] { tokeniser.require("a red disk", "caption of image 3"); }) ==
        "caption of image 3: unknown word \"a\"; one of: disc, red; the vocabulary is the words of shapes: use only "
        "these");
  CHECK(input_error([&] { tokeniser.require("?!", "caption of image 3"); }) ==
        "caption of image 3: the text is empty; write a text, or leave the image out");
}

TEST_CASE("tokeniser: files of words") {
  const TempFolder folder;
  write_file(folder / "words.txt", "red\ndisc\n");
  CHECK(Tokeniser::from_file(folder / "words.txt").size() == 3);
  CHECK_SAYS(input_error([&] { Tokeniser::from_file(folder / "none.txt"); }), "it lists the words of the captions");
  CHECK_SAYS(refused("red\ndisc\nred\n"), "words.txt:3: word \"red\" is listed twice");
  CHECK_SAYS(refused("red\n\ndisc\n"), "words.txt:2: blank line between words");
  CHECK_SAYS(refused(""), "words.txt: lists no words");
  CHECK_SAYS(refused("red\nDisc.\n"),
             "words.txt:2: \"Disc.\" never occurs, because texts are read in lower case and without punctuation; "
             "write \"disc\", or leave it out");
  CHECK_SAYS(refused("two words\n"), "words.txt:1: \"two words\" never occurs");
}

TEST_CASE("scene captions: the largest object with its position, equal ones together") {
  const auto object = [](SceneKind kind, SceneColour colour, int x, int y) {
    return SceneObject{kind, colour, x, y, 20};
  };
  const SceneObject disc = object(SceneKind::disc, SceneColour::red, 10, 10),
                    square = object(SceneKind::square, SceneColour::blue, 128, 128),
                    cross = object(SceneKind::cross, SceneColour::white, 250, 250);
  CHECK(scene_caption({disc}) == "a red disc at the top left");
  CHECK(scene_caption({square}) == "a blue square at the centre");
  CHECK(scene_caption({disc, square, square}) == "a red disc at the top left and two blue squares");
  CHECK(scene_caption({disc, cross, square, cross}) ==
        "a red disc at the top left and two white crosses and a blue square");
  CHECK(scene_caption({disc, disc}) == "a red disc at the top left and a red disc");
}

TEST_CASE("scene captions: every caption and class name has only known words") {
  const Tokeniser tokeniser = Tokeniser::of_words(scene_words(), "shapes");
  for (const ShapesLabel label : {ShapesLabel::kind, ShapesLabel::colour, ShapesLabel::number, ShapesLabel::position}) {
    for (const std::string& name : scene_classes(label)) tokeniser.require(name, "class");
    for (std::int64_t i = 0; i < 300; ++i) {
      std::vector<std::uint8_t> pixels(32 * 32 * 3);
      const std::string caption = scene_caption(draw_scene(1, "train", i, label, pixels.data()));
      tokeniser.require(caption, caption);
      CHECK(std::count(caption.begin(), caption.end(), ' ') < 23);
    }
  }
}
