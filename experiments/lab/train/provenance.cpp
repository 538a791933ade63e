#include "experiments/lab/train/provenance.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "core/backend.h"
#include "core/cpu/blas.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "nn/training/shard_plan.h"

namespace normlab {

TrialResult result_so_far(const TrialConfig& config, const TrialOptions& options, const DataPair& data,
                          const CheckpointInfo& info, const std::string& started) {
  TrialResult r;
  r.bad_images = describe_bad_images(data);
  r.id = info.trial_id;
  r.seed = config.seed;
  r.wall_seconds = info.wall_seconds;
  r.resumed = info.resumed;
  r.different_bits = info.different_bits;
  if (info.loss.first) r.metrics[kFirstLoss] = *info.loss.first;
  std::map<std::string, std::string>& known = r.provenance;
  known = {{"version", build_version()},
           {"flags", build_flags()},
           {"bits", info.bits},
           {"blas_core", blas_info().core},
           {"blas_config", blas_info().config},
           {"cpu", cpu_model()},
           {"arithmetic", std::to_string(kArithmetic)},
           {kEvalLossMeaning, kPlainLoss},
           {"data_hash", info.data_hash},
           {"data", data.train.provenance},
           {"threads", std::to_string(options.threads)},
           {"data_threads", std::to_string(options.data_threads)},
           {"device", options.backend->name()},
           {"host", host_name()},
           {"started", started}};
  if (const std::string copy = jpeg_copy(config.dataset.name, data); !copy.empty()) known[kJpegCopy] = copy;
  if (options.backend->whole_batch() && options.gpu_shards > 1)
    known["gpu_shards"] = std::to_string(options.gpu_shards);
  if (options.stack > 1) known["gpu_stack"] = std::to_string(options.stack);
  known.merge(options.backend->provenance());
  if (const std::string compiler = formula_compiler_of(*options.backend, config.model); !compiler.empty())
    known["nvrtc"] = compiler;
  if (!config.dataset.labels.empty()) known[kLabelsKey] = "names first";
  return r;
}

std::vector<std::string> remarks_on(const DatasetConfig& config, const DataPair& data) {
  std::vector<std::string> lines;
  if (const std::vector<std::string> bad = describe_bad_images(data); !bad.empty())
    lines.push_back(fmt::format("{} images cannot be decoded and are left out: {}", bad.size(), fmt::join(bad, "; ")));
  if (const std::string note = gray16_note(data); !note.empty()) lines.push_back(note.substr(1));
  if (const std::string copy = jpeg_copy(config.name, data); !copy.empty()) lines.push_back(copy + kNotPublished);
  return lines;
}

std::string gray16_note(const DataPair& data) {
  const auto count = std::ssize(data.train.gray16) + std::ssize(data.eval.gray16) +
                     (data.minival ? std::ssize(data.minival->gray16) : 0);
  if (count == 0) return "";
  return fmt::format(
      "\n{} images here are 16-bit grayscale: the upper byte of a pixel is used, where older versions of "
      "normlab made all values above 255 equal.",
      count);
}

std::string note_of_data(const DatasetConfig& config, const DataPair& data) {
  const std::string note = gray16_note(data);
  return note.empty() ? note_of_labels(config) : note;
}

std::vector<std::string> describe_bad_images(const DataPair& data) {
  std::vector<std::string> lines;
  const auto add = [&](const char* slice, const ImageSet& set) {
    for (const BadImage& bad : set.bad_images) lines.push_back(fmt::format("{} {}: {}", slice, bad.key, bad.reason));
  };
  add("train", data.train);
  add("eval", data.eval);
  if (data.minival) add("minival", *data.minival);
  return lines;
}

}  // namespace normlab
