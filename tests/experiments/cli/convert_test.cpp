// `normlab convert` and `normlab eval` as a user calls them.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "core/error.h"
#include "experiments/weights/npy.h"
#include "tests/experiments/base/text.h"
#include "tests/experiments/cli/program.h"
#include "tests/experiments/weights/network_files.h"

using namespace normlab;

namespace {

std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

void save_images(const std::filesystem::path& path) {
  const SafetensorsFile expected = expected_file();
  write_npy(path, expected.get("images"));
}

}  // namespace

TEST_CASE("convert: a file of timm becomes ours, is evaluated, and goes back") {
  const TemporaryFolder folder;
  const NetworkFile& vit = kNetworkFiles[0];
  const auto ours = folder / "ours.safetensors", back = folder / "back.safetensors";
  const std::string model = "'" + network_json(vit) + "'";
  const Finished in = run_program(
      folder, "convert " + quoted(network_path(vit)) + " " + quoted(ours) + " --from timm --model " + model);
  CHECK(in.code == 0);
  CHECK(has(in.out, "(timm): 32 tensors matched, 0 missing, 0 left over\n"));
  CHECK(has(in.out, "ours.safetensors (normlab): 40 tensors written"));

  save_images(folder / "images.npy");
  write_npy(folder / "labels.npy", host_tensor<std::int64_t>("labels", {4}, {0, 1, 2, 3}));
  const std::string eval = "eval --weights " + quoted(ours) + " --data " + quoted(folder / "images.npy");
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

  CHECK(run_program(folder, "convert " + quoted(ours) + " " + quoted(back) + " --to timm").code == 0);
  const SafetensorsFile first = SafetensorsFile::read(network_path(vit)), last = SafetensorsFile::read(back);
  CHECK(first.tensors().size() == last.tensors().size());
  for (const TensorView& tensor : first.tensors())
    CHECK(values_of<float>(last.get(tensor.name)) == values_of<float>(first.get(tensor.name)));
}

TEST_CASE("convert: what is refused says what to do") {
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
  fails("convert x.pth " + quoted(folder / "out.safetensors"), "weights are files that end in");
  fails(in + "--from timm --to big_vision " + model, "big_vision stores weights in .npz files");
  std::ofstream(folder / "deeper.json")
      << R"({"image_size": [8, 12], "patch_size": 4, "embed_dim": 8, "depth": 3, "num_heads": 2, "num_classes": 5,
             "pool": "token", "pos_embed_class": true})";
  const Finished deeper = run_program(folder, in + "--from timm --model " + quoted(folder / "deeper.json"));
  CHECK(deeper.code == kBadInput);
  CHECK(has(deeper.out, "32 tensors matched, 12 missing, 0 left over\n  missing    blocks.2.norm1.weight"));
  CHECK(has(deeper.err, "--allow-missing"));
  const Finished allowed =
      run_program(folder, in + "--from timm --allow-missing --model " + quoted(folder / "deeper.json"));
  CHECK(allowed.code == 0);
  // Its model is in the file now; GELU in it is erf, and Big Vision has none.
  const Finished flax = run_program(
      folder, "convert " + quoted(folder / "out.safetensors") + " " + quoted(folder / "out.npz") + " --to big_vision");
  CHECK(flax.code == kBadInput);
  CHECK(has(flax.err, "gelu: is erf"));
}

TEST_CASE("eval: wrong images, labels and preprocessing are refused") {
  const TemporaryFolder folder;
  const NetworkFile& vit = kNetworkFiles[0];
  const auto ours = folder / "ours.safetensors";
  const ViTConfig model = network_vit(vit);
  const Weights network(model);
  write_weight_file(ours, export_weights(network.weights, model, NameScheme::normlab), NameScheme::normlab, model);
  save_images(folder / "images.npy");
  const std::string eval = "eval --weights " + quoted(ours) + " --data ", images = quoted(folder / "images.npy"),
                    to_logits = " --logits " + quoted(folder / "logits.npy");
  const auto fails = [&](const std::string& arguments, const std::string& message) {
    const Finished done = run_program(folder, eval + arguments);
    CAPTURE(done.err);
    CHECK(done.code == kBadInput);
    CHECK(has(done.err, message));
  };
  fails(images + to_logits, "the normalisation of the training is unknown");
  fails(images + " --normalize none", "give --labels, or --logits to write");
  fails(images + " --mean 0.5" + to_logits, "give both --mean and --std");
  fails(images + " --normalize half --mean 0.5 --std 1" + to_logits,
        "give --normalize, or --mean and --std, but not both");
  fails(images + " --mean 0.5,0.5 --std 1" + to_logits, "--mean: 2 values for 3 channels");
  fails(images + " --mean 0.5 --std 0" + to_logits, "must be above 0");
  fails("cifar11" + to_logits, "did you mean \"cifar10\"?");
  fails("shapes", "shapes: has 10 classes, but this model has 5");
  write_npy(folder / "small.npy", host_tensor<float>("x", {1, 8, 8, 3}, std::vector<float>(192)));
  fails(quoted(folder / "small.npy") + " --normalize none" + to_logits,
        "images are [8, 8, 3], but this model takes [8, 12, 3]");
  write_npy(folder / "flat.npy", host_tensor<float>("x", {2, 3}, std::vector<float>(6)));
  fails(quoted(folder / "flat.npy") + " --normalize none" + to_logits, "images must be uint8 or float [N, H, W, C]");
  write_npy(folder / "labels.npy", host_tensor<std::int64_t>("labels", {4}, {0, 1, 2, 5}));
  fails(images + " --normalize none --labels " + quoted(folder / "labels.npy"),
        "label 5 of image 3 is outside the 5 classes");
  CHECK(run_program(folder, eval + quoted(folder / "none.npy") + " --normalize none" + to_logits).code ==
        static_cast<int>(ExitCode::environment));
  const auto foreign = folder / "timm.safetensors";
  write_weight_file(foreign, export_weights(network.weights, model, NameScheme::timm), NameScheme::timm, model);
  const Finished done =
      run_program(folder, "eval --weights " + quoted(foreign) + " --data " + images + " --normalize none" + to_logits);
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
