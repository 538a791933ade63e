// `normlab convert` and `normlab eval` as a user calls them.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/weights/npy.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/weights/network_files.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;

namespace {

std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

void save_images(const std::filesystem::path& path) {
  const SafetensorsFile expected = expected_file();
  write_npy(path, expected.get("images"));
}

/// A network of timm, converted.
struct Converted {
  TemporaryFolder folder;
  const NetworkFile& vit = kNetworkFiles[0];
  std::filesystem::path ours = folder / "ours.safetensors";
  Finished done = run_program(folder, "convert " + quoted(network_path(vit)) + " " + quoted(ours) +
                                          " --from timm --model '" + network_json(vit) + "'");
};

/// A network of ours and images for it.
struct Evaluated {
  TemporaryFolder folder;
  ViTConfig model = network_vit(kNetworkFiles[0]);
  Weights network{model};
  std::filesystem::path ours = folder / "ours.safetensors";
  std::string images = quoted(folder / "images.npy"), to_logits = " --logits " + quoted(folder / "logits.npy");

  Evaluated() {
    write_weight_file(ours, export_weights(network.weights, model, NameScheme::normlab), NameScheme::normlab, model);
    save_images(folder / "images.npy");
  }
  Finished eval(const std::string& arguments) const {
    return run_program(folder, "eval --weights " + quoted(ours) + " --data " + arguments);
  }
  void fails(const std::string& arguments, const std::string& message) const {
    const Finished done = eval(arguments);
    CAPTURE(done.err);
    CHECK(done.code == kBadInput);
    CHECK(has(done.err, message));
  }
};

/// A model with a block more than the file of timm has.
std::string deeper_model(const TemporaryFolder& folder) {
  std::ofstream(folder / "deeper.json")
      << R"({"image_size": [8, 12], "patch_size": 4, "embed_dim": 8, "depth": 3, "num_heads": 2, "num_classes": 5,
             "pool": "token", "pos_embed_class": true})";
  return " --model " + quoted(folder / "deeper.json");
}

}  // namespace

TEST_CASE("convert: every tensor of a file of timm has a place") {
  const Converted timm;
  CHECK(timm.done.code == 0);
  CHECK(has(timm.done.out, "(timm): 32 tensors matched, 0 missing, 0 left over\n"));
  CHECK(has(timm.done.out, "ours.safetensors (normlab): 40 tensors written"));
}

TEST_CASE("convert: a converted network has the logits that timm computed") {
  const Converted timm;
  const TemporaryFolder& folder = timm.folder;
  save_images(folder / "images.npy");
  write_npy(folder / "labels.npy", host_tensor<std::int64_t>("labels", {4}, {0, 1, 2, 3}));
  const std::string eval = "eval --weights " + quoted(timm.ours) + " --data " + quoted(folder / "images.npy");
  const Finished result =
      run_program(folder, eval + " --normalize half --batch 3 --labels " + quoted(folder / "labels.npy") +
                              " --logits " + quoted(folder / "logits.npy"));
  CHECK(result.code == 0);
  CHECK(has(result.err, "4 images, pixels divided by 255, mean 0.5000 0.5000 0.5000, std 0.5000 0.5000 0.5000 (half)"));
  CHECK(has(result.out, "accuracy "));
  const HostTensor logits = read_npy(folder / "logits.npy");
  CHECK(logits.dtype == "F32");
  CHECK(logits.shape == std::vector<std::uint64_t>{4, 5});
  const std::vector<float> theirs = values_of<float>(expected_file().get("logits/timm_vit")), values = logits.floats();
  double largest = 0.0, loss = 0.0;
  for (std::size_t i = 0; i < theirs.size(); ++i)
    largest = std::max(largest, std::abs(double(values[i]) - double(theirs[i])));
  CHECK(largest < 1e-5);
  for (std::size_t i = 0; i < 4; ++i) {
    double sum = 0.0;
    for (std::size_t c = 0; c < 5; ++c) sum += std::exp(double(theirs[5 * i + c]));
    loss += (std::log(sum) - double(theirs[5 * i + i])) / 4;
  }
  CHECK(std::stod(result.out.substr(result.out.find("loss ") + 5)) == doctest::Approx(loss).epsilon(1e-4));
}

TEST_CASE("convert, eval: a link stays a link, and its target is written") {
  const Evaluated e;
  const std::filesystem::path link = e.folder / "link.safetensors", logits = e.folder / "logits.npy";
  std::filesystem::create_symlink("written.safetensors", link);
  std::filesystem::create_symlink("written.npy", logits);
  CHECK(run_program(e.folder, "convert " + quoted(e.ours) + " " + quoted(link) + " --to normlab").code == 0);
  CHECK(e.eval(e.images + " --normalize half" + e.to_logits).code == 0);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(std::filesystem::is_symlink(logits));
  CHECK(read_file(e.folder / "written.safetensors") == read_file(e.ours));
  CHECK(read_npy(e.folder / "written.npy").shape == read_npy(logits).shape);
}

TEST_CASE("convert: a file of timm that went both ways has its own values") {
  const Converted timm;
  const auto back = timm.folder / "back.safetensors";
  CHECK(run_program(timm.folder, "convert " + quoted(timm.ours) + " " + quoted(back) + " --to timm").code == 0);
  const SafetensorsFile first = SafetensorsFile::read(network_path(timm.vit)), last = SafetensorsFile::read(back);
  CHECK(first.tensors().size() == last.tensors().size());
  for (const TensorView& tensor : first.tensors())
    CHECK(values_of<float>(last.get(tensor.name)) == values_of<float>(first.get(tensor.name)));
}

TEST_CASE("convert, eval, fewshot: a file that does not state its names is sent to convert") {
  const TemporaryFolder folder;
  const std::string weights = " --weights " + quoted(network_path(kNetworkFiles[0]));
  for (const std::string& command :
       {"eval" + weights + " --data gratings", "eval --fewshot" + weights + " --data gratings"}) {
    CAPTURE(command);
    const Finished done = run_program(folder, command);
    CHECK(done.code == kBadInput);
    CHECK_MESSAGE(has(done.err, "does not say which names its tensors have; give it to `normlab convert` with --from"),
                  done.err);
  }
}

TEST_CASE("convert: a refusal names the option to give") {
  const TemporaryFolder folder;
  const NetworkFile& vit = kNetworkFiles[0];
  const std::string in = "convert " + quoted(network_path(vit)) + " " + quoted(folder / "out.safetensors") + " ";
  const std::string model = "--model '" + network_json(vit) + "' ";
  const auto fails = [&](const std::string& arguments, const std::string& message) {
    const Finished done = run_program(folder, arguments);
    CAPTURE(done.err);
    CHECK(done.code == kBadInput);
    CHECK(has(done.err, message));
    CHECK_FALSE(std::filesystem::exists(folder / "out.safetensors"));
  };
  fails(in + model, "give --from");
  fails(in + "--from timm", "give --model");
  fails(in + "--from torch " + model, "--from");
  fails("convert x.pth " + quoted(folder / "out.safetensors"), "expected a file of weights that ends in");
  fails(in + "--from timm --to big_vision " + model, "big_vision stores weights in .npz files");
}

TEST_CASE("convert: missing tensors are refused unless --allow-missing is given") {
  const TemporaryFolder folder;
  const std::string in = "convert " + quoted(network_path(kNetworkFiles[0])) + " " +
                         quoted(folder / "out.safetensors") + " --from timm" + deeper_model(folder);
  const Finished deeper = run_program(folder, in);
  CHECK(deeper.code == kBadInput);
  CHECK(has(deeper.out, "32 tensors matched, 12 missing, 0 left over\n  missing    blocks.2.norm1.weight"));
  CHECK(has(deeper.err, "--allow-missing"));
  CHECK(run_program(folder, in + " --allow-missing").code == 0);
}

TEST_CASE("convert: a network with a GELU that Big Vision lacks is refused") {
  const TemporaryFolder folder;
  REQUIRE(run_program(folder, "convert " + quoted(network_path(kNetworkFiles[0])) + " " +
                                  quoted(folder / "out.safetensors") + " --from timm --allow-missing" +
                                  deeper_model(folder))
              .code == 0);
  const Finished flax = run_program(
      folder, "convert " + quoted(folder / "out.safetensors") + " " + quoted(folder / "out.npz") + " --to big_vision");
  CHECK(flax.code == kBadInput);
  CHECK(has(flax.err, "gelu: is erf"));
}

TEST_CASE("eval: a normalisation that is incomplete or given twice is refused") {
  const Evaluated e;
  const std::string &images = e.images, &to_logits = e.to_logits;
  e.fails(images + to_logits, "the normalisation of the training is unknown");
  e.fails(images + " --mean 0.5" + to_logits, "give both --mean and --std");
  e.fails(images + " --normalize half --mean 0.5 --std 1" + to_logits,
          "give --normalize, or --mean and --std, but not both");
  e.fails(images + " --mean 0.5,0.5 --std 1" + to_logits, "--mean: 2 values for 3 channels");
  e.fails(images + " --mean 0.5 --std 0" + to_logits, "must be above 0");
}

TEST_CASE("eval: a call that asks for neither accuracy nor logits is refused") {
  const Evaluated e;
  e.fails(e.images + " --normalize none", "give --labels, or --predictions or --logits to write");
}

TEST_CASE("eval: a misspelt data set is refused with the nearest name") {
  const Evaluated e;
  e.fails("cifar11" + e.to_logits, "did you mean \"cifar10\"?");
}

TEST_CASE("eval: images that do not fit the network are refused") {
  const Evaluated e;
  const TemporaryFolder& folder = e.folder;
  const std::string& to_logits = e.to_logits;
  e.fails("shapes", "shapes: has 10 classes, but this model has 5");
  write_npy(folder / "small.npy", host_tensor<float>("x", {1, 8, 8, 3}, std::vector<float>(192)));
  e.fails(quoted(folder / "small.npy") + " --normalize none" + to_logits,
          "images are [8, 8, 3], but this model takes [8, 12, 3]");
  write_npy(folder / "flat.npy", host_tensor<float>("x", {2, 3}, std::vector<float>(6)));
  e.fails(quoted(folder / "flat.npy") + " --normalize none" + to_logits, "images must be uint8 or float [N, H, W, C]");
}

TEST_CASE("eval: a label outside the classes is refused") {
  const Evaluated e;
  const auto labels = e.folder / "labels.npy";
  write_npy(labels, host_tensor<std::int64_t>("labels", {4}, {0, 1, 2, 5}));
  e.fails(e.images + " --normalize none --labels " + quoted(labels), "label 5 of image 3 is outside the 5 classes");
}

TEST_CASE("eval: a file of images that is not there is bad input") {
  const Evaluated e;
  const Finished done = e.eval(quoted(e.folder / "none.npy") + " --normalize none" + e.to_logits);
  CHECK(done.code == static_cast<int>(ExitCode::bad_input));
  CHECK(has(done.err, "none.npy: cannot be read: No such file or directory"));
}

TEST_CASE("eval: weights with the names of timm are refused") {
  const Evaluated e;
  const auto foreign = e.folder / "timm.safetensors";
  write_weight_file(foreign, export_weights(e.network.weights, e.model, NameScheme::timm), NameScheme::timm, e.model);
  const Finished done = run_program(
      e.folder, "eval --weights " + quoted(foreign) + " --data " + e.images + " --normalize none" + e.to_logits);
  CHECK(done.code == kBadInput);
  CHECK(has(done.err, "run `normlab convert` on it first"));
}

TEST_CASE("convert: merging batch norms keeps the logits") {
  const TemporaryFolder folder;
  ViTConfig model = network_vit(kNetworkFiles[0]);
  model.placement = find_placement("bn_extra")->placement;
  model.placement.mlp.post = norm_of(NormKind::batch_norm);
  Weights network(model);
  std::size_t n = 0;
  for (std::size_t i = 0; i < network.weights.buffers().size(); ++i)
    for (std::int64_t c = 0; c < network.weights.buffer(int(i)).size(); ++c)
      network.weights.buffer(int(i)).data<float>()[c] = 0.5f + 0.1f * float(n++ % 7);
  for (std::size_t i = 0; i < network.weights.parameters().size(); ++i) {
    const Tensor values = network.weights.value(int(i));
    for (std::int64_t c = 0; c < values.size(); ++c) values.data<float>()[c] += 0.05f * float(n++ % 5);
  }
  const auto before = folder / "before.safetensors", after = folder / "after.safetensors";
  write_weight_file(before, export_weights(network.weights, model, NameScheme::normlab), NameScheme::normlab, model);
  const Finished fused = run_program(folder, "convert " + quoted(before) + " " + quoted(after) + " --fuse-bn");
  CAPTURE(fused.err);
  REQUIRE(fused.code == 0);
  CAPTURE(fused.out);
  CHECK(has(fused.out, "mlp.post"));  // it follows a sum
  const Placement merged = placement_of(stated_model(read_weight_file(after), std::nullopt, false));
  CHECK(merged.mlp.hidden.kind == NormKind::none);
  CHECK(merged.mlp.post.kind == NormKind::batch_norm);

  save_images(folder / "images.npy");
  const auto logits = [&](const std::filesystem::path& weights) {
    const Finished eval =
        run_program(folder, "eval --weights " + quoted(weights) + " --data " + quoted(folder / "images.npy") +
                                " --normalize half --logits " + quoted(folder / "logits.npy"));
    REQUIRE(eval.code == 0);
    return read_npy(folder / "logits.npy").floats();
  };
  const std::vector<float> a = logits(before), b = logits(after);
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double(a[i]) - double(b[i])));
  CHECK(largest < 1e-4);
}

TEST_CASE("eval: a training's checkpoint on its data set gives the training's own accuracy") {
  const TemporaryFolder folder;
  std::ofstream(folder / "small.json") << R"({
    "about": "a test", "dataset": {"name": "shapes"},
    "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2, "placement": "bn_ffnbn"},
    "train": {"steps": 30, "batch_size": 50}})";
  const std::string out = (folder / "results").string();
  const Finished run = run_program(folder, "run " + quoted(folder / "small.json") + " --out '" + out + "'");
  REQUIRE(run.code == 0);
  std::filesystem::path checkpoint;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out))
    if (entry.path().filename() == "checkpoint.safetensors") checkpoint = entry.path();
  REQUIRE(!checkpoint.empty());
  const Finished eval = run_program(folder, "eval --weights " + quoted(checkpoint) + " --data shapes");
  CHECK(eval.code == 0);
  CHECK(has(eval.err, "(those of the training)"));
  const Finished table = run_program(
      folder, "table " + quoted(folder / "small.json") + " --out '" + out + "' --format csv --metric eval/loss");
  CAPTURE(table.out);
  const double loss = std::stod(eval.out.substr(eval.out.find("loss ") + 5));
  CHECK(has(table.out, std::to_string(loss).substr(0, 5)));
}
