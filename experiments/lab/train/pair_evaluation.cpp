#include "experiments/lab/train/tasks.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/visible_text.h"
#include "experiments/lab/data/tokeniser.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/metrics/zero_shot.h"
#include "experiments/lab/train/few_shot.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

/// Unit vectors.
Features vectors_of(Engine& engine, const Tokeniser& tokeniser, const std::vector<std::string>& texts) {
  const std::int64_t length = std::get<ViTConfig>(engine.config()).text.length;
  Features all;
  std::vector<double> some;
  for (std::size_t first = 0; first < texts.size(); first += std::size_t(kEvaluatedAtOnce)) {
    const std::size_t count = std::min(std::size_t(kEvaluatedAtOnce), texts.size() - first);
    std::vector<std::int32_t> words(count * std::size_t(length));
    for (std::size_t i = 0; i < count; ++i)
      tokeniser.write(texts[first + i], std::span(words).subspan(i * std::size_t(length), std::size_t(length)),
                      in_quotes(texts[first + i]));
    engine.features(Tensor(words.data(), {std::int64_t(count), length}, DType::i32), some);
    all.width = some.size() / count;
    require_finite(some, all.width,
                   [&](std::int64_t row) { return concat("the text ", in_quotes(texts[first + std::size_t(row)])); });
    all.values.insert(all.values.end(), some.begin(), some.end());
  }
  make_unit(all);
  return all;
}

double parameter(Engine& engine, const char* name) {
  return number_at(engine.parameters().read(engine.parameters().find(name)), 0);
}

}  // namespace

std::map<std::string, double> evaluate_pairs(const SliceCall& call) {
  const ImageSet& set = call.images;
  const TrialConfig& config = call.batches.config();
  Features images = features_of(call.engine, call.batches, set, call.pool);
  make_unit(images);
  const Features texts = vectors_of(call.engine, *set.tokeniser, set.captions);
  // Classes of equal texts have one vector, computed once: then the first of them is the most similar, whatever a
  // product rounds.
  std::vector<std::string> of_classes;
  std::map<std::vector<std::string>, std::size_t> row_of_texts;
  std::vector<std::size_t> row_of_class;
  std::vector<std::int32_t> first_of_row;
  for (std::size_t c = 0; c < set.class_names.size(); ++c) {
    const std::vector<std::string> of_class = class_texts(set.class_names[c], config.eval.templates);
    const auto [row, is_new] = row_of_texts.try_emplace(of_class, first_of_row.size());
    row_of_class.push_back(row->second);
    if (!is_new) continue;
    of_classes.insert(of_classes.end(), of_class.begin(), of_class.end());
    first_of_row.push_back(static_cast<std::int32_t>(c));
  }
  const Features classes =
      class_vectors(vectors_of(call.engine, *set.tokeniser, of_classes), of_classes.size() / first_of_row.size());
  const std::int64_t n = set.size();
  std::int64_t right_texts = 0, right_images = 0;
  ClassScores scores(std::int64_t(set.class_names.size()));
  const bool top = measures(config, EvalMetric::top5_accuracy);
  const auto of_all_classes = [&](const std::vector<double>& of_rows) {
    std::vector<double> all;
    for (const std::size_t row : row_of_class) all.push_back(of_rows[row]);
    return all;
  };
  std::vector<std::int32_t> found = most_similar(images, classes);
  for (std::int32_t& row : found) row = first_of_row[static_cast<std::size_t>(row)];
  const std::vector<std::int32_t> text = most_similar(images, texts), image = most_similar(texts, images);
  if (call.right != nullptr) *call.right = Correctness(n, set.hash);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto same = [&](std::int32_t other) { return set.captions[at] == set.captions[std::size_t(other)]; };
    scores.add(set.labels[at], found[at],
               top && among_top_answers(of_all_classes(similarities(images.row(at), classes)), set.labels[at]));
    right_texts += same(text[at]);
    right_images += same(image[at]);
    if (call.right != nullptr) call.right->set(i, found[at] == set.labels[at]);
  }
  const bool sigmoid = config.train.loss == LossKind::sigmoid;
  const double loss =
      contrastive_loss_of(images, texts, static_cast<std::size_t>(config.train.batch_size), sigmoid,
                          parameter(call.engine, "text.temperature"), parameter(call.engine, "text.bias"));
  if (call.facts != nullptr) {
    *call.facts = {n, constant_answer(scores.images(), sigmoid)};
    call.facts->guess.erase("loss");  // the loss is that of pairs, not of classes
  }
  std::map<std::string, double> metrics = class_metrics(scores, config, set, call.prefix);
  metrics[call.prefix + "text_recall1"] = double(right_texts) / double(n);
  metrics[call.prefix + "image_recall1"] = double(right_images) / double(n);
  metrics[call.prefix + "loss"] = loss;
  return metrics;
}

}  // namespace normlab
