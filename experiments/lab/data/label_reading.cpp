#include "experiments/lab/data/label_reading.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/class_order.h"

namespace normlab {
namespace {

constexpr std::int32_t kAbsent = -1;  // a class that the training split lacks

std::string without_zeros(const std::string& number) {
  return number.substr(std::min(number.find_first_not_of('0'), number.size() - 1));
}

class Reader {
 public:
  Reader(const std::filesystem::path& file, const std::vector<ListedLabel>& labels, const LabelClasses& classes)
      : file_(file), classes_(classes) {
    for (std::size_t i = 0; i < classes.names.size(); ++i) places_[classes.names[i]] = static_cast<std::int32_t>(i);
    std::map<std::string, bool> seen;
    for (const ListedLabel& label : labels)
      if (seen.emplace(label.label, true).second) distinct_.push_back(&label);
  }

  LabelReading read() const {
    // The first label that is a name, that is none, and that is no number.
    const ListedLabel *named = nullptr, *other = nullptr, *text = nullptr;
    for (const ListedLabel* label : distinct_) {
      const bool name = places_.contains(label->label), number = is_number(label->label);
      if (!classes_.from && !name && !number) refuse_unknown(*label);
      const ListedLabel*& first = name ? named : other;
      if (first == nullptr) first = label;
      if (text == nullptr && !number) text = label;
    }
    if (classes_.from) {
      if (text != nullptr)
        throw InputError(concat(where(*text), "label ", in_quotes(text->label),
                                " is no number, but labels_from says that labels are numbers; leave it out"));
    } else {
      if (other == nullptr) return by_name();
      if (text != nullptr) refuse_mixed(*named, *other);
      if (!classes_.order_stated && are_wnids(classes_.names)) refuse_wnids();
    }
    const std::vector<LabelReading> readings = of_numbers();
    const bool by_number = !classes_.from && !readings.empty() && readings.front().words == kByNumber;
    if (named != nullptr && !classes_.from && !by_number) refuse_mixed(*named, *other);
    if (readings.empty()) refuse_numbers();
    if (readings.size() > 1) refuse_readings(readings);
    require_there(readings.front());
    return readings.front();
  }

 private:
  static constexpr const char* kByNumber = "labels are names but for zeros before them";

  std::string where(const ListedLabel& label) const { return concat(file_.string(), ":", label.line, ": "); }

  LabelReading by_name() const {
    LabelReading reading{"labels are names", {}};
    for (const ListedLabel* label : distinct_) reading.classes[label->label] = places_.at(label->label);
    return reading;
  }

  /// Those that differ.
  std::vector<LabelReading> of_numbers() const {
    std::vector<LabelReading> readings;
    const auto add = [&](std::optional<LabelReading> reading) {
      if (reading && std::find(readings.begin(), readings.end(), *reading) == readings.end())
        readings.push_back(std::move(*reading));
    };
    if (!classes_.from) add(by_number());
    for (const std::int64_t from : {0, 1})
      for (const CountedClasses& counted : classes_.counted)
        if (classes_.from.value_or(from) == from) add(counting(from, counted));
    return readings;
  }

  std::optional<LabelReading> by_number() const {
    std::map<std::string, std::vector<std::int32_t>> places;
    for (const auto& [name, place] : places_)
      if (is_number(name)) places[without_zeros(name)].push_back(place);
    LabelReading reading{kByNumber, {}};
    for (const ListedLabel* label : distinct_) {
      const auto found = places.find(without_zeros(label->label));
      if (found == places.end() || found->second.size() > 1) return std::nullopt;
      reading.classes[label->label] = found->second.front();
    }
    return reading;
  }

  std::optional<LabelReading> counting(std::int64_t from, const CountedClasses& counted) const {
    LabelReading reading{concat("labels count from ", from, counted.order.empty() ? "" : " ", counted.order), {}};
    for (const ListedLabel* label : distinct_) {
      const std::int64_t at = small_number(label->label).value_or(0) - from;
      if (!small_number(label->label) || at < 0 || at >= std::ssize(counted.names)) return std::nullopt;
      const auto place = places_.find(counted.names[static_cast<std::size_t>(at)]);
      reading.classes[label->label] = place == places_.end() ? kAbsent : place->second;
    }
    return reading;
  }

  void require_there(const LabelReading& reading) const {
    for (const ListedLabel* label : distinct_)
      if (reading.classes.at(label->label) == kAbsent)
        throw InputError(concat(where(*label), "label ", in_quotes(label->label),
                                " is a class that does not occur in the training split (", reading.words, ")"));
  }

  [[noreturn]] void refuse_unknown(const ListedLabel& label) const {
    throw InputError(concat(where(label), "label ", in_quotes(label.label), " is neither a class name nor a number"));
  }

  [[noreturn]] void refuse_mixed(const ListedLabel& named, const ListedLabel& other) const {
    const bool numbers =
        std::all_of(distinct_.begin(), distinct_.end(), [](const ListedLabel* l) { return is_number(l->label); });
    throw InputError(concat(where(other), "label ", in_quotes(other.label), " is no class name, but label ",
                            in_quotes(named.label), " in line ", named.line, " is one; ",
                            numbers ? concat("if the labels count the classes instead, say ", settings(true, false))
                                    : "write the name of a class in each line"));
  }

  [[noreturn]] void refuse_wnids() const {
    const ListedLabel& label = *distinct_.front();
    throw InputError(concat(
        where(label), "label ", in_quotes(label.label), of_image(label),
        " is a number, but the classes are WNIDs, and ImageNet's own numbers do not count the sorted WNIDs:",
        classes_by(of_numbers(), label),
        "\nGive \"class_order\": a file in the data set's folder that lists the WNIDs in the order of the numbers, "
        "or \"bytes\" if they do count the sorted ones (in \"dataset\", or with --class-order)"));
  }

  [[noreturn]] void refuse_numbers() const {
    const bool zero =
        classes_.from.value_or(std::none_of(distinct_.begin(), distinct_.end(), [](const ListedLabel* label) {
          return is_number(label->label) && without_zeros(label->label) == "0";
        })) == 0;
    const std::int64_t first = zero ? 0 : 1, last = std::ssize(classes_.counted.front().names) - 1 + first;
    for (const ListedLabel* label : distinct_)
      if (const auto number = small_number(label->label); !number || *number < first || *number > last)
        throw InputError(concat(where(*label), "label ", in_quotes(label->label),
                                " is neither a class name nor a number from ", first, " to ", last));
    throw InputError(concat(file_.string(), ": its labels fit no classes"));
  }

  [[noreturn]] void refuse_readings(const std::vector<LabelReading>& readings) const {
    const auto differ = [&](const ListedLabel* label) {
      return std::any_of(readings.begin(), readings.end(), [&](const LabelReading& reading) {
        return reading.classes.at(label->label) != readings.front().classes.at(label->label);
      });
    };
    const ListedLabel& label = **std::find_if(distinct_.begin(), distinct_.end(), differ);
    throw InputError(concat(where(label), "label ", in_quotes(label.label), of_image(label),
                            " may be of several classes, and nothing says which:", classes_by(readings, label),
                            "\nSay ", settings(!classes_.from, classes_.counted.size() > 1)));
  }

  static std::string of_image(const ListedLabel& label) {
    return label.image.empty() ? "" : concat(" of ", in_quotes(label.image));
  }

  /// A line for each reading.
  std::string classes_by(const std::vector<LabelReading>& readings, const ListedLabel& label) const {
    std::string lines;
    for (const LabelReading& reading : readings) {
      const std::int32_t place = reading.classes.at(label.label);
      lines +=
          concat("\n  ", reading.words, ": class ",
                 place == kAbsent ? "that training lacks" : in_quotes(classes_.names[static_cast<std::size_t>(place)]));
    }
    return lines;
  }

  static std::string settings(bool base, bool order) {
    const char *const from = "\"labels_from\": 0 or 1", *const in_order = "\"class_order\": \"bytes\" or \"natural\"";
    return concat(base ? from : "", base && order ? " and " : "", order ? in_order : "", " in \"dataset\" (",
                  base ? "--labels-from" : "", base && order ? ", " : "", order ? "--class-order" : "",
                  "), or write names of classes");
  }

  const std::filesystem::path& file_;
  const LabelClasses& classes_;
  std::map<std::string, std::int32_t> places_;
  std::vector<const ListedLabel*> distinct_;
};

}  // namespace

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::optional<std::int64_t> small_number(const std::string& text) {
  constexpr std::size_t kMostDigits = 9;
  if (!is_number(text) || text.size() > kMostDigits) return std::nullopt;
  return std::stoll(text);
}

LabelReading read_labels(const std::filesystem::path& file, const std::vector<ListedLabel>& labels,
                         const LabelClasses& classes) {
  return Reader(file, labels, classes).read();
}

}  // namespace normlab
