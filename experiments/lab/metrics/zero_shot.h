// Classification and retrieval by the angle between images and texts, as in Big Vision's evaluators
// (discriminative_classifier, retrieval).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/metrics/few_shot.h"

namespace normlab {

/// Lower case, `_` as a space, no punctuation but braces, single spaces.
std::string plain_text(std::string_view text);
/// The text of each template with {} replaced by the class name up to its first comma, both in plain form. Without
/// templates the name alone.
std::vector<std::string> class_texts(const std::string& name, const std::vector<std::string>& templates);

/// Divides each row by its norm + 1e-8.
void make_unit(Features& rows);
/// One unit row per class: that of the mean of its `per_class` unit rows.
Features class_vectors(const Features& unit_texts, std::size_t per_class);
/// For each unit row of `queries` the most similar row of `among`; the first of equals.
std::vector<std::int32_t> most_similar(const Features& queries, const Features& among);
/// Of one unit row to each row of `among`.
std::vector<double> similarities(std::span<const double> row, const Features& among);
/// The mean loss of the pairs of image i and text i, in batches of `batch` in this order; a single last pair joins the
/// batch before. `t`, `b`: see contrastive_loss() in autograd/contrast.h.
double contrastive_loss_of(const Features& images, const Features& texts, std::size_t batch, bool sigmoid, double t,
                           double b);

}  // namespace normlab
