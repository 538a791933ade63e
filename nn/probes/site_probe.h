// What the norms of a network see in one batch: moments and a histogram of each site's input, and single pairs of input
// and output; and how attention spreads over the tokens.
//
// Sums are taken per image and added in image order, in double, so neither the cut into shards nor the number of
// threads changes a bit.
#pragma once

#include <array>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "nn/model/step.h"
#include "nn/probes/named_records.h"

namespace normlab {

/// Bins of a histogram: one for |x| < 2^-12, and for each sign one per power of two up to 2^12 and beyond.
inline constexpr int kBinOctaves = 12;
inline constexpr std::size_t kActivationBins = 4 * kBinOctaves + 1;
/// From -2^12 and below through 0 to 2^12 and above. NaN is in no bin: returns kActivationBins.
std::size_t activation_bin(double value);
/// The smallest magnitude in a bin, with the sign of the bin: -4096, ..., -2^-12, 0, 2^-12, ..., 4096.
double bin_edge(std::size_t bin);

/// Moments of the inputs of a norm. Kurtosis is the fourth central moment over the squared variance, 3 for a Gaussian.
struct ActivationMoments {
  std::int64_t count = 0;
  double mean = 0, variance = 0, kurtosis = 0, lowest = 0, highest = 0;
  std::array<std::int64_t, kActivationBins> bins{};
};

/// A norm's input and its output before gain and bias, at one position of one image.
struct MappedPoint {
  double in = 0, out = 0;
  std::int64_t token = 0, channel = 0;
};

/// The images and the points of each that a mapping records, spread over positions and channels.
inline constexpr std::int64_t kMappedImages = 8, kMappedPoints = 32;
/// The images whose attention is measured.
inline constexpr std::int64_t kAttendedImages = 16;

class NormProbe {
 public:
  /// `points`: also record points.
  explicit NormProbe(bool points) : points_(points) {}
  /// Sets the observer of norms, which must not outlive the probe.
  void observe(Observers& observers);
  struct Site {
    std::string name;  // "blocks.0.attn.pre"
    ActivationMoments moments;
    std::vector<MappedPoint> points;  // in the order of the images
  };
  /// After the shards of this rank: takes over those of the others. All ranks call it.
  void gather(Ranks& ranks);
  /// After all shards, in the order of the network.
  std::vector<Site> sites() const;

 private:
  struct Sums {
    double s1 = 0, s2 = 0, s3 = 0, s4 = 0;
    double lowest = std::numeric_limits<double>::infinity(), highest = -std::numeric_limits<double>::infinity();
    std::int64_t count = 0;
  };
  struct Record {
    std::vector<Sums> images;
    std::array<std::int64_t, kActivationBins> bins{};  // behind mutex_
    std::array<std::vector<MappedPoint>, std::size_t(kMappedImages)> points;
  };
  bool points_;
  std::mutex mutex_;
  NamedRecords<Record> records_;
};

/// Entropy (natural logarithm) of the attention weights of a query, the mean over images, heads and queries, and the
/// largest score before the softmax. Windows include their bias and mask. Attention dropout is left out.
class AttentionProbe {
 public:
  /// Sets the observer of attention, which must not outlive the probe.
  void observe(Observers& observers);
  struct Layer {
    std::string name;  // "blocks.0.attn"
    double entropy = 0, largest_logit = 0;
  };
  /// After the shards of this rank: takes over those of the others. All ranks call it.
  void gather(Ranks& ranks);
  /// After all shards, in the order of the network.
  std::vector<Layer> layers() const;

 private:
  struct Record {
    std::array<double, std::size_t(kAttendedImages)> entropy{}, largest{};
    std::array<std::int64_t, std::size_t(kAttendedImages)> queries{};
  };
  NamedRecords<Record> records_;
};

}  // namespace normlab
