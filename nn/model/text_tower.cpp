#include "nn/model/text_tower.h"

#include <cmath>

namespace normlab {

TextTower::TextTower(ParameterSet& p, const ViTConfig& config) : config_(text_tower(config)) {
  const ViTConfig& c = config_;
  const BlockSizes sizes = block_sizes(c).front();
  Place place{.stage = std::string(kTextStage)};
  const auto add = [&](const char* name, const Shape& shape, Role role, double start = 0) {
    return p.add(concat(kTextStage, name), shape, {.role = role, .place = place, .start = start});
  };
  const auto norm = [&](SiteMember site) { return Norm(p, place, site, c.placement, sizes); };
  embedding_ = add("embedding", {config.text.vocabulary, c.embed_dim}, Role::embedding);
  embedded_ = norm(&StemSites::patch_out);
  positions_ = add("pos_embed", {1, c.tokens(), c.embed_dim}, Role::embedding);
  posembed_out_ = norm(&StemSites::posembed_out);
  blocks_.reserve(static_cast<std::size_t>(c.depth));
  for (place.block = 0; place.block < c.depth; ++place.block) {
    ++place.layer;
    blocks_.emplace_back(p, BranchConfig(c, place, sizes, c.depth));
  }
  place.block = -1;
  ++place.layer;
  streams_ = ResidualStreams(p, place, c.placement, sizes);
  final_ = norm(&Placement::final);
  pooled_ = norm(&Placement::pooled);
  out_ = Linear(p, place, Role::rep, c.embed_dim, config.feature_width());
  temperature_ = add("temperature", {1}, Role::gain, std::log(config.text.temperature));
  bias_ = add("bias", {1}, Role::gain, config.text.bias);
}

void TextTower::prepare(Backend& backend, std::int64_t texts, DType dtype) const {
  for (const Block& block : blocks_) block.prepare(backend, texts, config_.tokens(), dtype);
  out_.prepare(backend, texts, dtype);
}

Var TextTower::operator()(Tensor ids, DType dtype, const Shard& shard) const {
  require_shape("text tower", "ids", ids.shape(), {ids.shape()[0], config_.tokens()});
  shard.tape.at("text.embedding");
  Var z = embedded_(embed(shard.parameter(embedding_), ids, dtype), shard);
  z = streams_.begin(posembed_out_(add_positions(z, shard.parameter(positions_)), shard));
  for (const Block& block : blocks_) z = block(z, shard);
  shard.tape.at("text.pool");
  return out_(pooled_(select_tokens(final_(streams_.end(z, shard), shard), config_.tokens() - 1, 1), shard), shard);
}

Var TextTower::losses(const Var& features, Tensor ids, ContrastKind kind, const Shard& shard) const {
  const Var texts = (*this)(ids, features.value().dtype(), shard);
  shard.tape.at("contrast");
  return contrastive_loss(unit_rows(features), unit_rows(texts), shard.parameter(temperature_), shard.parameter(bias_),
                          kind, shard.slice);
}

}  // namespace normlab
