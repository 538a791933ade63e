// What the norms of a network see in one batch: moments and a histogram of each site's input, and single pairs of input
// and output; and how attention spreads over the tokens.
//
// Sums are taken per image and added in image order, in double, so neither the cut into shards nor the number of
// threads changes a bit.
#pragma once

#include <array>
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
  /// After the shards here: takes over those of other processes. All call it.
  void gather(Group& group) { records_.gather(group); }
  /// After all shards, in the order of the network.
  std::vector<Site> sites() const;

 private:
  struct Record {
    ImageRows sums;    // of the first to fourth powers, the lowest and highest value, their number; and the bins
    ImageRows points;  // in, out, token and channel of each
    std::array<ImageRows*, 2> rows() { return {&sums, &points}; }
  };
  bool points_;
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
  /// After the shards here: takes over those of other processes. All call it.
  void gather(Group& group) { records_.gather(group); }
  /// After all shards, in the order of the network.
  std::vector<Layer> layers() const;

 private:
  struct Record {
    ImageRows images;  // entropy, largest logit, queries
    std::array<ImageRows*, 1> rows() { return {&images}; }
  };
  NamedRecords<Record> records_;
};

}  // namespace normlab
