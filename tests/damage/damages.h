// Damage to files of a results folder: what a disk, a copy that was cut short or a hand may do to them.
#pragma once

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "experiments/lab/base/files.h"

namespace normlab {

/// What was done, and to which files; `words` for the report of a failure.
struct Damage {
  std::string words;
  std::vector<std::filesystem::path> paths;
  bool removal = false;  // of whole files: a trial may then honestly be missing
};

class Damager {
 public:
  explicit Damager(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t count) { return std::size_t(random_() % count); }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[below(list.size())];
  }

  /// Damages one of `files`, perhaps together with another one. Every call changes something.
  Damage damage(const std::vector<std::filesystem::path>& files) {
    while (true) {
      const std::filesystem::path path = one_of(files);
      const std::string before = read_file(path);
      Damage damage{"", {path}};
      if (is_json(path) && below(3) > 0)
        damage.words = aim(path, before);
      else if (path.extension() == ".safetensors" && below(3) == 0)
        damage.words = aim_at_metadata(path, before);
      else
        damage.words = at_random(path, before, files, damage);
      if (!damage.words.empty()) return damage;
    }
  }

  /// Changes the value at `pointer` of a JSON file; the words say how. "" where nothing has changed.
  std::string change_value(const std::filesystem::path& path, const std::string& pointer) {
    auto json = nlohmann::ordered_json::parse(read_file(path));
    const auto before = json;
    auto& value = json[nlohmann::ordered_json::json_pointer(pointer)];
    const std::string old = value.dump();
    value = other_value(value);
    if (json == before) return "";
    write(path, json.dump(2) + "\n");
    return pointer + " from " + old + " to " + value.dump();
  }

 private:
  static bool is_json(const std::filesystem::path& path) {
    return path.extension() == ".json" || path.extension() == ".jsonl";
  }
  /// Not through write_atomically(), whose fsync takes time.
  static void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  nlohmann::ordered_json other_value(const nlohmann::ordered_json& value) {
    if (value.is_boolean()) return !value.get<bool>();
    if (value.is_number_integer()) {
      const auto number = value.get<std::int64_t>();
      const std::vector<std::int64_t> others{number + 1, number - 1, 0, 1, 3, -1, 9, number * 10, 1'000'000'000'000};
      return one_of(others);
    }
    if (value.is_number()) {
      const double number = value.get<double>();
      const std::vector<double> others{number + 0.01, number * (1 + 1e-9), -number, 0, 1, 0.99, 7.5, -1e300,
                                       1e300,         10 * number};
      return one_of(others);
    }
    if (value.is_string()) {
      std::string text = value.get<std::string>();
      for (const char* word : {"done", "diverged", "failed"})
        if (text == word && below(2) == 0) return one_of<std::string>({"done", "diverged", "failed"});
      if (text.empty() || below(10) == 0) return text + "x";
      char& c = text[below(text.size())];
      c = "0123456789abcdefghijklmnopqrstuvwxyz"[below(36)];
      return text;
    }
    return one_of<nlohmann::ordered_json>({nullptr, 0, "x", nlohmann::ordered_json::object()});
  }

  /// A value, a member or a line of JSON.
  std::string aim(const std::filesystem::path& path, const std::string& before) {
    std::vector<std::string> lines{before};
    const bool by_lines = path.extension() == ".jsonl";
    if (by_lines) {
      lines.clear();
      for (std::size_t begin = 0, end; (end = before.find('\n', begin)) != before.npos; begin = end + 1)
        lines.push_back(before.substr(begin, end - begin));
      if (lines.empty()) return "";
    }
    const std::size_t at = below(lines.size());
    std::string words;
    if (by_lines && below(4) == 0) {
      const std::size_t other = below(lines.size());
      switch (below(3)) {
        case 0:
          words = "line " + std::to_string(at + 1) + " removed";
          lines.erase(lines.begin() + std::ptrdiff_t(at));
          break;
        case 1:
          words = "line " + std::to_string(at + 1) + " twice";
          lines.insert(lines.begin() + std::ptrdiff_t(at), std::string(lines[at]));
          break;
        default:
          words = "lines " + std::to_string(at + 1) + " and " + std::to_string(other + 1) + " swapped";
          std::swap(lines[at], lines[other]);
      }
    } else {
      auto json = nlohmann::ordered_json::parse(lines[at]);
      const auto flat = json.flatten();
      if (flat.empty()) return "";
      auto leaf = flat.begin();
      std::advance(leaf, std::ptrdiff_t(below(flat.size())));
      const nlohmann::ordered_json::json_pointer pointer(leaf.key());
      if (below(6) == 0) {
        if (auto& parent = json[pointer.parent_pointer()]; parent.is_array())
          parent.erase(std::stoul(pointer.back()));
        else
          parent.erase(pointer.back());
        words = leaf.key() + " removed";
      } else if (below(12) == 0) {
        if (auto& parent = json[pointer.parent_pointer()]; parent.is_array())
          parent.push_back(1);
        else
          parent["more"] = 1;
        words = leaf.key() + " has company";
      } else {
        auto& value = json[pointer];
        value = other_value(value);
        words = leaf.key() + " from " + leaf.value().dump() + " to " + value.dump();
      }
      lines[at] = by_lines ? json.dump() : json.dump(2) + "\n";
    }
    std::string after;
    for (const std::string& line : lines) after += line + (by_lines ? "\n" : "");
    if (after == before) return "";
    write(path, after);
    return words;
  }

  /// One entry of a weight file's metadata, in a header that is whole.
  std::string aim_at_metadata(const std::filesystem::path& path, const std::string& before) {
    std::uint64_t length = 0;
    std::memcpy(&length, before.data(), sizeof length);
    auto header = nlohmann::ordered_json::parse(before.substr(sizeof length, length));
    auto& metadata = header["__metadata__"];
    auto entry = metadata.begin();
    std::advance(entry, std::ptrdiff_t(below(metadata.size())));
    const std::string key = entry.key(), old = entry.value().get<std::string>();
    entry.value() = other_value(entry.value());
    if (entry.value() == old) return "";
    const std::string text = header.dump();
    length = text.size();
    write(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + text +
                    before.substr(sizeof length + std::size_t(before_length(before))));
    return "metadata " + key + " changed";
  }
  static std::uint64_t before_length(const std::string& bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    return length;
  }

  std::string at_random(const std::filesystem::path& path, const std::string& before,
                        const std::vector<std::filesystem::path>& files, Damage& damage) {
    std::string after = before;
    std::string words;
    switch (below(12)) {
      case 0:
      case 1:
        if (before.empty()) return "";
        words = "bits flipped:";
        for (std::size_t n = 1 + below(below(2) == 0 ? 1 : 8); n > 0; --n) {
          const std::size_t byte = below(after.size());
          after[byte] = char(after[byte] ^ (1 << below(8)));
          words += " " + std::to_string(byte);
        }
        break;
      case 2: {
        std::vector<std::size_t> digits;
        for (std::size_t i = 0; i < after.size(); ++i)
          if (after[i] >= '0' && after[i] <= '9') digits.push_back(i);
        if (digits.empty()) return "";
        const std::size_t byte = one_of(digits);
        after[byte] = char('0' + below(10));
        words = "digit at byte " + std::to_string(byte);
        break;
      }
      case 3:
        after.resize(below(after.size() + 1));
        words = "cut to " + std::to_string(after.size());
        break;
      case 4:
        after.clear();
        words = "emptied";
        break;
      case 5:
        std::filesystem::remove(path);
        damage.removal = true;
        return "removed";
      case 6:
        after += one_of<std::string>({"\n", "x", before, std::string(100, '\0'), "{}\n"});
        words = "grown to " + std::to_string(after.size());
        break;
      case 7: {
        const std::size_t begin = below(after.size() + 1), count = std::min<std::size_t>(after.size() - begin, 512);
        after.replace(begin, count, count, '\0');
        words = "zeros from byte " + std::to_string(begin);
        break;
      }
      case 8: {
        const std::size_t begin = below(after.size() + 1), count = std::min<std::size_t>(after.size() - begin, 64);
        after.erase(begin, count);
        words = std::to_string(count) + " bytes lost at " + std::to_string(begin);
        break;
      }
      case 9:
      case 10: {  // with a file of the same name of another trial
        std::vector<std::filesystem::path> same;
        for (const auto& other : files)
          if (other.filename() == path.filename() && other != path) same.push_back(other);
        if (same.empty()) return "";
        const auto other = one_of(same);
        if (read_file(other) == before) return "";
        after = read_file(other);
        damage.paths.push_back(other);
        write(other, before);
        words = "swapped with " + other.string();
        break;
      }
      default: {
        std::filesystem::remove(path);
        std::filesystem::create_directory(path);
        return "a folder in its place";
      }
    }
    if (after == before) return "";
    write(path, after);
    return words;
  }

  std::mt19937_64 random_;
};

}  // namespace normlab
