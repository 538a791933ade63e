// Descriptor keys other than settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.h"

namespace normlab {

/// Sizes for a ViT's `variant`; the patch size follows a slash, as in "S/16". "DeiT-S/16" adds a class token with a
/// position. Swin's variants are in nn/model/swin_config.h.
struct Variant {
  std::string_view name;
  std::int64_t embed_dim, depth, num_heads;
};
inline constexpr Variant kVariants[] = {{"Ti", 192, 12, 3}, {"S", 384, 12, 6}, {"B", 768, 12, 12}, {"L", 1024, 24, 16}};

/// Top-level keys whose settings belong to a trial, and can be axes.
inline constexpr std::string_view kSettingRoots[] = {"dataset", "model", "start", "train", "eval", "norms"};

/// The norms that a descriptor names.
inline constexpr std::string_view kNormsKey = "norms";

/// The axis whose values are names in "benchmarks".
inline constexpr std::string_view kBenchmarkAxis = "benchmark";

/// The axis whose values are a row and that row without one of its features.
inline constexpr std::string_view kLeaveOneOutAxis = "leave_one_out";

/// The placement key that replaces all norms of the base.
inline constexpr std::string_view kNormKey = "norm",
                                  kNormDoc = "a norm that takes the place of every norm of the base, but for whiten";

/// The placement key that sets the sites of some blocks.
inline constexpr std::string_view
    kBlocksKey = "blocks",
    kOtherBlocks = "rest",
    kBlocksDoc = "sites of some blocks: {\"0-3\": {\"attn\": {...}, \"mlp\": {...}}, \"rest\": {...}}";

/// Matters for some sizes only, which may be the data set's.
inline constexpr std::string_view kWindowPaddingKey = "window_padding";

/// Pairs of settings that mean the same. A later one (child descriptor, `--set`, axis) replaces the other; both in one
/// object are an error.
struct Exclusive {
  std::string_view object, a, b;
};
inline constexpr Exclusive kExclusive[] = {{"train", "epochs", "steps"},
                                           {"train", "epochs", "images"},
                                           {"train", "steps", "images"},
                                           {"train.schedule", "warmup_epochs", "warmup_steps"},
                                           {"dataset", "per_class", "fraction"},
                                           {"dataset", "classes", "class_groups"},
                                           {"start", "file", "from"}};

/// Top-level keys of a descriptor besides those of TrialConfig.
struct TopLevelKey {
  std::string_view key, type, doc;
};
inline constexpr TopLevelKey kTopLevelKeys[] = {
    {"$schema", "string", "for editors; the file that `normlab check --schema` wrote"},
    {"about", "string", "question, cost and, once measured, outcome; not inherited from a recipe"},
    {"paper", "object",
     "\"source\" and \"deviations\", the known differences from the paper, a list of {\"key\", \"paper\", \"here\", "
     "\"why\"} that replaces the base's; changes no result"},
    {"claim", "object",
     "\"source\", \"short\", \"says\", \"paraphrase\", \"printed\", \"reading\", \"scale\", \"scale_note\", "
     "\"bench\", \"repeat\" and \"tests\": a statement of a publication and the tests of these results that decide it, "
     "for `normlab claims`; changes no result"},
    {"printed", "object",
     "\"repository\", \"commit\", \"file\", \"numbers\", a list of {\"where\", \"value\", \"evaluation\", \"rerun\"}, "
     "\"differs\", \"images\" and \"images_note\": percentages that a public repository prints for this recipe, for "
     "`normlab claims --printed`; not inherited; changes no result"},
    {"external", "list",
     "numbers that were not trained here, as {\"label\": \"timm\", \"file\": \"timm.csv\"}: rows of tables; the file has the "
     "columns row, seed, metric and value, and its path is relative to this file; \"text\", of an archive, is what the "
     "file holds; not inherited; changes no result"},
    {"extends", "string",
     "path of another descriptor, relative to this file, or \"recipe:NAME\"; keys given here take precedence"},
    {"checkpoint", "object", "how often a running trial is saved; changes no result"},
    {"probes", "object",
     "what to measure during training, and at which steps, counted from 0: \"signal\", \"gradients\", \"updates\", "
     "\"attention\", \"activations\", \"mapping\", \"stem_scale\", \"batch_accuracy\", each a list of steps, a number n "
     "for every n-th step, or {\"at\": [...], \"every\": n, \"last\": k}, which keeps the last k of every n-th; "
     "\"without_block\": true; changes no result"},
    {"placements", "object", "placements of your own, by name"},
    {"norms", "object",
     "norms of your own, by name: {\"formula\", \"parameters\", \"eps\", \"about\"}; a name may stand wherever a kind of "
     "norm may"},
    {"benchmarks", "object",
     "data sets by name, as {\"cats\": {\"group\": \"natural\", \"dataset\": {...}, \"train\": {...}}}: settings that "
     "the axis \"benchmark\" of the sweep lays over those of the descriptor; a table adds the means over each group"},
    {"sweep", "object or list",
     "axes of a grid (\"path\": [values]; \"a,b\": [[1, 2], [3, 4]] varies two together), or a list of grids, each of "
     "which may have its own \"seeds\"; \"leave_one_out\": {\"base\", \"features\"} is an axis too: a row, and one for "
     "each of its features without that feature"},
    {"exclude", "list", "combinations to leave out, each as {\"axis\": value}"},
    {"tune", "list",
     "stages that choose values for each row before its own trials run: {\"axes\": as in \"sweep\", or values that are "
     "drawn, {\"log_uniform\": [1e-4, 1e-2], \"n\": 8, \"seed\": 0} or {\"uniform\": ...}, \"dataset\" with "
     "an \"eval\" slice of training images, otherwise the row's minival is that slice, \"train\": settings for these "
     "trials only, \"seeds\": 1, \"metric\": \"eval/accuracy\", \"then_train_on\": \"train\", or \"train+minival\" for "
     "the row itself}"},
    {"tuned_for", "object", "the axis values of the row that the shared settings were chosen for"},
    {"seeds", "number, list or object",
     "n for seeds 0 to n - 1, or a list of seeds; 1 if omitted; {\"first\", \"max\", \"gain_halfwidth\"}: as many as "
     "the intervals of gains need"},
    {"baseline", "object", "the axis values of the row that gains are measured against"},
    {"apart", "list",
     "rows that you expect to be noisier than others, by name or as {\"axis\": value}: the intervals of their gains "
     "rest on their own runs alone; decide before you train; changes no result"},
    {"labels", "object",
     "names that tables, figures and reports show instead, as {\"pre_pre\": \"Pre-LN\", \"eval/accuracy\": \"Top-1\"}: "
     "of rows, of values of axes, and of metrics; changes no result"},
};

inline constexpr std::int64_t kConfigSchema = 1;  // raised whenever a default or a meaning changes

/// A setting that is one number.
struct NumberSetting {
  bool integer = false;
  Range range{};
};
/// That of the path, such as "train.batch_size"; none if it has another value or is unknown.
std::optional<NumberSetting> number_setting(std::string_view path);

/// The message for an unknown key: lists the paths of settings that end in it if there are only a few; otherwise as
/// unknown_key() of the candidates.
std::string unknown_setting(std::string_view key, const std::vector<std::string_view>& candidates);

/// What a Swin has in place of a setting of a ViT, for the end of an error message.
constexpr std::string_view swin_has(std::string_view key) {
  if (key == "rotary" || key == "pos_embed") return "; a Swin learns position biases inside its windows";
  return key == "registers" ? "; all tokens of a Swin are patches, so it has no registers" : "";
}

}  // namespace normlab
