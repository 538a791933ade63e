#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/data/data_source.h"
#include "experiments/lab/data/equal_images.h"
#include "experiments/lab/data/image_index.h"
#include "experiments/lab/data/measure.h"

namespace normlab {
namespace {

struct SliceInfo {
  std::string slice, hash, content_hash, provenance;
  std::int64_t images = 0, channels = 0;
  bool encoded = false, masks = false;  // masks: pixels have the classes
  std::vector<std::string> class_names;
  ImageMeasures measures;
};

/// Sizes of the smallest and largest non-empty class, and the number of empty classes.
struct ClassSpread {
  std::int64_t least = 0, most = 0, absent = 0;
};
ClassSpread spread_of(const std::vector<std::int64_t>& counts) {
  ClassSpread spread;
  for (const std::int64_t count : counts) {
    if (count == 0) {
      ++spread.absent;
      continue;
    }
    spread.least = spread.least == 0 ? count : std::min(spread.least, count);
    spread.most = std::max(spread.most, count);
  }
  return spread;
}

std::string numbers(const std::vector<double>& values) { return fmt::format("{:.4f}", fmt::join(values, ", ")); }

void print_slice(const SliceInfo& info) {
  const ImageMeasures& m = info.measures;
  const auto sides = [](const std::array<std::int64_t, 3>& side) {
    return side[0] == side[2] ? std::to_string(side[0]) : fmt::format("{} / {} / {}", side[0], side[1], side[2]);
  };
  const ClassSpread spread = spread_of(m.class_counts);
  print_text("{}: {}\n", info.slice, info.provenance);
  print_text("  images    {}{}\n", m.images,
             m.bad_images.empty() ? "" : fmt::format(", and {} that cannot be decoded", m.bad_images.size()));
  if (info.masks)
    print_text("  classes   {}, of pixels\n", info.class_names.size());
  else
    print_text("  classes   {}; {} to {} images each{}\n", m.class_counts.size(), spread.least, spread.most,
               spread.absent == 0 ? "" : fmt::format(", {} without images", spread.absent));
  print_text("  width     {}\n  height    {}{}\n", sides(m.width), sides(m.height),
             m.width[0] == m.width[2] && m.height[0] == m.height[2] ? "" : "  (smallest / median / largest)");
  if (const std::string gray16 = words_on_gray16({&m}); !gray16.empty()) print_text("  gray16    {}\n", gray16);
  print_text("  bytes     {} {}\n", m.bytes, info.encoded ? "in files" : "of pixels");
  print_text("  \"mean\": [{}], \"std\": [{}]\n", numbers(m.mean), numbers(m.deviation));
  print_text("  hash      {}{}\n", info.hash, info.encoded ? "  (of names, labels and sizes in bytes)" : "");
  if (!info.content_hash.empty()) print_text("  content   {}\n", info.content_hash);
  for (const BadImage& bad : m.bad_images)
    print_text("  bad       {}: {}\n", visible_line(bad.key), visible_line(bad.reason));
}

nlohmann::ordered_json json_of(const SliceInfo& info) {
  const ImageMeasures& m = info.measures;
  const auto side = [](const std::array<std::int64_t, 3>& s) {
    return nlohmann::ordered_json{{"min", s[0]}, {"median", s[1]}, {"max", s[2]}};
  };
  nlohmann::ordered_json classes = nlohmann::ordered_json::array(), bad = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < info.class_names.size(); ++c) {
    classes.push_back({{"name", info.class_names[c]}});
    if (!info.masks) classes.back()["images"] = m.class_counts[c];
  }
  for (const BadImage& image : m.bad_images) bad.push_back({{"key", image.key}, {"reason", image.reason}});
  nlohmann::ordered_json json{{"slice", info.slice},
                              {"images", m.images},
                              {"channels", info.channels},
                              {"width", side(m.width)},
                              {"height", side(m.height)},
                              {"bytes", m.bytes},
                              {"mean", m.mean},
                              {"std", m.deviation},
                              {"hash", info.hash},
                              {"in_memory", !info.encoded},
                              {"provenance", info.provenance},
                              {"classes", classes},
                              {"bad_images", bad}};
  if (m.gray16 > 0) json["gray16"] = {{"images", m.gray16}, {"least", m.least_gray16}, {"most", m.most_gray16}};
  if (!info.content_hash.empty()) json["content_hash"] = info.content_hash;
  return json;
}

struct InfoCommand {
  DataSource source;
  std::string format = "text";
  bool full = false;

  int operator()() const {
    const DataSource::Opened opened = source.open();
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    std::vector<std::string> class_names;
    std::vector<MeasuredSlice> measured;
    JpegFiles jpegs;
    std::int64_t count = 0;
    for (const std::string& slice : opened.slices) {
      ImageSet images = read(opened, slice, class_names);
      jpegs.add(images.jpegs);
      count += images.size();
      if (class_names.empty()) class_names = images.class_names;
      finish_image_set(images);
      SliceInfo info{slice,
                     images.hash,
                     {},
                     images.provenance,
                     images.size(),
                     images.channels,
                     images.encoded != nullptr,
                     opened.place.layout == DatasetLayout::image_masks,
                     images.class_names,
                     measure_images(images, source.threads)};
      measured.push_back(measured_slice(slice, images, info.measures));
      if (full && images.encoded) info.content_hash = encoded_content_hash(images);
      if (format == "text")
        print_slice(info);
      else
        all.push_back(json_of(info));
    }
    const std::vector<std::string> equal = words_on_equal_images(measured);
    const std::string copy = jpeg_copy(opened.config.name, jpegs, count);
    if (format == "text") {
      for (const std::string& words : equal) print_text("equal: {}\n", words);
      if (!copy.empty()) print_text("{}{}\n", copy, kNotPublished);
    }
    if (format == "json") {
      nlohmann::ordered_json out{{"dataset", opened.config.name},
                                 {"layout", std::string(word_of(opened.place.layout))},
                                 {"folder", opened.place.folder.string()},
                                 {"slices", std::move(all)},
                                 {"equal_images", equal}};
      if (!copy.empty()) out["jpeg_copy"] = copy;
      print_bytes(out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    }
    return 0;
  }

 private:
  /// Read as for training, so that the hash matches that of its results. If bad images prevent that, read without them.
  ImageSet read(const DataSource::Opened& opened, const std::string& slice,
                const std::vector<std::string>& class_names) const {
    try {
      return source.read(opened, slice, class_names, false, false);
    } catch (const InputError&) {
      return source.read(opened, slice, class_names, true, false);
    }
  }
};

}  // namespace

void add_data_info(Command& data) {
  auto [command, info] = data.add_command<InfoCommand>(
      "info", "print a data set's counts, image sizes, classes, mean, standard deviation and hash");
  add_data_source(command, info.source);
  command.add_flag("--full", info.full, "also hash the bytes of every file");
  command.add_choice("--format", info.format, "output format", {"text", "json"});
  command.examples({"normlab data info gratings --slice test", "normlab data info ~/pets --layout image_folder"});
}

void add_data(Command& app) {
  Command data = app.add_group("data", "inspect data sets, preview training images, and pack images into shards");
  add_data_info(data);
  add_data_pack(data);
  add_data_preview(data);
  data.examples({"normlab data info gratings", "normlab help data preview"});
}

}  // namespace normlab
