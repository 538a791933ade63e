#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/schema.h"

namespace normlab {
namespace {

template <class T>
void add_rows(std::string& out, const std::string& prefix) {
  const T defaults{};
  for_each_field<T>([&](const auto& row) {
    using M = typename std::remove_cvref_t<decltype(row)>::Member;
    using F = Form<M>;
    const std::string path = concat(prefix, row.key), words = F::words(row.range);
    if (!words.empty()) {
      std::string standard;
      if constexpr (std::is_same_v<M, Placement>)
        standard = "pre_pre";  // of a model without one
      else if constexpr (requires { F::write(defaults.*row.member, WriteOptions{}); })
        standard = path == "model.mlp_dim" ? "4 embed_dim" : setting_text(defaults.*row.member);
      out += concat("| `", path, "` | ", words, " | ", standard.empty() ? "" : "`" + standard + "`", " | ", row.doc,
                    " |\n");
    }
    if constexpr (!std::is_void_v<typename F::Rows>) add_rows<typename F::Rows>(out, path + ".");
  });
}

}  // namespace

std::string describe_fields() {
  constexpr std::string_view kHead = "| key | value | default | meaning |\n|---|---|---|---|\n";
  std::string out = "### Top level\n\n| key | value | meaning |\n|---|---|---|\n";
  for (const TopLevelKey& known : kTopLevelKeys)
    out += concat("| `", known.key, "` | ", known.type, " | ", known.doc, " |\n");

  out += concat("\n### Dataset, model, start and training\n\n", kHead);
  out += "| `model.kind` | vit \\| swin | `vit` | the architecture |\n";
  out +=
      "| `model.variant` | such as S/16, DeiT-S/16 |  | sets embed_dim, depth, num_heads and patch_size, for a DeiT "
      "also pool token and pos_embed_class; keys given explicitly take precedence |\n";
  add_rows<TrialConfig>(out, "");
  out += concat("\n### A model of kind swin\n\n", kHead);
  out +=
      "| `model.variant` | such as Swin-T, SwinD-B |  | sets embed_dim, depths and num_heads; keys given explicitly "
      "take precedence |\n";
  add_rows<SwinConfig>(out, "model.");
  out += concat("\n### Checkpoints\n\n", kHead);
  add_rows<CheckpointConfig>(out, "checkpoint.");
  out += concat("\n### A placement given as an object\n\n", kHead);
  out += "| `base` | a placement's name | `none` | the placement that the other keys change |\n";
  add_rows<Placement>(out, "");
  out += concat("| `", kBlocksKey, "` | object |  | ", kBlocksDoc, " |\n");
  out += concat("\n### A norm: its kind as a word, or an object\n\n", kHead);
  add_rows<NormSpec>(out, "");

  out += "\n### Named placements\n\n| name | source |\n|---|---|\n";
  for (const NamedPlacement& row : named_placements()) out += concat("| `", row.name, "` | ", row.source, " |\n");
  return out;
}

}  // namespace normlab
