// Models in several files.
#include <doctest/doctest.h>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "tests/lab/base/save_safetensors.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/base/tensor_values.h"

using namespace normlab;

namespace {

const char* const kFirst = "m-00001-of-00002.safetensors";
const char* const kSecond = "m-00002-of-00002.safetensors";

/// Two files with 8 and 4 bytes of tensors, and any index.
struct Model {
  TemporaryFolder folder;
  Model() {
    const std::vector<float> a{1, 2}, b{3};
    save_safetensors(folder / kFirst, {}, {{"a", "F32", {2}, std::as_bytes(std::span(a))}});
    save_safetensors(folder / kSecond, {{"by", "b"}}, {{"b", "F32", {1}, std::as_bytes(std::span(b))}});
  }
  std::filesystem::path index() const { return folder / "m.safetensors.index.json"; }
  SafetensorsFile read(const std::string& text) const {
    write_atomically(index(), text);
    return SafetensorsFile::read(index());
  }
  /// The error without the folder's name; "" without an error.
  std::string refusal(const std::string& text) const {
    try {
      read(text);
      return "";
    } catch (const InputError& error) {
      std::string what = error.what();
      const std::string prefix = folder.path().string() + "/";
      for (auto at = what.find(prefix); at != what.npos; at = what.find(prefix)) what.erase(at, prefix.size());
      return what;
    }
  }
};

std::string index_of(const std::string& first, const std::string& second, const std::string& total = "12") {
  return R"({"metadata": {"total_size": )" + total + R"(}, "weight_map": {"a": ")" + first + R"(", "b": ")" + second +
         "\"}}";
}

}  // namespace

TEST_CASE("safetensors index: the tensors of all files are read") {
  const Model model;
  const SafetensorsFile file = model.read(index_of(kFirst, kSecond));
  REQUIRE(file.tensors().size() == 2);
  CHECK(values_of<float>(file.get("a")) == std::vector<float>{1, 2});
  CHECK(values_of<float>(file.get("b")) == std::vector<float>{3});
}

TEST_CASE("safetensors index: the metadata of all files are joined") {
  const Model model;
  const SafetensorsFile file = model.read(index_of(kFirst, kSecond));
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"by", "b"}});
}

TEST_CASE("safetensors index: an index without a total size is read") {
  const Model model;
  CHECK(model.refusal(std::string(R"({"weight_map": {"a": ")") + kFirst + "\"}}") == "");
  CHECK(model.refusal(R"({"metadata": {"more": 1}, "weight_map": {"a": "m-00001-of-00002.safetensors"}})") == "");
}

TEST_CASE("safetensors index: no name leads out of its folder") {
  const Model model;
  for (const std::string name : {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ".", "",
                                 "a\\\\b.safetensors", "a..safetensors", "a\\u0000.safetensors"}) {
    const std::string message = model.refusal(index_of(name, kSecond));
    CHECK_MESSAGE(message.find("is not the plain name of a file in the same folder") != message.npos, name, ": ",
                  message);
  }
}

TEST_CASE("safetensors index: an index that does not fit its files is refused") {
  const Model model;
  const std::string index = "m.safetensors.index.json: ";
  CHECK(model.refusal(index_of(kSecond, kFirst)) ==
        std::string(kFirst) + ": \"a\": " + index.substr(0, index.size() - 2) + " does not place this tensor here");
  CHECK(model.refusal(index_of(kFirst, kFirst)) ==
        std::string(kFirst) + ": there is no tensor \"b\", which m.safetensors.index.json places here");
  CHECK(model.refusal(index_of(kFirst, kSecond, "13")) ==
        index + "metadata: \"total_size\": is 13, the tensors have 12 bytes; the files do not match the index");
  CHECK(model.refusal(index_of(kFirst, kSecond, "12.0")) ==
        index + "metadata: \"total_size\": expected a non-negative integer, found 12.0");
  CHECK(model.refusal("{}") == index + "\"weight_map\": this key is missing");
  CHECK(model.refusal(R"({"weight_map": {}})") == index + "\"weight_map\": names no tensor");
  CHECK(model.refusal(R"({"weight_map": {"a": 1}})") ==
        index + "\"weight_map\": \"a\": expected a string, found number");
  CHECK(model.refusal(R"({"weight_map": {"a": "x", "a": "x"}})") == index + "duplicate key \"a\"");
  CHECK(model.refusal(R"({"weight_map": {"a": "x"}, "more": 1})") == index + "\"more\": unknown key");
  CHECK(model.refusal("[1").find(index + "byte 2: not valid JSON") == 0);
}

TEST_CASE("safetensors index: a missing file is an error") {
  const Model model;
  CHECK_THROWS_WITH_AS(model.read(index_of(kFirst, "none.safetensors")),
                       doctest::Contains("none.safetensors: cannot be read: No such file or directory"), InputError);
}

TEST_CASE("safetensors index: files of different formats are refused") {
  const Model model;
  const std::vector<float> b{3};
  save_safetensors(model.folder / kSecond, {{"format", "np"}}, {{"b", "F32", {1}, std::as_bytes(std::span(b))}});
  CHECK(model.refusal(index_of(kFirst, kSecond)) ==
        std::string(kSecond) + ": its metadata has another \"format\" than the files before it");
}

TEST_CASE("safetensors index: a damaged file is named") {
  const Model model;
  std::filesystem::resize_file(model.folder / kSecond, 20);
  CHECK(model.refusal(index_of(kFirst, kSecond)).find(std::string(kSecond) + ": byte 0: the header should have") == 0);
}
