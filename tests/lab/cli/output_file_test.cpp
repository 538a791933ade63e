// No command writes over what it reads, or into the folder of a trial.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/lab/base/safetensors.h"
#include "tests/lab/cli/trained_files.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

const char* const kRead = "is read by this command";
const char* const kTrial = "is in the folder of a trial";

const Trained& trained() {
  static const Trained once;
  return once;
}

}  // namespace

TEST_CASE("output: weights are not replaced by what is made of them") {
  const Trained& t = trained();
  t.succeeds("convert " + t.checkpoint + " copies.safetensors");
  fs::create_directories(t.folder / "copies");
  fs::rename(t.folder / "copies.safetensors", t.folder / "copies/vit.safetensors");
  const std::string copy = "copies/vit.safetensors";
  t.refuses("convert " + t.checkpoint + " " + t.checkpoint, t.checkpoint, kRead);
  t.refuses("convert " + t.checkpoint + " link.safetensors", "link.safetensors", kRead);
  t.refuses("convert link.safetensors " + t.checkpoint, t.checkpoint, kRead);
  t.refuses("convert " + copy + " copies/../" + copy, "copies/../" + copy, kRead);
  t.refuses("convert " + copy + " " + t.trial + "/attempt-1/new.safetensors", t.trial + "/attempt-1/new.safetensors",
            kTrial);
  t.refuses("eval " + fs::path(t.trial).filename().string() + " --out out --logits " + t.checkpoint, t.checkpoint,
            kRead);
  t.refuses("eval --weights " + copy + " --logits " + copy, copy, kRead);
  t.refuses("eval --weights " + copy + " --logits " + t.trial + "/logits.npy", t.trial + "/logits.npy", kTrial);

  nlohmann::json index{{"weight_map", nlohmann::json::object()}};
  const SafetensorsFile part = SafetensorsFile::read(t.folder / copy);
  for (const TensorView& tensor : part.tensors()) index["weight_map"][tensor.name] = "vit.safetensors";
  std::ofstream(t.folder / "copies/two.safetensors.index.json") << index;
  t.refuses("convert copies/two.safetensors.index.json " + copy + " --from normlab", copy, kRead);
}

TEST_CASE("output: descriptors, archives and results are not replaced by tables, reports and figures") {
  const Trained& t = trained();
  const std::string two = "claims/1-two.json", base = "claims/base.json", archive = "archives/two.jsonl",
                    result = t.trial + "/result.json";
  for (const std::string command : {"export ", "export --format csv ", "report ", "data preview "}) {
    t.refuses(command + two + " -o " + two, two, kRead);
    t.refuses(command + two + " -o " + base, base, kRead);
    t.refuses(command + two + " -o link.json", "link.json", kRead);
    t.refuses(command + two + " -o " + result, result, kTrial);
  }
  for (const std::string command : {"export --format jsonl ", "report "}) {
    t.refuses(command + two + " --from " + archive + " -o " + archive, archive, kRead);
    t.refuses(command + two + " --from archives -o " + archive, archive, kRead);
  }
  t.refuses("export out -o " + result, result, kTrial);
  t.refuses("report " + two + " --out out -o new.html --svg " + t.trial, t.trial + "/gains.svg", kTrial);
  t.refuses("report " + two + " --out out --figures " + t.trial, t.trial + "/lr_sensitivity.svg", kTrial);
  for (const std::string& file : {two, base}) t.refuses("claims --claims claims --out out -o " + file, file, kRead);
  t.refuses("claims --claims claims --from archives -o " + archive, archive, kRead);
  t.refuses("claims --claims claims --out out -o " + result, result, kTrial);

  fs::create_directories(t.folder / "copies");
  fs::copy_file(t.folder / archive, t.folder / "copies/strip.csv", fs::copy_options::overwrite_existing);
  const Finished drawn = t.call("report " + two + " --from copies/strip.csv --only strip --figures copies");
  CHECK(drawn.code == 2);
  CHECK_MESSAGE(has(drawn.err, std::string("copies/strip.csv: ") + kRead), drawn.err);
  CHECK(text_of(t.folder / "copies/strip.csv") == text_of(t.folder / archive));
}

TEST_CASE("output: other files and links are written as before") {
  const Trained& t = trained();
  const std::string csv = "export --format csv claims/1-two.json --out out -o ";
  const std::string table = t.call(csv + "-").out;
  CHECK(has(table, "eval/accuracy"));
  for (int again = 0; again < 2; ++again) t.succeeds(csv + "new/table.csv");
  fs::create_symlink("new/table.csv", t.folder / "table");
  std::ofstream(t.folder / "new/table.csv") << "old";
  t.succeeds(csv + "table");
  CHECK(fs::is_symlink(t.folder / "table"));
  CHECK(text_of(t.folder / "new/table.csv") == table);
  t.succeeds("export --format csv out -o out/all.csv");  // beside the trials
  t.succeeds("export --format csv claims/1-two.json --from archives -o archives/table.csv");
}

TEST_CASE("output: what does not fit on a disk leaves no half file") {
  const Trained& t = trained();
  const std::string two = "claims/1-two.json";
  std::ofstream(t.folder / "kept.html") << "kept";
  for (const std::string& words :
       {"data preview " + two + " --images 64 -o ", "report " + two + " --out out -o ", "convert " + t.checkpoint + " ",
        "eval " + fs::path(t.trial).filename().string() + " --out out --logits "}) {
    CAPTURE(words);
    const std::string ending = words.starts_with("convert") ? ".safetensors" : ".html";
    for (const std::string& name : {"full" + ending, "kept" + ending}) {
      if (name.starts_with("kept")) std::ofstream(t.folder / name) << "kept";
      // A block of 512 bytes acts as a full disk.
      const Finished full =
          run_program(t.folder, words + name, "cd '" + t.folder.path().string() + "'; trap '' XFSZ; ulimit -f 1; ");
      CHECK_MESSAGE(full.code == 3, full.err);
      CHECK_MESSAGE(has(full.err, "cannot write " + name), full.err);
      CHECK(fs::exists(t.folder / name) == name.starts_with("kept"));
      if (name.starts_with("kept")) CHECK(text_of(t.folder / name) == "kept");
    }
  }
  for (const auto& entry : fs::directory_iterator(t.folder.path()))
    CHECK(!entry.path().filename().string().ends_with(".tmp"));
}

TEST_CASE("output: a link to the folder around archives is not followed") {
  const Trained& t = trained();
  fs::create_directories(t.folder / "linked");
  fs::copy_file(t.folder / "archives/two.jsonl", t.folder / "linked/two.jsonl");
  fs::create_directory_symlink("..", t.folder / "linked/up");
  const std::string table = "table claims/1-two.json --from ";
  const Finished linked = t.call(table + "linked");
  CHECK_MESSAGE(linked.code == 0, linked.err);
  CHECK(linked.out == t.call(table + "archives/two.jsonl").out);
}
