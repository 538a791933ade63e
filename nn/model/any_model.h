// A network as the engine sees it: images to logits.
#pragma once

#include "nn/model/step.h"

namespace normlab {

class TextTower;

class Model {
 public:
  virtual ~Model() = default;
  /// images [B, H, W, C] to logits [B, num_classes], or [B, rows, columns, num_classes] for task segment.
  virtual Var operator()(const Var& images, const Shard& shard) const = 0;
  /// The same from the head's inputs [B, width], which operator() shows as "pre_logits". A distillation head is left
  /// out.
  virtual Var head(const Var& features, const Shard& shard) const = 0;
  /// The text tower, which takes the place of the head; null without one.
  virtual const TextTower* text() const { return nullptr; }
  /// Lets `backend` prepare the products of a shard of `images`, so that no step has to.
  virtual void prepare(Backend& backend, std::int64_t images, DType dtype) const = 0;
  /// Whether only the images that drop-path keeps pass through a branch.
  virtual bool skips_dropped(Backend& backend) const = 0;
};

}  // namespace normlab
