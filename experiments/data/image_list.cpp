#include <algorithm>
#include <cctype>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/base/regular_file.h"
#include "experiments/data/image_files.h"
#include "experiments/data/readers.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

struct Line {
  std::string file;  // empty: a label only
  std::string label;
  std::size_t number = 0;
};

bool blank(char c) { return c == ' ' || c == '\t'; }

std::string trimmed(std::string text) {
  while (!text.empty() && (blank(text.back()) || text.back() == '\r')) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  return text;
}

/// "file TAB label", "file,label" with an image's extension, "file label" (then the label has no space), or "label".
Line parse_line(const std::string& text, std::size_t number) {
  const std::size_t tab = text.find('\t'), comma = text.find_last_of(',');
  const bool by_comma = comma != text.npos && has_image_extension(trimmed(text.substr(0, comma)));
  const std::size_t cut = tab != text.npos ? tab : by_comma ? comma : text.find_last_of(' ');
  if (cut == text.npos) return {"", text, number};
  return {trimmed(text.substr(0, cut)), trimmed(text.substr(cut + 1)), number};
}

bool has_comma(const Line& line) { return line.label.find(',') != std::string::npos; }

bool contains_image_name(const Line& line) {
  const std::string text = lower_case(line.label);
  return std::any_of(std::begin(kImageEndings), std::end(kImageEndings),
                     [&](const char* ending) { return text.find(ending) != text.npos; });
}

class LabelFile {
 public:
  explicit LabelFile(const fs::path& file) : file_(file) {
    std::istringstream in(RegularFile(file, "it holds the labels (dataset.labels)").read());
    std::size_t number = 0;
    for (std::string text; std::getline(in, text);) {
      ++number;
      text = trimmed(text);
      if (text.empty()) continue;
      Line line = parse_line(text, number);
      const bool below_header = lines_.size() == 1 && lines_[0].file.empty() && has_comma(lines_[0]);
      if (below_header && !line.file.empty()) lines_.clear();
      lines_.push_back(std::move(line));
      if (lines_.back().file.empty() != lines_[0].file.empty())
        throw InputError(concat(where(lines_.back()), "some lines name a file and others do not"));
    }
    if (lines_.empty()) throw InputError(concat(file.string(), ": holds no labels"));
    if (!names_files()) require_labels_alone();
  }

  bool names_files() const { return !lines_[0].file.empty(); }
  std::vector<Line>& lines() { return lines_; }
  const std::vector<Line>& lines() const { return lines_; }
  std::string where(const Line& line) const { return concat(file_.string(), ":", line.number, ": "); }

  bool all_numbers() const {
    return std::all_of(lines_.begin(), lines_.end(), [](const Line& line) { return number(line.label).has_value(); });
  }
  static std::optional<std::int64_t> number(const std::string& text) {
    const bool digits = !text.empty() && text.size() <= 9 &&
                        std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    return digits ? std::optional<std::int64_t>(std::stoll(text)) : std::nullopt;
  }

 private:
  /// Else each line would be a class of its own.
  void require_labels_alone() const {
    const auto odd = std::all_of(lines_.begin(), lines_.end(), has_comma)
                         ? lines_.begin()
                         : std::find_if(lines_.begin(), lines_.end(), contains_image_name);
    if (odd != lines_.end())
      throw InputError(concat(where(*odd), in_quotes(odd->label),
                              " is no label alone; write image and label as \"a.png 3\" or \"a.png,3\", with the "
                              "image's extension"));
  }

  fs::path file_;
  std::vector<Line> lines_;
};

std::vector<std::string> numbered_names(const fs::path& folder, const LabelFile& file,
                                        const std::vector<std::string>& training) {
  std::error_code error;
  if (fs::exists(folder / "classes.txt", error)) return read_class_names(folder / "classes.txt");
  if (!training.empty()) return training;
  std::vector<std::string> names;
  if (file.all_numbers()) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (const Line& line : file.lines()) {
      const std::int64_t label = *LabelFile::number(line.label);
      least = std::min(least, label);
      most = std::max(most, label);
    }
    if (most > 1000000)
      throw InputError(
          concat(folder.string(), ": label ", most, " is too large without names; list the classes in classes.txt"));
    for (std::int64_t i = std::min<std::int64_t>(least, 1); i <= most; ++i) names.push_back(std::to_string(i));
    return names;
  }
  for (const Line& line : file.lines()) names.push_back(line.label);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class LabelNames {
 public:
  LabelNames(const LabelFile& file, std::vector<std::string> numbered, const std::vector<std::string>& classes)
      : file_(file), numbered_(std::move(numbered)) {
    for (std::size_t i = 0; i < classes.size(); ++i) places_[classes[i]] = static_cast<std::int32_t>(i);
    // The ImageNet challenge's own file counts from 1: some label equals the number of classes, and none is 0.
    if (!file.all_numbers()) return;
    bool zero = false, last = false;
    for (const Line& line : file.lines()) {
      const std::int64_t label = *LabelFile::number(line.label);
      zero |= label == 0;
      last |= label == static_cast<std::int64_t>(numbered_.size());
    }
    first_ = last && !zero ? 1 : 0;
  }

  std::int32_t operator()(const Line& line) const {
    if (const auto named = places_.find(line.label); named != places_.end() && !file_.all_numbers())
      return named->second;
    const std::optional<std::int64_t> number = LabelFile::number(line.label);
    const std::int64_t at = number ? *number - first_ : -1;
    if (at < 0 || at >= static_cast<std::int64_t>(numbered_.size()))
      throw InputError(concat(file_.where(line), "label ", in_quotes(line.label),
                              " is neither a class name nor a number from ", first_, " to ",
                              static_cast<std::int64_t>(numbered_.size()) - 1 + first_));
    const std::string& name = numbered_[static_cast<std::size_t>(at)];
    const auto place = places_.find(name);
    if (place == places_.end())
      throw InputError(concat(file_.where(line), "class ", in_quotes(name), " does not occur in the training split"));
    return place->second;
  }
  std::int64_t first() const { return first_; }

 private:
  const LabelFile& file_;
  std::vector<std::string> numbered_;
  std::map<std::string, std::int32_t> places_;
  std::int64_t first_ = 0;
};

/// Lines of this split, with file names relative to its folder. Lines of other splits begin with another folder.
std::vector<Line> lines_of_split(const LabelFile& file, const fs::path& folder, const fs::path& images) {
  const std::string split = images == folder ? "" : images.filename().string();
  std::vector<Line> lines;
  for (Line line : file.lines()) {
    const fs::path path = line.file;
    if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
      throw InputError(concat(file.where(line), in_quotes(line.file), " is outside the folder of the images"));
    const std::string first = path.has_parent_path() ? path.begin()->string() : "";
    std::error_code error;
    if (!split.empty() && first == split) {
      line.file = line.file.substr(split.size() + 1);
    } else if (!split.empty() && !first.empty() && fs::is_directory(folder / first, error)) {
      continue;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<Line> lines_in_order(const LabelFile& file, const std::vector<std::string>& images,
                                 const fs::path& folder) {
  std::vector<Line> lines = file.lines();
  if (lines.size() != images.size())
    throw InputError(concat(file.where(lines.back()), lines.size(), " labels for the ", images.size(), " images in ",
                            folder.string()));
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].file = images[i];
  return lines;
}

LabelFile label_file(const fs::path& folder, const std::string& labels) {
  if (labels.empty()) throw InputError(concat(folder.string(), ": dataset.labels is missing; give the file of labels"));
  return LabelFile(folder / labels);
}

void require_labels(const fs::path& folder, const std::vector<std::string>& images, const ImageIndex& index) {
  StrayFiles strays;
  for (const std::string& image : images) {
    const auto by_key = [](const ImageEntry& entry, const std::string& key) { return entry.key < key; };
    const auto at = std::lower_bound(index.entries.begin(), index.entries.end(), image, by_key);
    if (at == index.entries.end() || at->key != image)
      strays.add(folder / image, "the file of labels has no line for this image");
  }
  strays.refuse();
}

}  // namespace

bool names_images(const fs::path& file) {
  std::ifstream in(file);
  std::string text(4096, '\0');
  in.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(in.gcount()));
  std::istringstream lines(text);
  for (std::size_t number = 1; number <= 2 && std::getline(lines, text); ++number)
    if (has_image_extension(parse_line(trimmed(text), number).file)) return true;
  return false;
}

std::vector<std::string> image_list_classes(const fs::path& folder, const std::string& labels) {
  return numbered_names(folder, label_file(folder, labels), {});
}

ImageSet read_image_list(const fs::path& folder, const std::string& labels, const SliceRequest& request) {
  const LabelFile file = label_file(folder, labels);
  std::error_code error;
  const bool divided = fs::is_directory(folder / request.slice.split, error);
  if (!divided && request.slice.split != "train")
    throw InputError(concat(folder.string(), ": has no folder ", in_quotes(request.slice.split),
                            "; its images are the split \"train\"; use slices of it"));
  ImageIndex index{"image list", divided ? folder / request.slice.split : folder, {}, request.class_names, {}};
  std::vector<std::string> numbered = numbered_names(folder, file, request.class_names);
  if (index.class_names.empty()) index.class_names = numbered;
  const LabelNames label_of(file, std::move(numbered), index.class_names);
  if (label_of.first() == 1) index.kind += " (labels count from 1)";

  std::vector<std::string> images;  // the folder may also contain the file of labels and class names
  for (const std::string& name : folder_content(index.folder).files) {
    if (has_image_extension(name)) images.push_back(name);
  }
  std::map<std::string, std::size_t> seen;
  for (const Line& line :
       file.names_files() ? lines_of_split(file, folder, index.folder) : lines_in_order(file, images, index.folder)) {
    const auto [at, fresh] = seen.emplace(line.file, line.number);
    if (!fresh)
      throw InputError(concat(file.where(line), in_quotes(line.file), " already has a label, in line ", at->second));
    index.entries.push_back({line.file, label_of(line), -1, {}, 0, -1, {}});
  }
  const auto by_key = [](const ImageEntry& a, const ImageEntry& b) { return a.key < b.key; };
  std::sort(index.entries.begin(), index.entries.end(), by_key);
  require_labels(index.folder, images, index);
  return load_images(std::move(index), request);
}

}  // namespace normlab
