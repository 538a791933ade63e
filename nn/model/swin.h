// The Swin Transformer, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows" (Liu et al. 2021),
// with a norm of any kind at every site. Residual branches as in the ViT (branches.h).
#pragma once

#include <vector>

#include "nn/model/any_model.h"
#include "nn/model/branches.h"
#include "nn/model/swin_config.h"

namespace normlab {

class Swin final : public Model {
 public:
  /// Declares all parameters, in the order in which data passes them: `stages.S.merge...`, `stages.S.reduction.weight`
  /// (from the second stage on), `stages.S.blocks.I...`. Throws InputError with every problem of `config`.
  Swin(ParameterSet& parameters, const SwinConfig& config);
  Swin(const Swin&) = delete;
  Swin& operator=(const Swin&) = delete;

  Var operator()(const Var& images, const Shard& shard) const override;
  Var head(const Var& features, const Shard& shard) const override;
  void prepare(Backend& backend, std::int64_t images, DType dtype) const override;
  bool skips_dropped(Backend& backend) const override { return stages_.back().blocks.back().skips_dropped(backend); }
  const SwinConfig& config() const { return config_; }

 private:
  struct Stage {
    SwinStage sizes;
    std::string name;
    Norm merge;
    Linear reduction;
    std::vector<Block> blocks;
  };

  SwinConfig config_;
  Norm patch_in_, patch_out_, final_, pooled_;
  Linear patch_embed_, head_;
  std::vector<Stage> stages_;
};

}  // namespace normlab
