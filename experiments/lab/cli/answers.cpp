#include "experiments/lab/cli/answers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/lab/tables/markup.h"

namespace normlab {

double largest_probability(std::span<const double> logits, bool sigmoid) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  if (sigmoid) return 1 / (1 + std::exp(-largest));
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return 1 / sum;
}

void Answers::add(std::string file, std::optional<std::int32_t> label, std::int32_t answer, double probability) {
  answers_.push_back({std::move(file), label, answer, probability});
}

std::string Answers::predictions_csv() const {
  const bool labelled = !answers_.empty() && answers_.front().label.has_value();
  std::string csv = labelled ? "file,true_class,answer,probability\n" : "file,answer,probability\n";
  for (const Answer& one : answers_) {
    csv += csv_cell(one.file) + ',';
    if (one.label) csv += csv_cell(name(*one.label)) + ',';
    csv += fmt::format("{},{}\n", csv_cell(name(one.answer)), one.probability);
  }
  return csv;
}

std::string Answers::confusion_csv() const {
  std::vector<std::vector<std::int64_t>> images(class_names_.size(), std::vector<std::int64_t>(class_names_.size()));
  for (const Answer& one : answers_)
    if (one.label) ++images[static_cast<std::size_t>(*one.label)][static_cast<std::size_t>(one.answer)];
  std::string csv = "true class / answer";
  for (const std::string& name : class_names_) csv += ',' + csv_cell(name);
  csv += '\n';
  for (std::size_t row = 0; row < class_names_.size(); ++row) {
    csv += csv_cell(class_names_[row]);
    for (const std::int64_t count : images[row]) csv += fmt::format(",{}", count);
    csv += '\n';
  }
  return csv;
}

}  // namespace normlab
