// What the tokens of a Swin see: windows of a shifted grid never join its opposite edges.
#include <doctest/doctest.h>

#include <cmath>

#include "core/backend.h"
#include "nn/model/model.h"
#include "nn/model/resize_positions.h"
#include "nn/training/engine.h"

using namespace normlab;

namespace {

using Pixels = std::vector<double>;

SwinConfig one_stage(PatchGrid grid, std::int64_t window, WindowPadding padding) {
  SwinConfig c;
  c.patch_size = 1;
  c.image_size = {grid.height, grid.width};
  c.window = window;
  c.window_padding = padding;
  c.embed_dim = 8;
  c.depths = {2};
  c.num_heads = {2};
  c.mlp_ratio = 1;
  c.num_classes = 3;
  c.placement = swin_placement(find_placement("pre_pre")->placement);
  return c;
}

Pixels noise(std::size_t count, std::string_view name) {
  Pixels values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = normal(stream_key(7, "test", name), i);
  return values;
}

/// Logits of one image in double, all parameters being normal noise.
std::vector<double> logits(const SwinConfig& c, const Pixels& pixels) {
  ParameterSet parameters;
  const std::unique_ptr<Model> model = make_model(parameters, c);
  parameters.allocate(DType::f64, 1);
  for (std::size_t i = 0; i < parameters.parameters().size(); ++i) {
    const Tensor value = parameters.value(int(i));
    const Pixels values = noise(std::size_t(value.size()), parameters.parameters()[i].name);
    for (std::size_t k = 0; k < values.size(); ++k) value.data<double>()[k] = 0.5 * values[k];
  }
  Arena arena;
  Tape tape(cpu_backend(), arena);
  Pixels copy = pixels;
  const Var images = tape.input(Tensor(copy.data(), {1, c.image_size[0], c.image_size[1], c.channels}, DType::f64));
  const Step step{.parameters = parameters};
  const Tensor out = (*model)(images, {.step = step, .tape = tape, .lane = 0, .slice = {1, 0, 1, nullptr}}).value();
  return {out.data<double>(), out.data<double>() + out.size()};
}

/// The largest f(x + a + b) - f(x + a) - f(x + b) + f(x) of a logit f, where a and b change the first and the last row
/// (or column) of patches. 0 if no token depends on both.
double interaction(PatchGrid grid, std::int64_t window, WindowPadding padding, bool of_columns) {
  const SwinConfig c = one_stage(grid, window, padding);
  const auto count = std::size_t(grid.height * grid.width * c.channels);
  const Pixels x = noise(count, "image"), change = noise(count, "change");
  const auto changed = [&](bool first, bool last) {
    Pixels y = x;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t patch = std::int64_t(i) / c.channels;
      const std::int64_t at = of_columns ? patch % grid.width : patch / grid.width;
      const std::int64_t end = (of_columns ? grid.width : grid.height) - 1;
      if ((first && at == 0) || (last && at == end)) y[i] += change[i];
    }
    return logits(c, y);
  };
  const auto both = changed(true, true), a = changed(true, false), b = changed(false, true),
             none = changed(false, false);
  double largest = 0;
  for (std::size_t k = 0; k < none.size(); ++k) largest = std::max(largest, std::abs(both[k] - a[k] - b[k] + none[k]));
  return largest;
}

}  // namespace

// Two blocks carry a change through two windows at most, so grids of 15 tokens a side keep the edges apart.
TEST_CASE("swin windows: opposite edges do not interact, whether windows divide the grid or not") {
  for (const PatchGrid grid : {PatchGrid{16, 16}, PatchGrid{15, 18}, PatchGrid{20, 23}, PatchGrid{21, 28}}) {
    CAPTURE(to_string(grid));
    for (const bool of_columns : {false, true})
      CHECK(interaction(grid, 7, WindowPadding::before_shift, of_columns) < 1e-12);
  }
}

TEST_CASE("swin windows: padding after the shift joins the opposite edges of a padded grid alone") {
  const auto joins = [](PatchGrid grid, bool of_columns) {
    return interaction(grid, 7, WindowPadding::after_shift, of_columns) > 1e-6;
  };
  CHECK(joins({16, 16}, false));
  CHECK(joins({16, 16}, true));
  CHECK_FALSE(joins({21, 16}, false));
  CHECK(joins({21, 16}, true));
  CHECK_FALSE(joins({21, 21}, true));
}

TEST_CASE("swin windows: where nothing shifted is padded, both paddings give the same bits") {
  for (const PatchGrid grid : {PatchGrid{8, 8}, PatchGrid{4, 12}, PatchGrid{12, 4}, PatchGrid{4, 4}}) {
    CAPTURE(to_string(grid));
    const Pixels x = noise(std::size_t(grid.size() * 3), "image");
    const SwinConfig before = one_stage(grid, 4, WindowPadding::before_shift);
    SwinConfig after = before;
    after.window_padding = WindowPadding::after_shift;
    REQUIRE_FALSE(pads_shifted(before));
    CHECK(logits(before, x) == logits(after, x));
  }
}

TEST_CASE("swin windows: a network that never shifted one side alone is refused") {
  SwinConfig c = one_stage({4, 12}, 4, WindowPadding::before_shift);
  ShardPool pool(1);
  CHECK_NOTHROW(Engine(cpu_backend(), pool, c, {}));
  c.one_side_unshifted = true;
  CHECK_THROWS_WITH_AS(Engine(cpu_backend(), pool, c, {}), doctest::Contains("of an earlier version"), InputError);
}
