// Names that the compiler knows, as words.
#include "core/words.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/field.h"

using namespace normlab;

namespace {
enum class Fruit : std::uint8_t { apple, red_pear, kiwi2 };
struct Bowl {
  int of_apples = 0;
  Fruit first = Fruit::apple;
};
}  // namespace

TEST_CASE("words: the words of an enum are the names of its enumerators") {
  CHECK(std::vector<std::string_view>(kWords<Fruit>.begin(), kWords<Fruit>.end()) ==
        std::vector<std::string_view>{"apple", "red_pear", "kiwi2"});
  CHECK(word_of(Fruit::red_pear) == "red_pear");
}

TEST_CASE("words: the word of a member is its name") { CHECK(name_of<&Bowl::of_apples>() == "of_apples"); }

TEST_CASE("words: the word of an enumerator gives its value") {
  Fruit fruit = Fruit::red_pear;
  CHECK(find_word("kiwi2", fruit));
  CHECK(fruit == Fruit::kiwi2);
}

TEST_CASE("words: a word that no enumerator has changes nothing") {
  Fruit fruit = Fruit::red_pear;
  CHECK_FALSE(find_word("pear", fruit));
  CHECK_FALSE(find_word("", fruit));
  CHECK(fruit == Fruit::red_pear);
}

TEST_CASE("field: the key is the member's name") { CHECK(field<&Bowl::first>("which").key == "first"); }

TEST_CASE("field: the first condition that does not hold is the reason") {
  const auto row = field<&Bowl::first>("which")
                       .when({[](const Bowl& b) { return b.of_apples > 0; }, "no apples"})
                       .when({[](const Bowl& b) { return b.of_apples > 1; }, "one apple"});
  CHECK(row.unmet({0})->otherwise == "no apples");
  CHECK(row.unmet({1})->otherwise == "one apple");
  CHECK(row.unmet({2}) == nullptr);
}
