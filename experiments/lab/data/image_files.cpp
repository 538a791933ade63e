#include "experiments/lab/data/image_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "core/visible_text.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImagesOfOthers[] = {".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif"};

constexpr const char* kAboutFolder[] = {"readme", "license", "licence", "copying", "notice", "citation"};

std::string lower_extension(const fs::path& file) { return lower_case(file.extension().string()); }

std::string_view why_no_image(const fs::path& file) {
  const std::string extension = lower_extension(file);
  const bool of_others =
      std::find(std::begin(kImagesOfOthers), std::end(kImagesOfOthers), extension) != std::end(kImagesOfOthers);
  return of_others ? "this image format is not supported; convert it to JPEG or PNG"
                   : "is not an image (.jpg, .jpeg or .png); move it out of the folder";
}

using Identity = std::pair<dev_t, ino_t>;

void find(const fs::path& folder, const std::string& below, std::vector<Identity>& above,
          std::vector<std::string>& images, StrayFiles& strays) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) throw InputError(concat(folder.string(), ": cannot be read"));
  const Identity here{status.st_dev, status.st_ino};
  if (std::find(above.begin(), above.end(), here) != above.end())
    throw InputError(concat(visible_line(folder.string()), ": this link leads back to a folder that contains it"));
  above.push_back(here);
  const FolderContent content = folder_content(folder);
  for (const std::string& file : content.files) {
    if (has_image_extension(file))
      images.push_back(below + file);
    else
      strays.add(folder / file, why_no_image(file));
  }
  for (const std::string& inner : content.folders) find(folder / inner, below + inner + "/", above, images, strays);
  above.pop_back();
}

}  // namespace

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool has_image_extension(const fs::path& file) {
  const std::string extension = lower_extension(file);
  return std::find(std::begin(kImageEndings), std::end(kImageEndings), extension) != std::end(kImageEndings);
}

bool is_about_folder(const fs::path& file) {
  const std::string stem = lower_case(file.stem().string());
  return std::find(std::begin(kAboutFolder), std::end(kAboutFolder), stem) != std::end(kAboutFolder);
}

bool is_hidden_name(std::string_view name) { return name.starts_with('.') || name == kMacFolder; }

FolderContent folder_content(const fs::path& folder) {
  FolderContent content;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_hidden_name(name)) continue;
    std::error_code unknown;
    const fs::file_type type = entry->status(unknown).type();
    if (type == fs::file_type::directory) {
      content.folders.push_back(name);
    } else if (type == fs::file_type::regular) {
      content.files.push_back(name);
    } else if (type == fs::file_type::not_found || type == fs::file_type::none) {
      throw InputError(concat(visible_line(entry->path().string()), ": the target of this link does not exist"));
    } else {
      throw InputError(concat(visible_line(entry->path().string()), ": is neither a file nor a folder"));
    }
  }
  if (error) throw InputError(concat(folder.string(), ": cannot be listed: ", error.message()));
  std::sort(content.folders.begin(), content.folders.end());
  std::sort(content.files.begin(), content.files.end());
  return content;
}

void StrayFiles::add(const fs::path& file, std::string_view why) {
  if (++count_ <= kShown) first_ += concat(first_.empty() ? "" : "\n", visible_line(file.string()), ": ", why);
}

std::string StrayFiles::text() const {
  return count_ > kShown ? concat(first_, "\n... and ", count_ - kShown, " more") : first_;
}

void StrayFiles::refuse() const {
  if (count_ > 0) throw InputError(text());
}

std::vector<std::string> find_images(const fs::path& folder, StrayFiles& strays) {
  std::vector<std::string> images;
  std::vector<Identity> above;
  find(folder, "", above, images, strays);
  return images;
}

}  // namespace normlab
