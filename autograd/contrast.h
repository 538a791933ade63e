// Operations of image-text training.
#pragma once

#include "autograd/ops.h"

namespace normlab {

/// Rows of `table` [words, width], one for each of the numbers `ids` i32 [.., n], to [.., n, width]: in `dtype`.
/// InputError for a number without a row, if it can be read here.
Var embed(const Var& table, Tensor ids, DType dtype);

/// x / (|x| + 1e-8) for each row, in the type of statistics (acc_of).
Var unit_rows(const Var& x);

enum class ContrastKind : std::uint8_t { softmax, sigmoid };

/// The contrastive loss of each pair of image and text of this shard, whose mean over the batch is
///   softmax: half the cross-entropy over all texts plus half that over all images (LiT, arXiv:2111.07991)
///   sigmoid: the sum over all texts of -log sigmoid of the logit, negative but for the pair's own (SigLIP,
///            arXiv:2303.15343)
/// image, text [images, width]: unit rows; t, b [1]: the logits are exp(t) cosine, for the sigmoid + b. The shards of
/// the batch meet once forward and once backward. Negatives come from the whole batch.
Var contrastive_loss(const Var& image, const Var& text, const Var& t, const Var& b, ContrastKind kind,
                     const BatchSlice& slice);

}  // namespace normlab
