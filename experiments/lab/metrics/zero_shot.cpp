#include "experiments/lab/metrics/zero_shot.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace normlab {
namespace {

double cosine(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double minus_log_sigmoid(double z) { return std::log1p(std::exp(-std::abs(z))) + std::max(-z, 0.0); }

}  // namespace

std::string plain_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || c == '_') {
      if (!out.empty() && out.back() != ' ') out += ' ';
    } else if (byte >= 0x80 || std::isalnum(byte) || c == '{' || c == '}') {
      out += static_cast<char>(byte < 0x80 ? std::tolower(byte) : byte);
    }
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

std::vector<std::string> class_texts(const std::string& name, const std::vector<std::string>& templates) {
  const std::string plain = plain_text(name.substr(0, name.find(',')));
  if (templates.empty()) return {plain};
  std::vector<std::string> texts;
  for (const std::string& pattern : templates) {
    std::string& text = texts.emplace_back(plain_text(pattern));
    if (const std::size_t at = text.find("{}"); at != text.npos) text.replace(at, 2, plain);
  }
  return texts;
}

void make_unit(Features& rows) {
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    double* const row = rows.values.data() + r * rows.width;
    const double norm = std::sqrt(std::inner_product(row, row + rows.width, row, 0.0));
    for (std::size_t c = 0; c < rows.width; ++c) row[c] /= norm + 1e-8;
  }
}

Features class_vectors(const Features& unit_texts, std::size_t per_class) {
  Features out{unit_texts.width};
  out.values.resize(unit_texts.values.size() / per_class);
  for (std::size_t r = 0; r < unit_texts.rows(); ++r)
    for (std::size_t c = 0; c < out.width; ++c)
      out.values[r / per_class * out.width + c] += unit_texts.row(r)[c] / double(per_class);
  make_unit(out);
  return out;
}

std::vector<std::int32_t> most_similar(const Features& queries, const Features& among) {
  std::vector<std::int32_t> found;
  for (std::size_t i = 0; i < queries.rows(); ++i) {
    std::size_t best = 0;
    double top = -2;
    for (std::size_t j = 0; j < among.rows(); ++j)
      if (const double c = cosine(queries.row(i), among.row(j)); c > top) top = c, best = j;
    found.push_back(static_cast<std::int32_t>(best));
  }
  return found;
}

std::vector<double> similarities(std::span<const double> row, const Features& among) {
  std::vector<double> cosines;
  for (std::size_t j = 0; j < among.rows(); ++j) cosines.push_back(cosine(row, among.row(j)));
  return cosines;
}

double contrastive_loss_of(const Features& images, const Features& texts, std::size_t batch, bool sigmoid, double t,
                           double b) {
  const std::size_t n = images.rows();
  double total = 0;
  for (std::size_t first = 0, count = 0; first < n; first += count) {
    count = n - first < batch + 2 ? n - first : batch;
    const auto logit = [&](std::size_t i, std::size_t j) {
      return std::exp(t) * cosine(images.row(first + i), texts.row(first + j)) + (sigmoid ? b : 0.0);
    };
    for (std::size_t i = 0; i < count; ++i) {
      const double matching = logit(i, i);
      double over_texts = 0, over_images = 0;  // exponents are relative to the pair's own logit
      for (std::size_t j = 0; j < count; ++j) {
        if (sigmoid) {
          total += minus_log_sigmoid(j == i ? matching : -logit(i, j));
          continue;
        }
        over_texts += std::exp(logit(i, j) - matching);
        over_images += std::exp(logit(j, i) - matching);
      }
      if (!sigmoid) total += 0.5 * (std::log(over_texts) + std::log(over_images));
    }
  }
  return total / double(n);
}

}  // namespace normlab
