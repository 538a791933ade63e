// What every model's configuration can report: its cost and its problems.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "nn/model/activation.h"
#include "nn/model/dropout_rates.h"
#include "nn/model/limits.h"
#include "nn/model/norm_formula.h"
#include "nn/model/sites.h"

namespace normlab {

/// Parameters, and multiply-adds for one image.
struct ModelCost {
  std::int64_t parameters = 0;
  std::int64_t macs =
      0;  // linear layers and both attention products; no norms but their matrices, softmax, GELU, biases or sums
  std::int64_t norm_elements = 0;  // values that pass a norm of any kind
  std::int64_t inside_norms = 0;   // values of an image between the operations of norms that have several
  /// Counts one multiply-add per value that passes a norm (convention of the Swin code and the batch norm paper).
  std::int64_t macs_with_norms() const { return macs + norm_elements; }
};

/// `key` is the config key at fault.
struct ConfigProblem {
  std::string key, message;
};

class ConfigChecks {
 public:
  void report(const std::string& key, const std::string& message) { problems_.push_back({key, message}); }
  void size(const std::string& key, std::int64_t value, Range range) {
    if (double(value) >= range.low && double(value) <= range.high) return;
    sizes_fit_ = false;
    report(key,
           concat(key, " must be from ", std::int64_t(range.low), " to ", std::int64_t(range.high), ", got ", value));
  }
  void rate(const std::string& key, double value) {
    if (!(value >= 0.0 && value < 1.0)) report(key, concat(key, " must be at least 0 and below 1, got ", value));
  }
  /// Checks the settings that every model has.
  template <class Config>
  void shared(const Config& c) {
    for_each_field<Config>([&](const auto& row) { sizes(std::string(row.key), c.*row.member, row.range); });
    if (c.dropout.equal())
      rate("dropout", c.dropout.stem);
    else
      for_each_field<DropoutRates>([&](const auto& row) { rate(concat("dropout.", row.key), c.dropout.*row.member); });
    rate("attention_dropout", c.attention_dropout);
    rate("drop_path", c.drop_path);
    if (const NormFormula* f = c.activation.formula; f && f->tree.reads(formula::kGate) != (c.mlp == MlpForm::gated))
      report("activation", c.mlp == MlpForm::gated
                               ? "mlp gated multiplies by g, which this formula does not read; write \"silu(x) * g\""
                               : "only mlp gated has a gate g; set \"mlp\": \"gated\" or leave g out");
  }
  /// Whether patches divide the image; checks that they are not too many.
  template <class Config>
  bool patches(const Config& c) {
    const auto [height, width] = c.image_size;
    const bool fit = height % c.patch_size == 0 && width % c.patch_size == 0;
    const std::int64_t patches = (height / c.patch_size) * (width / c.patch_size);
    if (!fit)
      report("patch_size", concat("patches of ", c.patch_size, " do not divide an image of ", height, " x ", width));
    else if (patches > limits::kTokens)
      report("patch_size",
             concat(patches, " patches per image; at most ", limits::kTokens, " are supported; use a larger patch"));
    return fit;
  }
  /// Checks that norms are only at sites that the model has and that suit their kind, that groups divide the channels,
  /// and that dyisru has a root.
  void sites(const Placement& placement, std::string_view SiteRow::*lacks, const std::vector<BlockSizes>& blocks) {
    visit_sites(placement, [&](const SiteRow& row, const NormSpec& spec) {
      if (spec.kind != NormKind::none && !(row.*lacks).empty()) report("placement", std::string(row.*lacks));
      if (parts_of(spec.kind).op == NormOp::product && !row.is(&StemSites::patch_in))
        report("placement",
               concat(row.path, ": ", to_string(spec.kind), " can only be at stem.patch_in, whose input no ",
                      "parameter of the network changes"));
    });
    for (const SiteRow& row : kSites) {
      const bool ends = std::holds_alternative<NormSpec Placement::*>(row.member) && row.width == SiteWidth::model;
      for (std::size_t block = ends ? blocks.size() - 1 : 0; block < blocks.size(); ++block) {
        const NormSpec& spec = norm_at(placement, row, std::int64_t(block));
        const std::int64_t width = width_of(row, placement, blocks[block]);
        if (applies(spec, PointwisePhi::dyisru) && spec.alpha_init < 0) {
          report("placement", concat(row.path, ": alpha_init of a ", to_string(spec.kind),
                                     " must not be negative, got ", spec.alpha_init));
          break;
        }
        const bool chosen = parts_of(spec.kind).has(&NormSpec::groups);
        if (!chosen || (spec.groups > 0 && width % spec.groups == 0)) continue;
        report("placement", concat(row.path, ": ", spec.groups, " groups do not divide ", width, " channels"));
        break;
      }
    }
  }
  /// Checks the final norm of a network whose features are the mean over the tokens. `otherwise` ends the advice.
  void final_before_mean(const NormSpec& spec, std::int64_t width, const char* otherwise = "") {
    if (mean_is_bias(spec, width))
      report("placement", concat("final: the mean of this norm over the tokens is its bias for every image, so nothing "
                                 "could be learnt; use another kind there",
                                 otherwise));
  }
  /// Checks what a second residual stream does not go with.
  void streams(const Placement& placement) {
    if (!placement.has_two_streams()) return;
    const NormSpec& spec = placement.stream_norm;
    const NormParts& parts = parts_of(spec.kind);
    if (!is_of_one_token(spec) || parts.op == NormOp::product || applies(spec, PointwisePhi::dyisru))
      report("placement", concat("stream_norm: ", parts.word, " cannot be there; use a norm of one token"));
    if (placement.residual_factor != ResidualFactor{} || placement.residual_scale)
      report("placement",
             "stream_norm: two streams have their own factors; leave out residual_factor and "
             "residual_scale");
  }
  /// Checks that every range of blocks lies in a network of `depth` blocks.
  void blocks(const Placement& placement, std::int64_t depth) {
    for (const BlockRange& range : placement.blocks)
      if (range.last >= depth)
        report("placement.blocks." + block_range_name(range.first, range.last),
               concat("there is no block ", range.last, ": depth ", depth, " has the blocks 0 to ", depth - 1));
  }
  bool sizes_fit() const { return sizes_fit_; }
  std::vector<ConfigProblem> take() { return std::move(problems_); }

 private:
  /// The whole numbers of a struct of settings.
  void sizes(const std::string& key, std::int64_t value, Range range) { size(key, value, range); }
  void sizes(const std::string& key, const std::array<std::int64_t, 2>& value, Range range) {
    size(key, value[0], range);
    if (value[1] != value[0]) size(key, value[1], range);
  }
  void sizes(const std::string& key, const std::vector<std::int64_t>& values, Range range) {
    for (const std::int64_t value : values) size(key, value, range);
  }
  template <class Other>
  void sizes(const std::string&, const Other&, Range) {}

  std::vector<ConfigProblem> problems_;
  bool sizes_fit_ = true;
};

/// Throws InputError with all of them, one line each.
inline void throw_if_any(const std::vector<ConfigProblem>& found) {
  std::string problems;
  for (const ConfigProblem& problem : found)
    problems += concat(problems.empty() ? "" : "\n", "model: ", problem.key, ": ", problem.message);
  if (!problems.empty()) throw InputError(problems);
}

}  // namespace normlab
