#include "autograd/contrast.h"
#include "experiments/lab/metrics/zero_shot.h"
#include "tests/reference/graph.h"

namespace normlab::reference {
namespace {

std::vector<Results> contrastive(const Fixture& f) {
  Graph g(f);
  const bool sigmoid = f.op() == "contrastive_sigmoid";
  const std::int64_t pairs = f.shape("in/image")[0];
  SingleShard alone;
  const Tensor no_bias = g.arena().empty({1}, DType::f32);
  *no_bias.data<float>() = 0;
  const Var b = sigmoid ? g["b"] : g["t"].tape().input(no_bias);
  return {g.finish_mean(contrastive_loss(unit_rows(g["image"]), unit_rows(g["text"]), g["t"], b,
                                         sigmoid ? ContrastKind::sigmoid : ContrastKind::softmax,
                                         {pairs, 0, pairs, &alone}))};
}

Features features(const Fixture& f, const std::string& name) {
  Features rows{static_cast<std::size_t>(f.shape(name).back()), f.numbers(name)};
  make_unit(rows);
  return rows;
}

std::vector<Results> zero_shot(const Fixture& f) {
  const Features images = features(f, "in/image");
  const Features classes = class_vectors(features(f, "in/texts"), static_cast<std::size_t>(f.shape("in/texts")[1]));
  const std::vector<std::int32_t> found = most_similar(images, classes);
  Results results{"double"};
  results.add("out/classes", f.shape("out/classes"), classes.values);
  results.add("out/predictions", f.shape("out/predictions"), {found.begin(), found.end()});
  std::vector<double> scores;
  for (std::size_t i = 0; i < images.rows(); ++i)
    for (std::size_t c = 0; c < classes.rows(); ++c) {
      double& score = scores.emplace_back(0);
      for (std::size_t k = 0; k < images.width; ++k) score += images.row(i)[k] * classes.row(c)[k];
    }
  results.add("out/scores", f.shape("out/scores"), scores);
  return {results};
}

}  // namespace

std::vector<Results> run_image_text(const Fixture& f) {
  if (f.op().starts_with("contrastive_")) return contrastive(f);
  if (f.op() == "zero_shot") return zero_shot(f);
  throw InputError(concat(f.name(), ": there is no rule for the operation ", f.op()));
}

}  // namespace normlab::reference
