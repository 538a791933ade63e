#include "experiments/lab/weights/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/visible_text.h"
#include "experiments/lab/descriptor/leave_out.h"
#include "experiments/lab/weights/model_name_tables.h"
#include "nn/model/vit.h"

namespace normlab {
namespace {

// Four half-units of float32 around 1: tables that other programs compute in float may differ by this much.
constexpr double kFixedTableTolerance = 3e-7;

std::string shape_text(const std::vector<std::uint64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// A file's tensors under the names of its scheme.
struct SourceTensor {
  HostTensor tensor;
  std::string name_in_file;
};
using SourceTensors = std::map<std::string, SourceTensor>;

std::string prefix_of(const Tensors& file, NameScheme scheme) {
  const name_tables::SchemeTable& candidates = name_tables::table_of(scheme);
  if (candidates.witness.empty()) return "";
  std::vector<std::string> found;
  for (const std::string_view prefix : candidates.prefixes)
    if (file.find(concat(prefix, candidates.witness)) != nullptr) found.emplace_back(prefix);
  if (found.size() == 1) return found.front();
  if (found.empty())
    throw InputError(
        fmt::format("{}: there is no \"{}\", neither on its own nor under {}; the tensors do not have the names of {}",
                    file.source(), candidates.witness,
                    fmt::join(candidates.prefixes.begin() + 1, candidates.prefixes.end(), ", "), word_of(scheme)));
  throw InputError(
      fmt::format("{}: holds networks under \"{}\" and \"{}\"; keep one of them", file.source(), found[0], found[1]));
}

/// Splits a tensor with a leading axis of blocks into one tensor per block.
void add_scanned(const HostTensor& tensor, NameScheme scheme, const std::string& name, std::int64_t depth,
                 SourceTensors& out, std::vector<std::string>& problems) {
  if (tensor.shape.empty() || tensor.shape[0] != static_cast<std::uint64_t>(depth)) {
    problems.push_back(fmt::format("{} is {}; its first axis must be the {} blocks of this model", shown(tensor.name),
                                   shape_text(tensor.shape), depth));
    return;
  }
  const std::size_t bytes = tensor.data.size() / tensor.shape[0];
  for (std::int64_t block = 0; block < depth; ++block) {
    HostTensor one = tensor;
    one.shape.erase(one.shape.begin());
    one.data = tensor.data.subspan(static_cast<std::size_t>(block) * bytes, bytes);
    const std::string spelled = *scanned_name(scheme, name, block);
    if (!out.try_emplace(spelled, SourceTensor{one, tensor.name}).second)
      problems.push_back(fmt::format("{} exists on its own and within {}", shown(spelled), shown(tensor.name)));
  }
}

/// Whether normlab computes a position table that is a tensor in timm.
bool has_fixed_positions(NameScheme scheme, const ModelConfig& config) {
  const auto* vit = std::get_if<ViTConfig>(&config);
  return scheme == NameScheme::timm && vit != nullptr && vit->pos_embed == PosEmbed::sincos2d;
}
std::vector<double> fixed_positions(const ViTConfig& c) {
  return sincos2d(patch_grid(c).height, patch_grid(c).width, c.embed_dim);
}

class Import {
 public:
  Import(const Tensors& file, NameScheme scheme, const ModelConfig& config, ParameterSet& into,
         const ImportOptions& options, ConversionReport& report, const OptionNames& names)
      : file_(file),
        scheme_(scheme),
        config_(config),
        vit_(std::get_if<ViTConfig>(&config)),
        into_(into),
        options_(options),
        left_out_(options.leave_out),
        report_(report),
        option_names_(names) {}

  void run() {
    check_network();
    take_names();
    for (const TensorLink& link : link_tensors(scheme_, config_, into_)) take(link);
    compare_fixed_positions();
    std::set<std::string> seen;  // a scanned tensor occurs once per block
    for (const auto& [name, source] : sources_)
      if (!used_.contains(source.name_in_file) && seen.insert(source.name_in_file).second)
        (left_out_.takes(name) ? report_.left_out : report_.left_over).push_back(source.name_in_file);
    if (const auto unused = left_out_.unused())
      problems_.push_back(fmt::format("no tensor matches {} of \"leave_out\"", in_quotes(options_.leave_out[*unused])));
    report_.matched = used_.size();
    throw_problems("");
  }

 private:
  void check_network() {
    for (const SchemeProblem& problem : scheme_problems(scheme_, config_)) {
      if (problem.kind == SchemeProblem::Kind::maths) problems_.push_back(problem.what);
      if (problem.kind == SchemeProblem::Kind::setting) report_.notes.push_back(problem.what);
    }
    throw_problems(fmt::format("{} has another model under these names:", word_of(scheme_)));
    const auto* swin = std::get_if<SwinConfig>(&config_);
    if (scheme_ == NameScheme::timm && swin != nullptr && pads_shifted(*swin))
      report_.notes.push_back(
          "window_padding is after_shift, as in timm: opposite edges of a padded grid see each other");
  }

  void take_names() {
    const std::string prefix = prefix_of(file_, scheme_);
    if (vit_ && vit_->rotary.dialect == RotaryDialect::eva02 && vit_->rotary.grid[0] == 0 && options_.grid &&
        *options_.grid != patch_grid(*vit_))
      problems_.push_back(
          fmt::format("its rotary positions count patches in another grid, {0}; give \"rotary\" its "
                      "\"grid\", such as [{1}, {2}]",
                      to_string(*options_.grid), options_.grid->height, options_.grid->width));
    const auto shows_official = [&](const HostTensor& t) { return shows_official_swin(scheme_, config_, t.name); };
    const bool official = std::any_of(file_.begin(), file_.end(), shows_official);
    if (official)
      report_.notes.push_back(
          "these are the names of Swin's authors: layers.N.downsample is timm's layers.N+1.downsample");
    for (const HostTensor& tensor : file_) {
      if (!tensor.name.starts_with(prefix)) {
        report_.left_over.push_back(tensor.name);
        continue;
      }
      const SourceName read = read_source_name(scheme_, config_, official, tensor.name.substr(prefix.size()));
      if (read.use == SourceName::Use::skip) {
        report_.skipped[std::string(read.why)].push_back(tensor.name);
      } else if (read.use == SourceName::Use::refuse) {
        problems_.push_back(fmt::format("{}: {}", shown(tensor.name), read.why));
      } else if (scanned_name(scheme_, read.name, 0)) {
        add_scanned(tensor, scheme_, read.name, vit_->depth, sources_, problems_);
      } else if (const auto [at, is_new] = sources_.try_emplace(read.name, SourceTensor{tensor, tensor.name});
                 !is_new) {
        problems_.push_back(fmt::format("{} and {} are the same tensor of the network", shown(tensor.name),
                                        shown(at->second.name_in_file)));
      }
    }
    if (vit_ && vit_->rotary.given() && vit_->qkv_bias) join_biases();
  }

  /// EVA has biases of queries and values as tensors of their own, and none of keys.
  void join_biases() {
    const auto width = static_cast<std::size_t>(vit_->embed_dim);
    for (std::int64_t block = 0; block < vit_->depth; ++block) {
      const std::string attention = concat("blocks.", block, ".attn.");
      const auto q = sources_.find(attention + "q_bias"), v = sources_.find(attention + "v_bias");
      if (q == sources_.end() || v == sources_.end() || !fits(q->second, {width}) || !fits(v->second, {width}))
        continue;
      std::vector<float> joined = q->second.tensor.floats(), last = v->second.tensor.floats();
      joined.resize(2 * width);
      joined.insert(joined.end(), last.begin(), last.end());
      used_.insert(v->second.name_in_file);
      const std::string name = attention + "qkv.bias";
      sources_.try_emplace(name,
                           SourceTensor{host_tensor(name, {3 * width}, std::move(joined)), q->second.name_in_file});
    }
  }

  void take(const TensorLink& link) {
    if (link.theirs.empty()) {
      report_.missing.push_back(fmt::format("{} ({} has no name for it)", link.ours, word_of(scheme_)));
      return;
    }
    const auto found = sources_.find(link.theirs);
    const ParameterInfo& ours =
        (link.is_buffer ? into_.buffers() : into_.parameters())[static_cast<std::size_t>(link.number)];
    const bool other_shape = found != sources_.end() && found->second.tensor.shape != link.their_shape;
    if (left_out_.takes(ours, other_shape)) {
      report_.left_out.push_back(link.ours);
      if (found != sources_.end()) used_.insert(found->second.name_in_file);
      return;
    }
    if (found == sources_.end()) {
      if (report_.missing.empty() || report_.missing.back() != link.theirs) report_.missing.push_back(link.theirs);
      return;
    }
    const SourceTensor& source = found->second;
    used_.insert(source.name_in_file);
    if (link.role == Role::positions) return take_positions(link, source);
    if (!fits(source, link.their_shape)) return;
    link.to_ours(floats(source), target(link).data<float>());
  }

  bool fits(const SourceTensor& source, const std::vector<std::uint64_t>& shape) {
    const std::string& dtype = source.tensor.dtype;
    if (dtype != "F32" && dtype != "F64" && dtype != "F16" && dtype != "BF16")
      problems_.push_back(
          fmt::format("{} holds {}; expected F32, F64, F16 or BF16", shown(source.name_in_file), dtype));
    else if (source.tensor.shape != shape)
      problems_.push_back(fmt::format("{} is {}, but this model needs {}", shown(source.name_in_file),
                                      shape_text(source.tensor.shape), shape_text(shape)));
    else
      return true;
    return false;
  }

  /// Cached until another tensor is requested: q, k and v come from the same one.
  const float* floats(const SourceTensor& source) {
    if (source.tensor.data.data() != floats_of_) floats_ = source.tensor.floats();
    floats_of_ = source.tensor.data.data();
    return floats_.data();
  }

  Tensor target(const TensorLink& link) const {
    return link.is_buffer ? into_.buffer(link.number) : into_.value(link.number);
  }

  /// Takes a table that may have another grid, or a row for the class token that this model lacks.
  void take_positions(const TensorLink& link, const SourceTensor& source) {
    const std::vector<std::uint64_t>& shape = source.tensor.shape;
    const std::uint64_t dim = link.their_shape[2];
    const bool is_table = shape.size() == 3 && shape[0] == 1 && shape[2] == dim && shape[1] > 0;
    if (!fits(source, is_table ? shape : link.their_shape)) return;
    const PatchGrid to = patch_grid(*vit_);
    const std::int64_t prefix = vit_->class_position() ? vit_->class_tokens() : 0;
    auto rows = static_cast<std::int64_t>(shape[1]);
    const auto has_more = [&](std::int64_t more) {
      return options_.grid
                 ? rows == options_.grid->size() + more
                 : rows == to.size() + more || (rows != to.size() && side_of(rows) == 0 && side_of(rows - more) > 0);
    };
    const std::int64_t registers =
        scheme_ == NameScheme::timm && has_more(prefix + vit_->registers) ? vit_->registers : 0;
    rows -= registers;
    const bool no_class_row = vit_->class_tokens() == 1 && !vit_->class_position();
    const bool class_row = no_class_row && has_more(1);
    const bool fold = class_row && stored_as_npz(scheme_);
    const std::optional<PatchGrid> from = grid_of(rows - prefix - (fold ? 1 : 0), to);
    if ((class_row && !fold) || !from || (*from != to && !options_.resize_positions)) {
      const bool same_shape = shape == link.their_shape;
      problems_.push_back(fmt::format("{} is {}, but this model needs {}", shown(source.name_in_file),
                                      same_shape ? "of another grid" : shape_text(shape),
                                      same_shape ? to_string(to) : shape_text(link.their_shape)));
      if (class_row && !fold)
        problems_.back() += "; its class token has a position: \"pos_embed_class\": true";
      else if (from)
        problems_.back() +=
            fmt::format("; {} its grid of {} to that of this model", option_names_.resize_positions, to_string(*from));
      else if (options_.grid)
        problems_.back() += fmt::format("; its network has a grid of {}", to_string(*options_.grid));
      else if (options_.resize_positions)
        problems_.back() +=
            "; nothing states its grid: run `normlab convert` on it with its own network in --model and without "
            "resizing, which writes a file that states it";
      return;
    }
    std::vector<float> table = source.tensor.floats();
    if (registers > 0) {  // timm's registers have positions where its class token has one
      const auto first = table.begin() + prefix * vit_->embed_dim, last = first + registers * vit_->embed_dim;
      float* tokens = into_.value(into_.find("reg_token")).data<float>();
      for (auto value = first; value != last; ++value) *tokens++ += *value;
      table.erase(first, last);
      report_.notes.push_back(
          fmt::format("{}: its rows of registers were added to the registers", shown(source.name_in_file)));
    }
    if (fold) {  // older files of Big Vision: the class token's position is now part of the token
      float* token = into_.value(into_.find("cls_token")).data<float>();
      for (std::size_t i = 0; i < dim; ++i) token[i] += table[i];
      table.erase(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(dim));
      report_.notes.push_back(fmt::format("{}: its row 0 is the class token's position and was added to the token",
                                          shown(source.name_in_file)));
    }
    if (*from != to) {
      ResizedPositions resized =
          resize_positions(table, vit_->embed_dim, *from, to, prefix, *options_.resize_positions);
      table = std::move(resized.table);
      report_.positions = resized.done;
      report_.notes.push_back(resized.done);
    }
    std::copy(table.begin(), table.end(), target(link).data<float>());
  }

  /// The grid of a table with that many patches, without a guess: none if its network has another number of them or, to
  /// be resized, if no network is stated and it is no square or may also be the model's.
  std::optional<PatchGrid> grid_of(std::int64_t patches, const PatchGrid& to) const {
    if (options_.grid) return patches == options_.grid->size() ? options_.grid : std::nullopt;
    if (patches == to.size() && (!options_.resize_positions || to.height == to.width)) return to;
    const std::int64_t side = side_of(patches);
    if (side == 0 || patches == to.size()) return std::nullopt;
    return PatchGrid{side, side};
  }

  /// Side of a square grid with this many patches; 0 if there is none.
  static std::int64_t side_of(std::int64_t patches) {
    const auto side = patches > 0 ? static_cast<std::int64_t>(std::llround(std::sqrt(double(patches)))) : 0;
    return side * side == patches ? side : 0;
  }

  /// Checks that a position table stored in timm's file equals the one computed here.
  void compare_fixed_positions() {
    if (!has_fixed_positions(scheme_, config_)) return;
    const auto found = sources_.find("pos_embed");
    if (found == sources_.end()) return;
    const auto dim = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
    const SourceTensor& source = found->second;
    used_.insert(source.name_in_file);
    if (!fits(source, {1, dim(vit_->patches()), dim(vit_->embed_dim)})) return;
    const std::vector<double> table = fixed_positions(*vit_), theirs = source.tensor.doubles();
    double difference = 0.0;
    for (std::size_t i = 0; i < table.size(); ++i) difference = std::max(difference, std::abs(table[i] - theirs[i]));
    if (!(difference <= kFixedTableTolerance))
      problems_.push_back(
          fmt::format("{} differs from sincos2d by {:.3g}; for learned positions set \"pos_embed\": "
                      "\"learned\"",
                      shown(source.name_in_file), difference));
  }

  void throw_problems(const std::string& heading) {
    if (problems_.empty()) return;
    std::string text = heading.empty() ? "" : fmt::format("{}: {}\n", file_.source(), heading);
    for (const std::string& problem : problems_) text += fmt::format("{}: {}\n", file_.source(), problem);
    text.pop_back();
    throw InputError(text);
  }

  const Tensors& file_;
  const NameScheme scheme_;
  const ModelConfig& config_;
  const ViTConfig* vit_;  // null for a Swin
  ParameterSet& into_;
  const ImportOptions& options_;
  LeaveOut left_out_;
  ConversionReport& report_;
  const OptionNames& option_names_;
  SourceTensors sources_;
  std::set<std::string> used_;  // names in the file
  std::vector<std::string> problems_;
  std::vector<float> floats_;
  const std::byte* floats_of_ = nullptr;
};

}  // namespace

std::string ConversionReport::text() const {
  std::string out =
      fmt::format("{} tensors matched, {} missing, {} left over", matched, missing.size(), left_over.size());
  std::size_t passed_over = 0;
  for (const auto& [why, names] : skipped) passed_over += names.size();
  if (passed_over > 0) out += fmt::format(", {} skipped", passed_over);
  if (!left_out.empty()) out += fmt::format(", {} left out", left_out.size());
  out += '\n';
  for (const std::string& name : missing) out += fmt::format("  missing    {}\n", shown(name));
  for (const std::string& name : left_over) out += fmt::format("  left over  {}\n", shown(name));
  for (const std::string& name : left_out) out += fmt::format("  left out   {}\n", shown(name));
  for (const auto& [why, names] : skipped)
    out += names.size() == 1
               ? fmt::format("  skipped    {} ({})\n", shown(names.front()), why)
               : fmt::format("  skipped    {} and {} more ({})\n", shown(names.front()), names.size() - 1, why);
  for (const std::string& note : notes) out += fmt::format("  note       {}\n", note);
  return out;
}

/// A prefix of all names in the file without which some are names of the network; "" if there is none.
static std::string extra_prefix(const Tensors& file, NameScheme scheme, const ModelConfig& config,
                                const ParameterSet& set) {
  std::set<std::string> known;
  for (const TensorLink& link : link_tensors(scheme, config, set)) known.insert(link.theirs);
  const std::string first = file.size() > 0 ? file.begin()->name : "";
  for (std::size_t dot = first.find('.'); dot != first.npos; dot = first.find('.', dot + 1)) {
    std::string prefix = first.substr(0, dot + 1);
    const auto all = [&](const auto& fits) { return std::all_of(file.begin(), file.end(), fits); };
    if (!all([&](const HostTensor& tensor) { return tensor.name.starts_with(prefix); })) break;
    if (!all([&](const HostTensor& tensor) { return !known.contains(tensor.name.substr(prefix.size())); }))
      return prefix;
  }
  return "";
}

void import_weights(const Tensors& file, NameScheme scheme, const ModelConfig& config, const ImportOptions& options,
                    ParameterSet& into, ConversionReport& report, const OptionNames& names) {
  Import(file, scheme, config, into, options, report, names).run();
  std::string refusal;
  const auto refuse = [&](std::size_t count, bool allowed, std::string_view what, std::string_view advice) {
    if (count > 0 && !allowed)
      refusal +=
          fmt::format("{}{}: {} tensors {}; {}", refusal.empty() ? "" : "\n", file.source(), count, what, advice);
  };
  refuse(report.missing.size(), options.allow_missing, "are missing", names.missing);
  refuse(report.left_over.size(), options.allow_left_over, "are left over", names.left_over);
  if (report.matched == 0 && (!refusal.empty() || options.allow_missing)) {
    const std::string prefix = extra_prefix(file, scheme, config, into);
    refusal =
        fmt::format("{}{}{}: no tensor has a name of the network", refusal, refusal.empty() ? "" : "\n", file.source());
    if (!prefix.empty()) refusal += fmt::format("; all names begin with {}; save them without it", in_quotes(prefix));
  }
  if (!refusal.empty()) throw InputError(refusal);
}

Tensors export_weights(const ParameterSet& weights, const ModelConfig& config, NameScheme scheme) {
  std::string problems;
  for (const SchemeProblem& problem : scheme_problems(scheme, config)) problems += fmt::format("\n  {}", problem.what);
  if (!problems.empty()) throw InputError(fmt::format("{} cannot hold this model:{}", word_of(scheme), problems));

  struct Whole {
    std::vector<std::uint64_t> shape;
    std::vector<float> values;
  };
  std::vector<std::string> order;
  std::map<std::string, Whole> whole;  // one of their tensors may consist of three of ours
  for (const TensorLink& link : link_tensors(scheme, config, weights)) {
    if (link.theirs.empty())
      throw InputError(
          fmt::format("{} cannot hold this model, because it has no name for {}", word_of(scheme), link.ours));
    const auto [at, is_new] = whole.try_emplace(link.theirs);
    if (is_new) {
      order.push_back(link.theirs);
      at->second = {link.their_shape,
                    std::vector<float>(static_cast<std::size_t>(link.size() * link.parts + link.gap))};
    }
    const Tensor ours = link.is_buffer ? weights.buffer(link.number) : weights.read(link.number);
    link.to_theirs(ours.data<float>(), at->second.values.data());
  }
  Tensors out(std::string(word_of(scheme)));
  for (const std::string& name : order) out.add(host_tensor(name, whole[name].shape, std::move(whole[name].values)));
  if (has_fixed_positions(scheme, config)) {
    const auto& vit = std::get<ViTConfig>(config);
    const std::vector<double> table = fixed_positions(vit);
    out.add(host_tensor("pos_embed",
                        {1, static_cast<std::uint64_t>(vit.patches()), static_cast<std::uint64_t>(vit.embed_dim)},
                        std::vector<float>(table.begin(), table.end())));
  }
  return out;
}

}  // namespace normlab
