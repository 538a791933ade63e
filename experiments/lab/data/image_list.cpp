#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/class_order.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/label_reading.h"
#include "experiments/lab/data/readers.h"
#include "experiments/lab/data/text_lines.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

bool blank(char c) { return c == ' ' || c == '\t'; }

std::string trimmed(std::string text) {
  while (!text.empty() && blank(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  return text;
}

/// Where a quoted field begins that reaches to the end of `text`; npos if none does.
std::size_t last_quoted(const std::string& text) {
  for (std::size_t at = 1; (at = text.find('"', at)) != text.npos; ++at)
    if ((blank(text[at - 1]) || text[at - 1] == ',') && is_quoted(std::string_view(text).substr(at))) return at;
  return text.npos;
}

/// The end of the quoted field at the begin of `text`; 0 if there is none.
std::size_t first_quoted(const std::string& text) {
  if (!text.starts_with('"')) return 0;
  for (std::size_t at = text.find_first_of(" \t,", 1); at != text.npos; at = text.find_first_of(" \t,", at + 1))
    if (is_quoted(std::string_view(text).substr(0, at))) return at;
  return is_quoted(text) ? text.size() : 0;
}

/// "file TAB label", "file,label" with an image's extension, "file label" (then the label has no space), or "label".
/// Each may be in quotes.
ListedLabel parse_line(const std::string& text, std::size_t number) {
  const std::size_t tab = text.find('\t'), comma = text.find_last_of(','), quoted = first_quoted(text);
  const auto image_before = [&](std::size_t at) { return has_image_extension(unquoted(trimmed(text.substr(0, at)))); };
  std::size_t cut = tab != text.npos ? tab : comma != text.npos && image_before(comma) ? comma : text.find_last_of(' ');
  if (quoted == text.size()) return {"", unquoted(text), number};
  if (const std::size_t label = last_quoted(text); quoted > 0) {
    cut = text.find_first_not_of(' ', quoted);
    if (text[cut] != ',' && text[cut] != '\t') --cut;
    if (text[cut] == ',' && !image_before(cut)) cut = text.npos;
  } else if (label != text.npos) {
    cut = trimmed(text.substr(0, label)).ends_with(',') ? text.find_last_of(',', label) : label - 1;
    if (text[cut] == ',' && !image_before(cut)) cut = text.npos;
  }
  if (cut == text.npos) return {"", text, number};
  return {unquoted(trimmed(text.substr(0, cut))), unquoted(trimmed(text.substr(cut + 1))), number};
}

bool has_comma(const ListedLabel& line) { return line.label.find(',') != std::string::npos; }

bool contains_image_name(const ListedLabel& line) {
  const std::string text = lower_case(line.label);
  return std::any_of(std::begin(kImageEndings), std::end(kImageEndings),
                     [&](const char* ending) { return text.find(ending) != text.npos; });
}

class LabelFile {
 public:
  explicit LabelFile(const fs::path& file) : file_(file) {
    std::size_t number = 0;
    for (const std::string& text : text_lines(file, "it holds the labels (dataset.labels)")) {
      ++number;
      if (trimmed(text).empty()) continue;
      ListedLabel line = parse_line(trimmed(text), number);
      const bool below_header = lines_.size() == 1 && lines_[0].image.empty() && has_comma(lines_[0]);
      if (below_header && !line.image.empty()) lines_.clear();
      lines_.push_back(std::move(line));
      if (lines_.back().image.empty() != lines_[0].image.empty())
        throw InputError(concat(where(lines_.back()), "some lines name a file and others do not"));
    }
    if (lines_.empty()) throw InputError(concat(file.string(), ": holds no labels"));
    if (!names_files()) require_labels_alone();
  }

  bool names_files() const { return !lines_[0].image.empty(); }
  const std::vector<ListedLabel>& lines() const { return lines_; }
  const fs::path& path() const { return file_; }
  std::string where(const ListedLabel& line) const { return concat(file_.string(), ":", line.line, ": "); }

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
  std::vector<ListedLabel> lines_;
};

bool all_small_numbers(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [](const std::string& name) { return small_number(name); });
}

/// The labels as names: numbers up to the greatest one, from the least or 1, or the labels in byte order.
std::vector<std::string> names_of_labels(const LabelFile& file, std::optional<std::int64_t> from) {
  constexpr std::int64_t kMost = 1000000;
  std::vector<std::string> names;
  std::int64_t least = from.value_or(1), most = 0;
  for (const ListedLabel& line : file.lines()) {
    names.push_back(line.label);
    const std::int64_t number = small_number(line.label).value_or(0);
    if (!from) least = std::min(least, number);
    most = std::max(most, number);
  }
  if (!all_small_numbers(names)) {
    names = in_bytes_order(std::move(names));
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }
  names.clear();
  if (most > kMost)
    throw InputError(concat(file.path().parent_path().string(), ": label ", most,
                            " is too large without names; list the classes in classes.txt"));
  for (std::int64_t i = least; i <= std::max(least, most); ++i) names.push_back(std::to_string(i));
  return names;
}

/// `training`: the classes of an image folder, or none.
LabelClasses label_classes(const fs::path& folder, const LabelFile& file, const LabelNumbers& numbers,
                           const std::vector<std::string>& training) {
  LabelClasses classes{training, {}, !numbers.order.empty(), numbers.from};
  std::error_code error;
  std::vector<std::string> counted;
  if (auto listed = listed_order(numbers.order, folder)) {
    counted = std::move(*listed);
  } else if (fs::exists(folder / "classes.txt", error)) {
    counted = in_class_order(read_class_names(folder / "classes.txt"), numbers.order, folder);
    classes.order_stated |= !std::is_sorted(counted.begin(), counted.end());
  } else if (!training.empty() && numbers.order.empty()) {
    const std::vector<std::string> bytes = in_bytes_order(training), natural = in_natural_order(training);
    if (bytes == natural) {
      classes.counted = {{"", bytes}};
    } else {
      classes.counted = {{"in the order of the names' bytes", bytes}, {"in natural order", natural}};
    }
    return classes;
  } else {
    counted = training.empty() ? names_of_labels(file, numbers.from) : training;
    if (training.empty() && !classes.from && all_small_numbers(counted)) classes.from = small_number(counted.front());
  }
  if (classes.names.empty()) classes.names = in_class_order(counted, numbers.order, folder);
  classes.counted = {{"", std::move(counted)}};
  return classes;
}

/// Lines of this split, with file names relative to its folder. Lines of other splits begin with another folder.
std::vector<ListedLabel> lines_of_split(const LabelFile& file, const fs::path& folder, const fs::path& images) {
  const std::string split = images == folder ? "" : images.filename().string();
  std::vector<ListedLabel> lines;
  for (ListedLabel line : file.lines()) {
    fs::path path = line.image;
    if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
      throw InputError(concat(file.where(line), in_quotes(line.image), " is outside the folder of the images"));
    path = path.lexically_normal();
    line.image = path.string();
    const std::string first = path.has_parent_path() ? path.begin()->string() : "";
    std::error_code error;
    if (!split.empty() && first == split) {
      line.image = line.image.substr(split.size() + 1);
    } else if (!split.empty() && !first.empty() && fs::is_directory(folder / first, error)) {
      continue;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

/// Where the images of an undivided list are: beside the file of labels, else in images/ or the only folder.
fs::path folder_of_images(const fs::path& folder, const LabelFile& file) {
  const FolderContent content = folder_content(folder);
  std::error_code error;
  const bool here = file.names_files() ? fs::exists(folder / file.lines().front().image, error)
                                       : std::any_of(content.files.begin(), content.files.end(), has_image_extension);
  if (here) return folder;
  if (is_folder(folder / kImagesFolder)) return folder / kImagesFolder;
  return content.folders.size() == 1 ? folder / content.folders.front() : folder;
}

std::vector<ListedLabel> lines_in_order(const LabelFile& file, const std::vector<std::string>& images,
                                        const fs::path& folder) {
  std::vector<ListedLabel> lines = file.lines();
  if (lines.size() != images.size())
    throw InputError(concat(file.where(lines.back()), lines.size(), " labels for the ", images.size(), " images in ",
                            folder.string()));
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].image = images[i];
  return lines;
}

/// And those of other splits, so that a split's labels are read as the whole list's. A label there that is neither name
/// nor number, such as -1, does not matter here.
std::vector<ListedLabel> with_other_lines(std::vector<ListedLabel> lines, const LabelFile& file,
                                          const std::vector<std::string>& names) {
  std::set<std::size_t> here;
  for (const ListedLabel& line : lines) here.insert(line.line);
  const std::set<std::string_view> known(names.begin(), names.end());
  for (const ListedLabel& line : file.lines())
    if (!here.contains(line.line) && (is_number(line.label) || known.contains(line.label))) lines.push_back(line);
  return lines;
}

LabelFile label_file(const fs::path& folder, const std::string& labels) {
  if (labels.empty()) throw InputError(concat(folder.string(), ": dataset.labels is missing; give the file of labels"));
  return LabelFile(folder / labels);
}

}  // namespace

bool names_images(const fs::path& file) {
  std::ifstream in(file);
  std::string text(4096, '\0');
  in.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(in.gcount()));
  std::istringstream lines{std::string(without_byte_order_mark(text))};
  for (std::size_t number = 1; number <= 2 && std::getline(lines, text); ++number) {
    if (text.ends_with('\r')) text.pop_back();
    if (has_image_extension(parse_line(trimmed(text), number).image)) return true;
  }
  return false;
}

std::vector<std::string> image_list_classes(const fs::path& folder, const std::string& labels,
                                            const LabelNumbers& numbers) {
  return label_classes(folder, label_file(folder, labels), numbers, {}).names;
}

ImageSet read_image_list(const fs::path& folder, const std::string& labels, const SliceRequest& request) {
  const LabelFile file = label_file(folder, labels);
  std::error_code error;
  const bool divided = fs::is_directory(folder / request.slice.split, error);
  if (!divided && request.slice.split != "train")
    throw InputError(concat(folder.string(), ": has no folder ", in_quotes(request.slice.split),
                            "; its images are the split \"train\"; use slices of it"));
  LabelClasses classes = label_classes(folder, file, request.numbers, request.class_names);
  const fs::path of_split = divided ? folder / request.slice.split : folder_of_images(folder, file);
  std::vector<std::string> images;  // the folder may also contain the file of labels and class names
  for (const std::string& name : folder_content(of_split).files) {
    if (has_image_extension(name)) images.push_back(name);
  }
  const std::vector<ListedLabel> lines =
      file.names_files() ? lines_of_split(file, folder, of_split) : lines_in_order(file, images, of_split);
  const LabelReading reading = read_labels(file.path(), with_other_lines(lines, file, classes.names), classes);
  ImageIndex index{concat("image list (", reading.words, ")"), of_split, {}, std::move(classes.names), {}};
  std::map<std::string, std::size_t> seen;
  for (const ListedLabel& line : lines) {
    const auto [at, fresh] = seen.emplace(line.image, line.line);
    if (!fresh)
      throw InputError(concat(file.where(line), in_quotes(line.image), " already has a label, in line ", at->second));
    index.entries.push_back({line.image, reading.classes.at(line.label)});
  }
  StrayFiles strays;
  for (const std::string& image : images)
    if (!seen.contains(image)) strays.add(of_split / image, "the file of labels has no line for this image");
  strays.refuse();
  return load_images(std::move(index), request);
}

const LayoutRow kImageListLayout{
    .layout = DatasetLayout::image_list,
    .expected = "images in a flat folder and a file of labels",
    .find = find_folder,
    .splits = splits_by_name,
    .classes =
        [](const DatasetConfig& config, const fs::path& folder) {
          return image_list_classes(folder, config.labels, {config.labels_from, config.class_order});
        },
    .read =
        [](const DatasetConfig& config, const fs::path& folder, const std::string&, const SliceRequest& request) {
          SliceRequest slice = request;
          slice.class_names.clear();  // those of the list, of whichever split
          return read_image_list(folder, config.labels, slice);
        }};

}  // namespace normlab
