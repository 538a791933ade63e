// NaN and infinity in whatever a command reads never become a number that it shows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/files.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/weights/npy.h"
#include "tests/lab/base/save_safetensors.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/weights/poison.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;

namespace {

constexpr const char* kSweep = R"({
  "dataset": {"name": "shapes", "train_images": 100, "eval_images": 40, "train": "train[:80]", "minival": "train[80:]",
              "allow_absent_classes": true},
  "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2, "pool": "gap"},
  "train": {"steps": 8, "batch_size": 20, "eval_every_epochs": 1, "ema": {"decay": 0.9},
            "optimizer": {"name": "adamw", "lr": 0.002}, "schedule": {"warmup_steps": 1}},
  "sweep": {"model.placement": ["pre_pre", "dyt"]},
  "baseline": {"model.placement": "pre_pre"},
  "seeds": 2
})";

/// Four trained trials, made once.
struct Trained {
  TemporaryFolder folder;
  std::string descriptor = (folder / "small.json").string(), out = (folder / "out").string();
  ResultStore store{out};
  Trained() {
    std::ofstream(descriptor) << kSweep;
    const Finished run = run_program(folder, "run " + descriptor + " --out " + out);
    REQUIRE_MESSAGE(run.code == 0, run.err);
  }
  Finished call(const std::string& arguments) const { return run_program(folder, arguments); }
  /// The first seed of a placement.
  std::string id_of(const std::string& placement) const {
    const Experiment experiment = load_experiment(descriptor);
    for (const Cell& row : experiment.rows)
      if (row.label == placement) return first_trial(experiment, row).id;
    throw std::runtime_error("no row " + placement);
  }
};

/// Finite weights from which an MLP's output overflows.
void poison_with_large(const std::filesystem::path& weights) {
  poison(weights, "blocks.0.mlp.fc1.bias", 0, 3e38f);
  poison(weights, "blocks.0.mlp.fc2.weight", 0, 3e38f);
}
const Trained& trained() {
  static const Trained once;
  return once;
}

/// Tensors that the network itself has.
std::vector<TensorView> weights_of(const SafetensorsFile& file) {
  std::vector<TensorView> weights;
  for (const TensorView& t : file.tensors())
    if (!t.name.starts_with("optimizer.") && !t.name.starts_with("ema/")) weights.push_back(t);
  return weights;
}

/// The first seed of a placement without averages and moments, which probe passes over.
std::filesystem::path weights_alone(const Trained& t, const std::string& placement) {
  const std::string id = t.id_of(placement);
  const auto weights = t.folder / "weights.safetensors";
  const SafetensorsFile whole = SafetensorsFile::read(t.store.trial(id).checkpoint(1));
  save_safetensors(weights, {{"normlab.trial", id}}, weights_of(whole));
  return weights;
}

/// A file of every weight in turn with a value in it that is not finite: `call` gets its path, the tensor's name and
/// the words that name the value.
void with_each_weight(const std::filesystem::path& checkpoint, const std::string& prefix,
                      const std::function<void(const std::string&, const std::string&)>& call) {
  std::size_t number = 0;
  const TemporaryFolder folder;
  for (const TensorView& t : weights_of(SafetensorsFile::read(checkpoint))) {
    const std::size_t kinds = std::getenv("NORMLAB_LONG") ? 3 : 1;
    for (std::size_t k = 0; k < kinds; ++k, ++number) {
      const std::size_t index = 7919 * number % (t.data.size() / sizeof(float)), kind = (number + k) % 3;
      const auto path = folder / "poisoned.safetensors";
      std::filesystem::copy_file(checkpoint, path, std::filesystem::copy_options::overwrite_existing);
      poison(path, prefix + t.name, index, kNonFinite[kind]);
      const std::string words =
          t.name + "[" + std::to_string(index) + "] is " + std::vector<std::string>{"nan", "inf", "-inf"}[kind];
      CAPTURE(words);
      call(path.string(), words);
    }
  }
  CHECK(number > 15);
}

}  // namespace

TEST_CASE("nonfinite: no command shows an accuracy of weights that an update broke") {
  const TemporaryFolder folder;
  std::ofstream(folder / "f.json") << R"({"dataset": {"name": "shapes", "train_images": 80, "eval_images": 40},
  "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2, "pool": "gap", "init": "timm"},
  "train": {"steps": 1, "batch_size": 20, "optimizer": {"name": "sgd", "lr": 1e30}},
  "sweep": {"model.placement": ["pre_pre", "dpn"]}, "baseline": {"model.placement": "pre_pre"}, "seeds": 2})";
  const std::string descriptor = (folder / "f.json").string(), out = " --out " + (folder / "out").string();
  const Finished run = run_program(folder, "run " + descriptor + out);
  CHECK(run.code == 0);
  CHECK(has(run.out, "2/2 diverged @1 in evaluation"));
  CHECK(!has(run.out, "10.0"));
  CHECK(!has(run.out, "±"));
  for (const char* format : {"text", "markdown", "csv", "latex", "json", "html"}) {
    const Finished table = run_program(folder, "table " + descriptor + out + " --format " + format);
    CHECK(table.code == 0);
    CHECK(!has(table.out, "10.0"));
  }
  const Finished guesses = run_program(folder, "table " + descriptor + out + " --diverged chance");
  CHECK(guesses.code == 0);
  CHECK(!has(guesses.out, "±0"));
  CHECK(has(run_program(folder, "export --curves --by-row " + descriptor + out).err, "no trial has this metric"));
  CHECK(run_program(folder, "report " + descriptor + out + " -o " + (folder / "r.html").string()).code == 0);
  CHECK(!has(text_of(folder / "r.html"), "eval/accuracy</dt>"));
  const ResultStore store(folder / "out");
  for (const std::string& id : store.trial_ids()) {
    const Finished find = run_program(folder, "list " + id + out);
    CHECK(has(find.out, "diverged: step 1: the evaluation is not finite: eval/accuracy: image 0 ("));
    CHECK(has(find.out, "metric  train/first_loss "));
    CHECK(find.out.find("metric  ") == find.out.rfind("metric  "));
  }
}

TEST_CASE("nonfinite: eval names the weight that is not finite") {
  const Trained& t = trained();
  for (const char* placement : {"dyt", "pre_pre"}) {
    const auto checkpoint = t.store.trial(t.id_of(placement)).checkpoint(1);
    const std::string logits = (t.folder / "logits.npy").string();
    const std::string rest = " --data shapes --slice 'test[:10]' --logits " + logits;
    REQUIRE(t.call("eval --weights " + checkpoint.string() + rest).code == 0);
    std::filesystem::remove(logits);
    for (const std::string ema : {"", " --ema"}) {
      with_each_weight(checkpoint, ema.empty() ? "" : "ema/", [&](const std::string& path, const std::string& words) {
        const Finished eval = t.call("eval --weights " + path + ema + rest);
        CHECK(eval.code == 1);
        CHECK(eval.out == "");
        CHECK_MESSAGE(has(eval.err, words), eval.err);
        CHECK_MESSAGE(has(eval.err, "shapes: image 0"), eval.err);
        CHECK(!std::filesystem::exists(logits));
      });
      if (std::getenv("NORMLAB_LONG") == nullptr) break;
    }
  }
}

TEST_CASE("nonfinite: eval names the class whose logit overflows") {
  const Trained& t = trained();
  const auto large = t.folder / "large.safetensors";
  std::filesystem::copy_file(t.store.trial(t.id_of("pre_pre")).checkpoint(1), large);
  poison_with_large(large);
  const std::string logits = (t.folder / "logits.npy").string();
  const Finished eval =
      t.call("eval --weights " + large.string() + " --data shapes --slice 'test[:10]' --logits " + logits);
  CHECK(eval.code == 1);
  CHECK(eval.out == "");
  CHECK_MESSAGE(has(eval.err, ": the logit of class 0 is nan"), eval.err);
  CHECK(!std::filesystem::exists(logits));
}

TEST_CASE("nonfinite: eval names the first image with a value that is not finite") {
  const Trained& t = trained();
  const std::string weights = t.store.trial(t.id_of("dyt")).checkpoint(1).string();
  const std::size_t images = 5, values = 32 * 32 * 3;
  write_npy(t.folder / "labels.npy", host_tensor<std::int64_t>("labels", {images}, {0, 1, 2, 3, 4}));
  const std::string labels = " --labels " + (t.folder / "labels.npy").string();
  std::size_t number = 0;
  for (const double value : {double(NAN), double(INFINITY), -double(INFINITY), 1e300})
    for (const bool wide : {false, true})
      for (const std::size_t image : {0, 3}) {
        CAPTURE(value);
        std::vector<double> pixels(images * values, 0.5);
        pixels[image * values + 7919 * ++number % values] = value;
        pixels.back() = value;
        const auto path = t.folder / "images.npy";
        if (wide)
          write_npy(path, host_tensor<double>("images", {images, 32, 32, 3}, pixels));
        else
          write_npy(path, host_tensor<float>("images", {images, 32, 32, 3}, {pixels.begin(), pixels.end()}));
        const std::string logits = (t.folder / "logits.npy").string();
        for (const std::string& more : {labels, " --logits " + logits, labels + " --batch 2"}) {
          const Finished eval =
              t.call("eval --weights " + weights + " --data " + path.string() + " --normalize half" + more);
          const bool narrowed = wide && std::isfinite(value);  // refused where it becomes a float
          CHECK(eval.code == (narrowed ? 2 : 1));
          CHECK(eval.out == "");
          CHECK_MESSAGE(has(eval.err, narrowed ? "images.npy: tensor \"images\": value "
                                               : "images.npy: image " + std::to_string(image) + ": "),
                        eval.err);
          CHECK(!std::filesystem::exists(logits));
        }
      }
}

TEST_CASE("nonfinite: eval refuses a mean or deviation that is not finite") {
  const Trained& t = trained();
  const std::string weights = t.store.trial(t.id_of("dyt")).checkpoint(1).string();
  const std::size_t images = 5, values = 32 * 32 * 3;
  write_npy(t.folder / "labels.npy", host_tensor<std::int64_t>("labels", {images}, {0, 1, 2, 3, 4}));
  const std::string labels = " --labels " + (t.folder / "labels.npy").string();
  std::vector<float> pixels(images * values, 0.5f);
  write_npy(t.folder / "images.npy", host_tensor<float>("images", {images, 32, 32, 3}, std::move(pixels)));
  const std::string eval = "eval --weights " + weights + " --data " + (t.folder / "images.npy").string() + labels;
  CHECK(t.call(eval + " --normalize half").code == 0);
  for (const char* given :
       {" --mean nan --std 1", " --mean 0.5 --std nan", " --mean 0.5 --std inf", " --mean inf --std 1"})
    CHECK(t.call(eval + given).code == 2);
  CHECK(t.call(eval + " --mean 0.5 --std 1e-320").out == "");
}

TEST_CASE("nonfinite: probe names the weight that is not finite") {
  const Trained& t = trained();
  for (const char* placement : {"dyt", "pre_pre"}) {
    const auto weights = weights_alone(t, placement);
    const std::string probe = "eval --probe " + t.descriptor + " --images 10 --weights ";
    REQUIRE(t.call(probe + weights.string()).code == 0);
    with_each_weight(weights, "", [&](const std::string& path, const std::string& words) {
      for (const char* format : {"", " --format json", " --format csv"}) {
        const Finished run = t.call(probe + path + format);
        CHECK(run.code == 1);
        CHECK(!has(run.out, "nan"));
        CHECK(!has(run.out, "blocks.0"));
        CHECK_MESSAGE(has(run.err, words), run.err);
        CHECK_MESSAGE(has(run.err, "training image "), run.err);
        if (std::getenv("NORMLAB_LONG") == nullptr) break;
      }
    });
  }
}

TEST_CASE("nonfinite: probe names the site at which finite weights overflow") {
  const Trained& t = trained();
  const auto weights = weights_alone(t, "pre_pre");  // dyt's final tanh takes infinity to 1
  poison_with_large(weights);
  const Finished run = t.call("eval --probe " + t.descriptor + " --images 10 --weights " + weights.string());
  CHECK(run.code == 1);
  CHECK(run.out == "");
  CHECK_MESSAGE(has(run.err, "the loss of training image "), run.err);
  CHECK_MESSAGE(has(run.err, " is not finite; first in the value of "), run.err);
  CHECK_MESSAGE(has(run.err, " at blocks.0.mlp.fc2"), run.err);
}

TEST_CASE("nonfinite: probe prints the rows that have numbers") {
  const Trained& t = trained();
  const Finished rows =
      t.call("eval --probe " + t.descriptor + " --images 10 --set 'sweep={\"model.placement\": [\"pre_pre\", " +
             "{\"base\": \"layer_scale\", \"layer_scale\": {\"init\": 3e38}}]}'");
  CHECK(rows.code == 1);
  CHECK_MESSAGE(has(rows.out, "pre_pre, seed 0: 10 training images"), rows.out);
  CHECK_MESSAGE(has(rows.err, " is not finite; first in the value of "), rows.err);
}

TEST_CASE("nonfinite: convert refuses weights that are not finite") {
  const Trained& t = trained();
  const std::string id = t.id_of("pre_pre"), out = (t.folder / "converted.safetensors").string();
  with_each_weight(t.store.trial(id).checkpoint(1), "", [&](const std::string& path, const std::string& words) {
    const Finished run = t.call("convert " + path + " " + out);
    CHECK(run.code == 2);
    CHECK_MESSAGE(has(run.err, words), run.err);
    CHECK(!std::filesystem::exists(out));
  });
}

TEST_CASE("nonfinite: convert refuses a value that float32 cannot hold") {
  const Trained& t = trained();
  const std::string out = (t.folder / "converted.safetensors").string();
  const SafetensorsFile file = SafetensorsFile::read(t.store.trial(t.id_of("pre_pre")).checkpoint(1));
  std::vector<TensorView> tensors = weights_of(file);
  std::vector<double> bias;
  for (TensorView& tensor : tensors)
    if (tensor.name == "head.bias") {
      bias.assign(tensor.shape[0], 1e300);
      tensor.dtype = "F64";
      tensor.data = std::as_bytes(std::span(bias));
    }
  save_safetensors(t.folder / "wide.safetensors", {{"normlab.model", file.metadata().at("normlab.model")}}, tensors);
  const Finished wide = t.call("convert " + (t.folder / "wide.safetensors").string() + " " + out);
  CHECK(wide.code == 2);
  CHECK_MESSAGE(has(wide.err, "tensor \"head.bias\": value 0 is 1e+300, which a float cannot hold"), wide.err);
  CHECK(!std::filesystem::exists(out));
}

TEST_CASE("nonfinite: no command shows the accuracy of a metric that is not finite") {
  const Trained& t = trained();
  const std::vector<std::string> ids = t.store.trial_ids();
  const TrialFolder trial = t.store.trial(ids[1]);
  const auto result = trial.path() / "result.json", metrics = trial.metrics(1);
  const std::string good_result = read_file(result), good_metrics = read_file(metrics);
  const std::string in = t.descriptor + " --out " + t.out, page = (t.folder / "page.html").string();
  const auto check_nothing_shown = [&](const std::vector<std::string>& commands) {
    for (const std::string& command : commands) {
      CAPTURE(command);
      std::filesystem::remove(page);
      const Finished run = t.call(command);
      CHECK(run.code >= 0);
      CHECK(run.code <= 2);
      const std::string all = run.out + run.err + (std::filesystem::exists(page) ? text_of(page) : "");
      CHECK_MESSAGE((!has(all, "87.65") && !has(all, "0.8765")), all);
    }
  };
  const std::vector<std::string> of_result{"table " + in,
                                           "table " + in + " --format csv",
                                           "table " + in + " --format json",
                                           "table " + in + " --format html",
                                           "table " + in + " --diverged chance",
                                           "table " + in + " --metric minival/accuracy",
                                           "table " + in + " --bootstrap",
                                           "report " + in + " -o " + page,
                                           "list " + ids[1] + " --out " + t.out,
                                           "explain " + ids[0] + " " + ids[1] + " --out " + t.out,
                                           "status " + in};
  const std::vector<std::string> of_metrics{"export --curves --by-row " + in,
                                            "export --curves --by-row " + in + " --seeds",
                                            "export --curves --by-row " + in + " --metric minival/accuracy --seeds",
                                            "export --curves --by-row " + in + " --metric eval/ema_accuracy --seeds",
                                            "table " + in + " --select mean_last_k --last 1 --format json",
                                            "table " + in + " --select best_minival --format json",
                                            "report " + in + " -o " + page};
  const auto change = [](nlohmann::ordered_json& object, nlohmann::ordered_json& nonfinite, const std::string& name,
                         const std::string& word) {
    const std::string prefix =
        name.substr(0, name.rfind("accuracy") == name.npos ? name.rfind("loss") : name.rfind("accuracy"));
    if (object.contains(prefix + "accuracy")) object[prefix + "accuracy"] = 0.8765;
    object[name] = nullptr;
    nonfinite[name] = word;
  };
  const auto parsed = nlohmann::ordered_json::parse(good_result);
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end; (end = good_metrics.find('\n', begin)) != good_metrics.npos; begin = end + 1)
    lines.push_back(good_metrics.substr(begin, end - begin));
  REQUIRE(lines.size() == 2);
  std::size_t number = 0;
  for (const auto& metric : parsed["metrics"].items()) {
    const std::string& name = metric.key();
    CAPTURE(name);
    const std::string word = std::vector<std::string>{"nan", "inf", "-inf"}[number++ % 3];
    auto json = parsed;
    json.erase("sha256");  // as a version has written it that knows no seal
    json.erase("files");
    json["schema"] = 1;
    json["nonfinite"] = nlohmann::ordered_json::object();
    change(json["metrics"], json["nonfinite"], name, word);
    std::ofstream(result) << json.dump(2) << "\n";
    check_nothing_shown(of_result);
    std::string overflow = json.dump(2);
    overflow.replace(overflow.find("null"), 4, "1e999");
    std::ofstream(result) << overflow;
    check_nothing_shown({of_result[0], of_result[8]});
    CHECK(t.call(of_result[8]).code == 2);
    std::ofstream(result) << good_result;
    if (name == "train/loss") continue;  // a step's, which no accuracy rests on
    for (std::size_t at = 0; at < lines.size(); ++at) {
      auto line = nlohmann::ordered_json::parse(lines[at]);
      line["nonfinite"] = nlohmann::ordered_json::object();
      auto nonfinite = nlohmann::ordered_json::object();
      change(line, nonfinite, name, word);
      line["nonfinite"] = nonfinite;
      std::ofstream(metrics) << (at == 0 ? line.dump() : lines[0]) << "\n"
                             << (at == 1 ? line.dump() : lines[1]) << "\n";
      check_nothing_shown(of_metrics);
    }
    std::ofstream(metrics) << good_metrics;
  }
  CHECK(number >= 9);
  CHECK(t.call(of_result[0]).code == 0);
}
