// What `bench` measures with, on each device with tiny sizes, and what its commands print.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/op_timing.h"
#include "experiments/lab/bench/print.h"
#include "experiments/lab/bench/shapes.h"
#include "nn/model/fuse.h"
#include "tests/devices.h"
#include "tests/lab/cli/program.h"
#include "tests/nn/model/small_network.h"

namespace normlab {
namespace {

std::vector<DType> storage_types() { return {DType::f32, DType::bf16}; }
Backend& backend_for(DType dtype) {
  Backend& backend = current_device().backend;
  return dtype == DType::bf16 ? backend.with_bf16(current_device().bf16) : backend;
}
EngineSettings two_images() {
  EngineSettings settings;
  settings.max_batch = 2;
  return settings;
}

const std::string kJson = " --format json", kStep = "step --batch 4 --depth 1 --seconds 0.01 --threads 1",
                  kProfile = "profile --shape micro --batch 4 --seconds 0.01",
                  kOps = "ops --batch 2 --tokens 9 --heads 1 --head-dim 8 --seconds 0.001 --threads 1",
                  kModels = "models --models deit_s --image 32 --batch 2 --seconds 0.001 --threads 1";

Finished bench(const TemporaryFolder& folder, const std::string& words) {
  return run_program(folder, "bench " + words);
}

/// The one JSON document that the command printed.
nlohmann::json json_of(const Finished& finished) {
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  return nlohmann::json::parse(finished.out);
}
void check_keys(const nlohmann::json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) CHECK_MESSAGE(object.contains(key), key);
}
void check_width(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 80, line);
}
void check_width(const Finished& finished) {
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  check_width(finished.out);
}

/// Puts a value in place of each measured one of a document, at most 9.9 for a ratio or share. Sizes and counts stay.
nlohmann::ordered_json with_measured(nlohmann::ordered_json document, double value) {
  for (const auto& item : document.items())
    if (item.value().is_structured())
      item.value() = with_measured(item.value(), value);
    else if (item.value().is_number_float())
      item.value() = item.key() == "share" || item.key().ends_with("ratio") ? std::min(value, 9.9) : value;
  return document;
}

}  // namespace

TEST_CASE("bench: the median of an even number of times is the upper one") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 3);
}

TEST_CASE("bench: a bound is the longer of the times for products and for bytes") {
  const Roofline roofline{1e9, 1e12};
  CHECK(roofline.bound(2e12, 1e9) == 2);  // products take longer
  CHECK(roofline.bound(1e12, 3e9) == 3);  // bytes do
}

TEST_CASE("bench: large numbers are printed with three digits and a prefix") {
  CHECK(scaled(0.5) == "0.50 ");
  CHECK(scaled(999.4) == "999 ");
  CHECK(scaled(999.6) == "1.00 k");
  CHECK(scaled(4.213e12) == "4.21 T");
  CHECK(scaled(71.23e12) == "71.2 T");
  CHECK(scaled(712.3e12) == "712 T");
}

TEST_CASE("bench: a number is rounded to decimals") { CHECK(rounded(1.23456, 2) == 1.23); }

TEST_CASE("bench: noise fills a tensor with values inside its scale") {
  on_each_device([] {
    for (const DType dtype : storage_types()) {
      Arena memory(current_device().memory());
      Backend& backend = current_device().backend;
      const Tensor made = noise(backend, memory, {1000}, dtype, 2.0f, 1);
      double low = 0, high = 0, sum = 0;
      for (std::int64_t i = 0; i < made.size(); ++i) {
        const double value = dtype == DType::bf16 ? double(float(made.data<bf16>()[i])) : double(made.data<float>()[i]);
        low = std::min(low, value), high = std::max(high, value), sum += value;
      }
      CHECK(low < -1.9);
      CHECK(low >= -2.0);
      CHECK(high > 1.9);
      CHECK(high <= 2.0);
      CHECK(std::abs(sum / 1000) < 0.1);
    }
  });
}

TEST_CASE("bench: the speed of copies and products is measured on each device") {
  on_each_device([] {
    ShardPool pool(2);
    for (const DType dtype : storage_types()) {
      Backend& backend = backend_for(dtype);
      const Roofline roofline = measure_roofline(backend, pool, dtype, 64, 16, 0);
      CHECK(roofline.bytes_per_second > 0);
      CHECK(roofline.flops_per_second > 0);
    }
  });
}

TEST_CASE("bench: each product of a linear layer is measured with its bytes") {
  on_each_device([] {
    ShardPool pool(2);
    for (const DType dtype : storage_types()) {
      Backend& backend = backend_for(dtype);
      const double value = double(size_of(dtype));
      const std::vector<OpTiming> linear = time_linear(backend, pool, {"fc", {6, 8, 4}, 1, true}, dtype, 0);
      REQUIRE(linear.size() == 3);
      CHECK(linear[0].name == "fc forward");
      CHECK(linear[1].name == "fc dx");
      CHECK(linear[2].name == "fc dw");
      for (const OpTiming& t : linear) CHECK(t.cost.flops == 2 * 6 * 8 * 4);
      for (const OpTiming& t : linear) CHECK(t.seconds > 0);
      CHECK(linear[0].cost.bytes == (6 * 8 + 4 * 8 + 6 * 4) * value + 4 * (backend.rounds_bias() ? value : 4));
      CHECK(linear[1].cost.bytes == (6 * 4 + 4 * 8 + 6 * 8) * value);
      CHECK(linear[2].cost.bytes == (6 * 4 + 6 * 8) * value + (4 * 8 + 4) * 4);
      CHECK(time_linear(backend, pool, {"first", {6, 8, 4}, 1, false}, dtype, 0).size() == 2);
    }
  });
}

TEST_CASE("bench: both passes of every operation are measured with their bytes") {
  on_each_device([] {
    ShardPool pool(2);
    for (const DType dtype : storage_types()) {
      Backend& backend = backend_for(dtype);
      const OpSizes sizes{.images = 3, .tokens = 5, .width = 8, .heads = 2};
      const auto all = time_ops(backend, pool, sizes, dtype, bench_op_words(), 0);
      CHECK(all.size() == bench_op_words().size());
      for (const std::array<OpTiming, 2>& passes : all) {
        CAPTURE(passes[0].name);
        for (const OpTiming& t : passes) {
          CHECK(t.seconds >= 0);
          CHECK(t.cost.bytes > 0);
        }
        const double products = 4.0 * 3 * 2 * 5 * 5 * 4, tensor = 3 * 5 * 8 * double(size_of(dtype));
        if (passes[0].name != "attention") continue;
        CHECK(passes[0].cost.flops == products);
        CHECK(passes[1].cost.flops == 2.5 * products);
        CHECK(passes[0].cost.bytes == 4 * tensor);  // q, k, v, y
        CHECK(passes[1].cost.bytes == 7 * tensor);  // these but y, dy, and the gradients
      }
    }
  });
}

TEST_CASE("bench: the layers of a network have its multiply-adds") {
  const ViTConfig c = small_vit("pre_pre");
  double macs = 0;
  for (const LinearLayer& l : linear_layers(c, 5))
    macs += double(l.count) * double(l.dims.rows) * double(l.dims.in) * double(l.dims.out);
  const double attention = 2 * 2.0 * 16 * 16 * 24;  // scores and weighted sums of 16 tokens in two blocks
  CHECK(macs == 5 * (double(model_cost(c).macs) - attention));
}

TEST_CASE("bench: DeiT-S and Swin-T have as many parameters as timm's") {
  for (const auto& [shape, parameters] : {std::pair{"deit_s", 22050664}, std::pair{"swin_t", 28288354}})
    CHECK(model_cost(bench_model(bench_shape(shape), "pre_pre")).parameters == parameters);
}

TEST_CASE("bench: the operations of a step are timed on each device, with the kernels that they start") {
  on_each_device([] {
    BenchEngine bench(current_device().backend, small_vit("pre_pre"), two_images(), 1);
    bench.step();
    bench.engine->set_profiling(true);
    constexpr std::int64_t kSteps = 3;
    for (int i = 0; i < kSteps; ++i) bench.step();
    const Profile profile = bench.engine->profile();
    std::int64_t launches = 0;
    for (const OpTime& t : profile.times()) {
      CAPTURE(t.op);
      CHECK(t.seconds > 0);
      CHECK(t.launches % kSteps == 0);
      launches += t.launches;
      if (t.op == "layer_norm" && !t.backward)  // a kernel each on a GPU
        CHECK(t.launches == (current_device().backend.whole_batch() ? t.calls : 0));
    }
    CHECK((launches > 0) == current_device().backend.whole_batch());
  });
}

TEST_CASE("bench: every norm is measured on each device") {
  on_each_device([] {
    ShardPool pool(2);
    Backend& backend = current_device().backend;
    const Streams streams(backend, 64);
    for (const DType dtype : storage_types()) {
      for (std::size_t k = 1; k < kWordCount<NormKind>; ++k) {
        const auto kind = NormKind(k);
        CAPTURE(to_string(kind));
        if (parts_of(kind).inner > 0 && backend.whole_batch()) continue;  // a GPU needs a compiler for its formulas
        const NormTime time = time_norm(backend, pool, streams, parse_norm_shape("4x3x8"), dtype, norm_of(kind), 0);
        CHECK(time.train > 0);
        CHECK(time.eval > 0);
        const double tensor = 4 * 3 * 8 * double(size_of(dtype)),
                     passes = parts_of(kind).over == Statistics::batch ? 8 : 5;
        CHECK(time.train_bound == doctest::Approx(1e3 * passes * tensor / time.rate));
        CHECK(time.eval_bound == doctest::Approx(1e3 * 2 * tensor / time.rate));
      }
    }
  });
}

TEST_CASE("bench: whole networks are measured on each device") {
  on_each_device([] {
    Backend& backend = current_device().backend;
    CHECK(training_speed(backend, 1, small_vit("bn_ffnbn"), two_images(), 0) > 0);
    CHECK(inference_speed(backend, 1, small_vit("bn_ffnbn"), two_images(), 0) > 0);
  });
}

TEST_CASE("bench: a network without its batch norms is measured on each device") {
  on_each_device([] {
    Backend& backend = current_device().backend;
    const ModelConfig fused = fused_config(backend, small_vit("bn_ffnbn"));
    CHECK(!uses_batch_norm(fused));
    CHECK(model_cost(fused).norm_elements == 0);
    CHECK(inference_speed(backend, 1, fused, two_images(), 0) > 0);
  });
}

TEST_CASE("bench step: the JSON document has every field") {
  const TemporaryFolder folder;
  const nlohmann::json plain = json_of(bench(folder, kStep + kJson));
  check_keys(plain, {"shape", "device", "precision", "placement", "forms", "images_per_second", "step_ms", "peak_mb",
                     "network_mb", "gflops", "steps", "load", "publishable", "note"});
  CHECK(!plain.contains("roofline"));
  CHECK(plain["forms"] == "short");
  CHECK(json_of(bench(folder, kStep + " --full-forms" + kJson))["forms"] == "full");
}

TEST_CASE("bench step: --roofline adds the bounds to the JSON document") {
  const TemporaryFolder folder;
  const nlohmann::json bound = json_of(bench(folder, kStep + " --roofline" + kJson));
  check_keys(bound, {"roofline", "bytes", "products_bound_ms", "bytes_bound_ms", "share"});
  check_keys(bound["roofline"], {"copy_gb_per_second", "product_gflops"});
}

TEST_CASE("bench profile: the JSON document has every field of each operation") {
  const TemporaryFolder folder;
  const nlohmann::json times = json_of(bench(folder, kProfile + " --roofline" + kJson));
  check_keys(times, {"step_ms", "roofline", "operations", "rest_ms", "bound_ms", "floor_ms", "publishable"});
  double floor = 0, flops = 0, bytes = 0;
  for (const nlohmann::json& row : times["operations"]) {
    floor += row["bound_ms"].get<double>();
    flops += row["flops"].get<double>(), bytes += row["bytes"].get<double>();
  }
  CHECK(times["floor_ms"].get<double>() == doctest::Approx(floor).epsilon(0.01));
  const double product = flops / times["roofline"]["product_gflops"].get<double>() * 1e-6,
               copied = bytes / times["roofline"]["copy_gb_per_second"].get<double>() * 1e-6;
  CHECK(times["bound_ms"].get<double>() == doctest::Approx(std::max(product, copied)).epsilon(0.01));
  for (const nlohmann::json& row : times["operations"])
    check_keys(row, {"operation", "direction", "calls", "ms", "share_of_step", "flops", "bytes", "bound_ms", "share"});
}

TEST_CASE("bench ops: the JSON document has every field of both passes") {
  const TemporaryFolder folder;
  const nlohmann::json both = json_of(bench(folder, kOps + " --op attention" + kJson));
  check_keys(both, {"batch", "tokens", "heads", "head_dim", "roofline", "publishable"});
  REQUIRE(both["operations"].size() == 2);
  for (const nlohmann::json& row : both["operations"])
    check_keys(row, {"op", "direction", "ms", "gflops", "gb_per_second", "flops", "bytes", "bound_ms", "share"});
  CHECK(both["operations"][0]["direction"] == "forward");
  CHECK(both["operations"][0]["flops"] == 4 * 2 * 9 * 9 * 8);
}

TEST_CASE("bench: the text of a document has a line per value and a table per list, with units and rates") {
  const nlohmann::ordered_json document{
      {"step_ms", 1.23456},
      {"peak_mb", 18},
      {"limits", {{"copy_gb_per_second", 29.61}}},
      {"rows",
       {{{"op", "linear"}, {"ms", 0.5}, {"flops", 1e9}, {"share", 0.5}, {"ratio", nullptr}},
        {{"op", "add"}, {"ms", 12.0}, {"flops", 0.0}, {"share", 1.25}, {"ratio", 0.97494}}}},
      {"parameters", 28288354}};
  CHECK(bench_text(document) ==
        "step ms    1.235\n"
        "peak MB    18\n"
        "copy GB/s  29.61\n"
        "params     28.3 M\n"
        "\n"
        "              share\n"
        "op         ms     % ratio GFLOP/s\n"
        "linear 0.5000  50.0     -    2000\n"
        "add     12.00 125.0 0.975\n");
}

TEST_CASE("bench models: the JSON document has every field of each network") {
  const TemporaryFolder folder;
  const nlohmann::json networks = json_of(bench(folder, kModels + kJson));
  check_keys(networks, {"batch", "image", "precision", "publishable"});
  REQUIRE(networks["rows"].size() == 3);
  for (const nlohmann::json& row : networks["rows"])
    check_keys(row, {"model", "norm", "parameters", "macs", "train_images_per_second", "train_ratio",
                     "infer_images_per_second", "infer_ratio", "published_train", "published_infer"});
  CHECK(networks["rows"][0]["train_ratio"] == 1.0);
  CHECK(networks["rows"][2]["train_images_per_second"].is_null());  // a merged network is not trained
}

TEST_CASE("bench update: the JSON document has every field of an optimiser") {
  const TemporaryFolder folder;
  const nlohmann::json update = json_of(bench(folder, "update --shape micro --seconds 0.001 --threads 1" + kJson));
  REQUIRE(update["optimisers"].size() > 0);
  check_keys(update["optimisers"][0], {"optimiser", "ms", "state_bytes"});
}

TEST_CASE("bench norms: a published table has a row for each of its lines") {
  const TemporaryFolder folder;
  const nlohmann::json norms = json_of(bench(folder, "norms --table dyt --seconds 0.001 --threads 2" + kJson));
  CHECK(norms["table"] == "dyt");
  CHECK(norms["rows"].size() == 6);
}

TEST_CASE("bench norms: only the named kinds are measured") {
  const TemporaryFolder folder;
  const nlohmann::json norms =
      json_of(bench(folder, "norms --shape 8x16 --norm derf l2 --seconds 0.001 --threads 1" + kJson));
  REQUIRE(norms["rows"].size() == 2);
  CHECK(norms["rows"][0]["norm"] == "derf");
  CHECK(norms["rows"][1]["norm"] == "l2");
}

TEST_CASE("bench: the text of each command fits 80 columns") {
  const TemporaryFolder folder;
  for (const std::string& command : {kStep + " --roofline", kProfile + " --roofline", kProfile, kOps, kModels}) {
    CAPTURE(command);
    const Finished text = bench(folder, command), json = bench(folder, command + kJson);
    check_width(text);
    REQUIRE(json.code == 0);
    auto document = nlohmann::ordered_json::parse(json.out);
    document.erase("note");                                               // the text has it on standard error
    for (const double value : {0.00012, 0.97494, 9.9, 12345.6, 99999.0})  // a machine may be slow or fast
      check_width(bench_text(with_measured(document, value)));
  }
}

TEST_CASE("bench norms: a published table is printed with the published times") {
  const TemporaryFolder folder;
  const Finished table = run_program(folder, "bench norms --table batch_norm --seconds 0.001 --threads 2");
  check_width(table);
  for (const char* part : {"Table 5", "training", "inference", "all blocks", "43.90", "20.72", "19.80", "8.260"})
    CHECK_MESSAGE(table.out.find(part) != std::string::npos, part);
}

TEST_CASE("bench: options that do not fit are refused") {
  const TemporaryFolder folder;
  for (const char* words :
       {"models --models resnet", "models --batch 1", "models --image 16", "norms --table other",
        "norms --table dyt --shape 4x4", "norms --table dyt --norm derf", "norms --norm whiten", "ops --tokens 0",
        "ops --shape swin_t", "ops --batch 65536 --tokens 65536", "ops --op nothing", "gemm --precision tf32",
        "gemm --shape swin_t", "gemm --device gpu", "step --format xml", "step --precision fp16"}) {
    const Finished refused = run_program(folder, std::string("bench ") + words);
    CHECK_MESSAGE(refused.code == 2, words << ": " << refused.err);
    CHECK_MESSAGE(!refused.err.empty(), words);
    CHECK(refused.out.empty());
  }
}

}  // namespace normlab
