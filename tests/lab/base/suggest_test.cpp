#include "experiments/lab/base/suggest.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("suggest: a distance counts edits and swaps without regard to case") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ab", "ba") == 1);
  CHECK(edit_distance("Adamw", "adamW") == 0);
}

TEST_CASE("suggest: the nearest word is found") {
  CHECK(nearest("subln", {"pre_pre", "sub_ln", "dpn"}) == "sub_ln");
  CHECK(nearest("warmup_step", {"warmup_epochs", "warmup_steps"}) == "warmup_steps");
}

TEST_CASE("suggest: no word is found far away") {
  CHECK(nearest("xyz", {"pre_pre", "sub_ln"}) == "");
  CHECK(nearest(std::string(100'000, 'a'), {"pre_pre"}) == "");
  CHECK(nearest("patch", {"kind", "patch_size"}) == "patch_size");
  CHECK(nearest("Warmup", {"warmup_epochs", "epochs"}) == "warmup_epochs");
  CHECK(nearest("head", {"head_dim", "head_count"}) == "");
  CHECK(nearest("pat", {"patch_size", "pat_terns"}) == "");
}

TEST_CASE("suggest: an error offers the nearest word or lists all") {
  CHECK(unknown_word("word", "adam", {"adamw", "sgd"}) == "unknown word \"adam\"; did you mean \"adamw\"?");
  CHECK(unknown_word("word", "lamb", {"adamw", "sgd"}) == "unknown word \"lamb\"; one of: adamw, sgd");
  CHECK(unknown_key("epoch", {"epochs"}) == "unknown key; did you mean \"epochs\"?");
}
