// A network and a batch for tests of whole steps.
#pragma once

#include <string_view>

#include "core/arena.h"
#include "core/random.h"
#include "nn/model/model_config.h"

namespace normlab {

/// Two blocks of width 24 on images of 16 pixels, seven classes.
inline ViTConfig small_vit(std::string_view placement) {
  ViTConfig c;
  c.image_size = {16, 16};
  c.embed_dim = 24;
  c.depth = 2;
  c.num_heads = 3;
  c.mlp_dim = 96;
  c.num_classes = 7;
  c.placement = find_placement(placement)->at(c.depth);
  return c;
}

/// Three stages of 8 x 10, 4 x 5 and 2 x 3 tokens in windows of 4, 4 and 2: shifted, padded, and an odd side merged.
inline SwinConfig small_swin(std::string_view placement) {
  SwinConfig c;
  c.image_size = {16, 20};
  c.patch_size = 2;
  c.window = 4;
  c.embed_dim = 12;
  c.depths = {2, 2, 1};
  c.num_heads = {2, 2, 4};
  c.mlp_ratio = 2;
  c.num_classes = 7;
  c.placement = swin_placement(find_placement(placement)->at(c.depth()));
  return c;
}

/// Images of normal noise, and labels in turn.
struct Batch {
  Arena memory;
  Tensor images, labels;
  Batch(const ModelConfig& c, std::int64_t batch, DType dtype = DType::f32, std::uint64_t seed = 5) {
    images = memory.empty({batch, image_size(c)[0], image_size(c)[1], channels(c)}, dtype);
    labels = memory.empty({batch}, DType::i32);
    const StreamKey key = stream_key(seed, "test", "images");
    for (std::int64_t i = 0; i < images.size(); ++i) {
      const double v = normal(key, static_cast<std::uint64_t>(i));
      if (dtype == DType::f64)
        images.data<double>()[i] = v;
      else if (dtype == DType::bf16)
        images.data<bf16>()[i] = bf16(v);
      else
        images.data<float>()[i] = static_cast<float>(v);
    }
    for (std::int64_t i = 0; i < batch; ++i)
      labels.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % num_classes(c));
  }
};

}  // namespace normlab
