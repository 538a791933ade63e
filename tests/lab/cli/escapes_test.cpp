// Text of files and command lines, printed: it neither controls the terminal nor looks like lines of the program.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/visible_text.h"
#include "experiments/lab/data/archive.h"
#include "tests/lab/base/save_safetensors.h"
#include "tests/lab/cli/described_options.h"
#include "tests/lab/cli/small_sweep.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

/// Sets the terminal's title, rings, returns to the start of the line, sets a colour, reverses the text direction.
const std::string kHostile = "x\x1b]0;title\a\r\u009b31m\u202e";
const std::string kHostileLines = kHostile + "\nFAKE line";

void check_harmless(const std::string& what, const std::string& text) {
  CHECK_MESSAGE(visible(text) == text, what << ": " << visible(text));
  CHECK_MESSAGE(("\n" + text).find("\nFAKE") == std::string::npos, what << ": " << text);
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    CHECK_MESSAGE(end - begin < 2500, what << ": a line of " << end - begin << " bytes");
  }
}

Finished check_program(const TemporaryFolder& folder, const std::string& arguments, int code) {
  const Finished run = run_program(folder, arguments);
  CHECK_MESSAGE(run.code == code, arguments << ": " << run.code << " " << run.err);
  check_harmless(arguments, run.err);
  check_harmless(arguments, run.out);
  return run;
}

std::string quoted_for_shell(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string write_json_file(const TemporaryFolder& folder, const std::string& name, const nlohmann::json& json) {
  std::ofstream(folder / name) << json.dump();
  return quoted_for_shell((folder / name).string());
}

}  // namespace

TEST_CASE("escapes: a descriptor's texts are harmless wherever they are printed") {
  const TemporaryFolder folder;
  nlohmann::json sweep = nlohmann::json::parse(kSmallSweep);
  sweep["about"] = kHostile;
  sweep["placements"] = {{kHostileLines, {{"base", "post_post"}}}};
  sweep["sweep"] = {{"model.placement", {"pre_pre", kHostileLines}}};
  sweep["seeds"] = 1;
  sweep["paper"] = {{"source", kHostile}, {"deviations", nlohmann::json::array()}};
  const std::string file = write_json_file(folder, "sweep.json", sweep), out = " --out " + in_folder(folder, "r");
  check_program(folder, "check " + file, 0);
  check_program(folder, "run " + file + out + " --json-progress " + in_folder(folder, "progress"), 0);
  for (const std::string command :
       {"plan ", "table ", "explain --all ", "status --missing ", "status --all ", "export --curves --by-row "}) {
    const bool reads_results = command != "explain --all ";
    check_program(folder, command + file + (reads_results ? out : ""), 0);
  }
  CHECK(check_program(folder, "table --format markdown " + file + out, 0).out.find("\\\\x1b") != std::string::npos);
  check_program(folder, "status --missing " + file + " --out " + in_folder(folder, "nothing"), 0);
  check_program(folder, "explain " + file + " " + small_sweep(folder), 0);
  for (const std::string& id : ResultStore(folder / "r").trial_ids()) check_program(folder, "list " + id + out, 0);
  check_program(folder, "table " + in_folder(folder, "r"), 0);
}

TEST_CASE("escapes: what is unknown in a descriptor is harmless in the error") {
  const TemporaryFolder folder;
  const auto with = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json sweep = nlohmann::json::parse(kSmallSweep);
    sweep[nlohmann::json::json_pointer(pointer)] = value;
    return sweep;
  };
  for (const std::string& text : {kHostileLines, std::string(1'000'000, 'k'), std::string(300'000, '\x7f')}) {
    nlohmann::json key = nlohmann::json::parse(kSmallSweep);
    key["train"][text] = 1;
    key["placements"][text] = {{text, text}};
    check_program(folder, "check " + write_json_file(folder, "key.json", key), 2);
    for (const char* pointer : {"/model/placement", "/model/kind", "/dataset/name", "/train/optimizer", "/about",
                                "/train/augment/name", "/sweep/model.placement/0", "/tuned_for", "/checkpoint"})
      for (const nlohmann::json& value : {nlohmann::json(text), nlohmann::json{{text, text}}}) {
        const Finished run = run_program(folder, "check " + write_json_file(folder, "word.json", with(pointer, value)));
        CHECK((run.code == 0 || run.code == 2));
        check_harmless(pointer, run.out + run.err);
      }
    const Finished extends =
        run_program(folder, "check " + write_json_file(folder, "extends.json", with("/extends", text)));
    CHECK((extends.code == 2 || extends.code == 3));
    check_harmless("extends", extends.err);
    std::ofstream(folder / "broken.json") << "{\"about\": \"" << text;
    check_program(folder, "check " + in_folder(folder, "broken.json"), 2);
  }
}

TEST_CASE("escapes: the name of a descriptor is harmless in the error") {
  const TemporaryFolder folder;
  check_program(folder, "check " + write_json_file(folder, kHostileLines + ".json", {{"train", 1}}), 2);
}

TEST_CASE("escapes: words of the command line are harmless in the error") {
  const TemporaryFolder folder;
  for (const std::string& text : {kHostileLines, std::string(100'000, 'w')}) {
    const std::string word = quoted_for_shell(text), file = small_sweep(folder);
    check_program(folder, "check " + file + " --set train." + word + "=1", 2);
    check_program(folder, "check " + file + " --set model.placement=" + word, 2);
    check_program(folder, "table " + file + " --where " + word, 2);
    check_program(folder, "table " + file + " --where lr=" + word + "=3", 2);
    check_program(folder, "table " + file + " --sort " + word, 2);
    check_program(folder, "list " + word, 2);
    check_program(folder, "verify " + word, 2);
  }
}

TEST_CASE("escapes: 100 kB in any option or argument give a short message") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder), out = " --out " + in_folder(folder, "r");
  REQUIRE(run_program(folder, "run " + file + out).code == 0);
  const std::string id = ResultStore(folder / "r").trial_ids().front();
  std::filesystem::create_directories(folder / "photos/train/a");
  const std::string photos = in_folder(folder, "photos"), trial = in_folder(folder, "r/trials/" + id),
                    weights = in_folder(folder, "r/trials/" + id + "/attempt-1/checkpoint.safetensors");
  // What each command needs beside the option. Arguments are replaced as a whole.
  const std::map<std::string, std::vector<std::string>> needed = {
      {"init", {photos}},       {"convert", {weights, in_folder(folder, "x.safetensors")}},
      {"eval", {trial}},        {"verify", {trial}},
      {"data info", {photos}},  {"data pack", {photos}},
      {"bench data", {photos}}, {"explain", {file, file}},
      {"list", {id}},           {"merge", {in_folder(folder, "r")}}};
  const std::string text = quoted_for_shell(std::string(100'000, '['));
  for (const DescribedOption& option : described_options()) {
    if (option.command.starts_with("bench")) continue;  // measures for seconds
    const auto found = needed.find(option.command);
    std::vector<std::string> arguments = found == needed.end() ? std::vector<std::string>{file} : found->second;
    std::string words = option.command;
    if (option.name.starts_with("-")) {
      for (const std::string& argument : arguments) words += " " + argument;
      words += " " + option.name.substr(0, option.name.find(',')) + " " + text;
    } else {
      words += " " + text;
      if (option.command == "convert" || option.command == "explain") words += " " + arguments.back();
    }
    const Finished done = run_program(folder, words, "cd '" + folder.path().string() + "'; ");
    CAPTURE(option.command);
    CAPTURE(option.name);
    CHECK((done.code == 0 || done.code == 1 || done.code == 2 || done.code == 3));
    check_harmless(option.command + " " + option.name, done.err);
    CHECK(done.err.size() < 10'000);
  }
}

TEST_CASE("escapes: names in folders of images are harmless") {
  const TemporaryFolder folder;
  const auto images = [&](const std::string& name, const std::string& file, const std::string& content) {
    std::filesystem::create_directories(folder / name / "train" / "a");
    write_file(folder / name / "train" / "a" / "good.png", make_png(8, 8, 1));
    write_file(folder / name / "train" / "a" / file, content);
    return "data info " + in_folder(folder, name) + " --layout image_folder";
  };
  check_program(folder, images("other", kHostileLines + ".txt", "no image"), 2);
  check_program(folder, images("damaged", kHostileLines + ".png", "no image"), 0);  // which opens no image
}

TEST_CASE("escapes: names in tars are harmless") {
  const TemporaryFolder folder;
  const auto tar = [&](const std::string& name, const Members& members) {
    std::filesystem::create_directories(folder / name);
    write_tar(folder / name / "train-000000.tar", members);
    return "data info " + in_folder(folder, name) + " --layout webdataset";
  };
  const std::string png = make_png(8, 8, 1);
  check_program(folder, tar("extension", {{"1.png", png}, {"1." + kHostileLines, "x"}}), 2);
  check_program(folder, tar("class", {{"1.png", png}, {"1.cls", kHostileLines}}), 2);
  check_program(folder, tar("twice", {{kHostileLines + ".png", png}, {kHostileLines + ".png", png}}), 2);
  check_program(folder, tar("no-label", {{kHostileLines + ".png", png}}), 2);
  check_program(folder, tar("image", {{kHostileLines + ".png", "no image"}, {kHostileLines + ".cls", "0"}}), 2);
}

TEST_CASE("escapes: names in files of weights are harmless") {
  const TemporaryFolder folder;
  ZipWriter zip;
  zip.add(kHostileLines + ".npy", "no array");
  write_file(folder / "names.npz", zip.finish());
  const std::string model =
      " --model '{\"kind\": \"vit\", \"variant\": \"Ti/16\", \"image_size\": 32, \"num_classes\": 3}'";
  check_program(
      folder,
      "convert " + in_folder(folder, "names.npz") + " " + in_folder(folder, "x.safetensors") + " --from augreg" + model,
      2);
  const std::vector<float> values(3, 0.0f);
  const auto tensor = [&](const std::string& name) {
    return TensorView{.name = name, .dtype = "F32", .shape = {3}, .data = std::as_bytes(std::span(values))};
  };
  save_safetensors(folder / "names.safetensors", {}, {{tensor(kHostileLines), tensor("head.bias")}});
  check_program(folder,
                "convert " + in_folder(folder, "names.safetensors") + " " + in_folder(folder, "x.safetensors") +
                    " --from timm" + model,
                2);
  check_program(folder,
                "convert " + in_folder(folder, "names.safetensors") + " " + in_folder(folder, "x.safetensors") +
                    " --from timm --allow-missing --allow-left-over" + model,
                0);
}
