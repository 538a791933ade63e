// Descriptors written to a folder of their own, which goes when the test ends.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "experiments/lab/descriptor/experiment.h"

namespace normlab {

/// The model of a trial that trains a ViT, or a Swin.
inline ViTConfig& vit_of(TrialConfig& config) { return std::get<ViTConfig>(config.model); }
inline const ViTConfig& vit_of(const TrialConfig& config) { return std::get<ViTConfig>(config.model); }
inline const SwinConfig& swin_of(const TrialConfig& config) { return std::get<SwinConfig>(config.model); }

class DescriptorFiles {
 public:
  DescriptorFiles() {
    static std::atomic<int> count{0};
    folder_ = std::filesystem::temp_directory_path() / concat("normlab-descriptor-", ::getpid(), "-", count++);
    std::filesystem::create_directories(folder_);
  }
  ~DescriptorFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  DescriptorFiles(const DescriptorFiles&) = delete;
  DescriptorFiles& operator=(const DescriptorFiles&) = delete;

  std::filesystem::path write(const std::string& name, std::string_view text) {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

  Experiment load(std::string_view text, const std::vector<std::string>& sets = {}) {
    return load_experiment(write("d.json", text), sets);
  }

  /// All problems of a descriptor, its folder left out of them; "" if there are none.
  std::string problems(std::string_view text, const std::vector<std::string>& sets = {}) {
    try {
      load(text, sets);
    } catch (const InputError& error) {
      return without_folder(error.what());
    }
    return "";
  }

  std::string without_folder(std::string text) const {
    const std::string folder = folder_.string() + "/";
    for (std::size_t at = 0; (at = text.find(folder, at)) != std::string::npos;) text.erase(at, folder.size());
    return text;
  }

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace normlab
