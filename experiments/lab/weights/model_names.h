// Where other programs store the parameters of the same network. The names, shapes and layouts are tables
// in model_name_tables.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/words.h"
#include "nn/model/model_config.h"
#include "nn/model/parameters.h"

namespace normlab {

/// The naming scheme of a file. normlab: normlab's own names, also used in checkpoints. timm: timm's state dict
/// (ViT, DeiT, DeiT-III, Swin). big_vision, augreg: the two spellings in the npz files of Big Vision and of "How to
/// train your ViT?".
enum class NameScheme : std::uint8_t { normlab, timm, big_vision, augreg };
constexpr auto stated_words(NameScheme) { return words<NameScheme>("normlab", "timm", "big_vision", "augreg"); }
/// True for npz, false for safetensors.
bool stored_as_npz(NameScheme scheme);

/// Where our value [rows, columns] at (r, c) lies in the other tensor. same: at (r, c). transposed: at (c, r).
/// convolution: our columns count pixels, then channels; the other's count channels, then pixels (OIHW).
enum class ValueOrder : std::uint8_t { same, transposed, convolution };

/// A parameter or buffer, and the tensor in which another program stores it.
struct TensorLink {
  std::string ours, theirs;  // theirs: empty if the scheme has no name for it
  bool is_buffer = false;
  Role role = Role::gain;                  // of a parameter
  int number = 0;                          // index in the parameter set, among parameters or buffers
  std::vector<std::uint64_t> their_shape;  // of the whole tensor
  ValueOrder order = ValueOrder::same;
  std::int64_t rows = 1, columns = 1;  // of ours; 1-D: one column
  std::int64_t channels = 1;           // convolution
  std::int64_t part = 0, parts = 1;    // ours is the `part`-th of `parts` equal ranges of their rows (q, k, v)
  std::int64_t gap_at = 0, gap = 0;    // values of theirs, from one on, that ours lack and that are 0

  std::int64_t size() const { return rows * columns; }
  /// Copies between our buffer [size()] and the whole tensor of the other program.
  void to_ours(const float* theirs_values, float* ours_values) const;
  void to_theirs(const float* ours_values, float* theirs_values) const;
};

/// One link per parameter, then one per buffer of `set`, which `config` declared.
std::vector<TensorLink> link_tensors(NameScheme scheme, const ModelConfig& config, const ParameterSet& set);

/// Why the other program computes something else under these names.
struct SchemeProblem {
  enum class Kind : std::uint8_t {
    place,   // a norm or gain without a name in the scheme
    maths,   // a name with a different meaning in the other program
    setting  // an epsilon or a variant of GELU that the names do not determine
  };
  Kind kind;
  std::string what;  // begins with the site or key
};
std::vector<SchemeProblem> scheme_problems(NameScheme scheme, const ModelConfig& config);

/// What must be set by hand to build the network in the other program; one sentence each.
std::vector<std::string> scheme_advice(NameScheme scheme, const ModelConfig& config);

/// A shape as files have it.
std::vector<std::uint64_t> dims_of(const Shape& shape);

/// How to treat a tensor of a file, by its name.
struct SourceName {
  enum class Use : std::uint8_t { take, skip, refuse };
  Use use = Use::take;
  std::string name;      // take: in the scheme's spelling, which may differ from the file's
  std::string_view why;  // skip, refuse
};
/// `official_swin`: some name of the file shows_official_swin().
SourceName read_source_name(NameScheme scheme, const ModelConfig& config, bool official_swin, const std::string& name);

/// Whether a name shows that a Swin's file has the names of its authors (github.com/microsoft/Swin-Transformer, also
/// timm before 0.9), who count a merging layer to the stage before it.
bool shows_official_swin(NameScheme scheme, const ModelConfig& config, std::string_view name);

/// "Transformer/encoderblock_3/…" for block 3 of "Transformer/encoderblock/…", if a file keeps all blocks in one tensor
/// with a leading axis. None for other names.
std::optional<std::string> scanned_name(NameScheme scheme, const std::string& name, std::int64_t block);

}  // namespace normlab
