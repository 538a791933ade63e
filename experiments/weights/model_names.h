// Where other programs keep the parameters of the same network. Names, shapes and layouts are tables in
// model_names.cpp; what is here reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/model_config.h"
#include "nn/parameters.h"

namespace normlab {

/// Whose names a file has. normlab: our own, which checkpoints of a training have too. timm: timm's state dict (ViT,
/// DeiT, DeiT-III, Swin). big_vision, augreg: the two spellings of the npz files of Big Vision and of "How to train
/// your ViT?".
enum class NameScheme : std::uint8_t { normlab, timm, big_vision, augreg };
std::string_view to_string(NameScheme scheme);
/// Nothing for a word that is none of theirs.
std::optional<NameScheme> name_scheme(std::string_view word);
/// True for npz, false for safetensors.
bool stored_as_npz(NameScheme scheme);

/// Where the value of ours [rows, columns] at (r, c) lies in a tensor of theirs. same: at the same place. transposed:
/// at (c, r). convolution: our columns count pixels, then channels; theirs the other way round (OIHW).
enum class ValueOrder : std::uint8_t { same, transposed, convolution };

/// A parameter or buffer of ours and the tensor in which another program keeps it.
struct TensorLink {
  std::string ours, theirs;  // theirs: empty where the scheme has no name for it
  bool is_buffer = false;
  Role role = Role::gain;                  // of a parameter
  int number = 0;                          // in the parameter set, among parameters or among buffers
  std::vector<std::uint64_t> their_shape;  // of the whole tensor
  ValueOrder order = ValueOrder::same;
  std::int64_t rows = 1, columns = 1;  // of ours; 1-D: one column
  std::int64_t channels = 1;           // convolution
  std::int64_t part = 0, parts = 1;    // ours is rows part / parts of theirs (q, k, v)

  std::int64_t size() const { return rows * columns; }
  /// Between a buffer of ours [size()] and the whole tensor of theirs.
  void to_ours(const float* theirs_values, float* ours_values) const;
  void to_theirs(const float* ours_values, float* theirs_values) const;
};

/// One for each parameter, then each buffer of `set`, which `config` declared.
std::vector<TensorLink> link_tensors(NameScheme scheme, const ModelConfig& config, const ParameterSet& set);

/// Why this network is not what the other program computes under these names.
struct SchemeProblem {
  enum class Kind : std::uint8_t {
    place,   // a norm or gain that the scheme has no name for
    maths,   // a name that stands for other maths there
    setting  // an epsilon or a form of GELU that the names do not carry
  };
  Kind kind;
  std::string what;  // begins with the site or key
};
std::vector<SchemeProblem> scheme_problems(NameScheme scheme, const ModelConfig& config);

/// What somebody who builds the network in the other program has to set there by hand; one sentence each.
std::vector<std::string> scheme_advice(NameScheme scheme, const ModelConfig& config);

/// What to do with a tensor of a file, by its name.
struct SourceName {
  enum class Use : std::uint8_t { take, skip, refuse };
  Use use = Use::take;
  std::string name;      // take: the scheme's spelling, another one may have been in the file
  std::string_view why;  // skip, refuse
};
SourceName read_source_name(NameScheme scheme, const std::string& name);

/// Prefixes that all names of a file may have, the empty one included, and the tensor by which to tell.
struct NamePrefixes {
  std::vector<std::string_view> prefixes;
  std::string_view witness;
};
NamePrefixes name_prefixes(NameScheme scheme);

/// "Transformer/encoderblock_3/…" for block 3 of "Transformer/encoderblock/…", where a file keeps all blocks in one
/// tensor with a leading axis; nothing for a name of another kind.
std::optional<std::string> scanned_name(NameScheme scheme, const std::string& name, std::int64_t block);

}  // namespace normlab
