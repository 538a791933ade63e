// Words that enums and rows state.
#include "core/words.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/field.h"

using namespace normlab;

namespace {
enum class Fruit : std::uint8_t { apple, red_pear, kiwi2, unripe };
constexpr auto stated_words(Fruit) { return words<Fruit, 1>("apple", "pear", "kiwi2"); }
struct Bowl {
  int of_apples = 0;
  Fruit first = Fruit::apple;
  bool full = false;
};
template <std::same_as<Bowl> T>
constexpr auto rows_of(const T*) {
  return Fields{field("apples", &T::of_apples), field("first", &T::first)} + Fields{field("full", &T::full)};
}
}  // namespace

TEST_CASE("words: the words of an enum are those that it states") {
  CHECK(std::vector<std::string_view>(kWords<Fruit>.begin(), kWords<Fruit>.end()) ==
        std::vector<std::string_view>{"apple", "pear", "kiwi2"});
  CHECK(word_of(Fruit::red_pear) == "pear");
}

TEST_CASE("words: enumerators are counted, with those that have no word") {
  static_assert(is_enumerator<Fruit::unripe>() && !is_enumerator<Fruit(4)>());
  CHECK(kWordCount<Fruit> == 3);
}

TEST_CASE("words: the word of an enumerator gives its value") {
  Fruit fruit = Fruit::red_pear;
  CHECK(find_word("kiwi2", fruit));
  CHECK(fruit == Fruit::kiwi2);
}

TEST_CASE("words: a word that no enumerator has changes nothing") {
  Fruit fruit = Fruit::red_pear;
  CHECK_FALSE(find_word("red_pear", fruit));
  CHECK_FALSE(find_word("", fruit));
  CHECK(fruit == Fruit::red_pear);
}

TEST_CASE("field: rows that are added keep their order") {
  CHECK(std::vector<std::string_view>(kKeysOf<Bowl>.begin(), kKeysOf<Bowl>.end()) ==
        std::vector<std::string_view>{"apples", "first", "full"});
}

TEST_CASE("field: the key is the one that the row states") {
  CHECK(field("main", &Bowl::first, "which").key == "main");
}

TEST_CASE("field: the first condition that does not hold is the reason") {
  const auto row = field("first", &Bowl::first, "which")
                       .when({[](const Bowl& b) { return b.of_apples > 0; }, "no apples"})
                       .when({[](const Bowl& b) { return b.of_apples > 1; }, "one apple"});
  CHECK(row.unmet({0})->otherwise == "no apples");
  CHECK(row.unmet({1})->otherwise == "one apple");
  CHECK(row.unmet({2}) == nullptr);
}
