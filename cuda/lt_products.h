// Products by cuBLASLt, fused with operations before or after them. A product's algorithm is chosen at its first use
// and changes only where tune() is called: to that of a checkpoint, of a file, or to the first of cuBLASLt's.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/backend.h"
#include "cuda/memory.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// What else a product does. v is the vector, x the extra matrix [m, n] in D's type, h = op(A) op(B) (+ C).
///   none                 D = h
///   bias                 D = h + v, v [n]
///   bias_gelu_tanh_aux   x = h + v, D = gelu_tanh(x)
///   dgelu_tanh           D = h gelu_tanh'(x)
enum class Epilogue : std::uint8_t { none, bias, bias_gelu_tanh_aux, dgelu_tanh };

/// D [m, n] = op(A) op(B) (+ C), row-major without gaps. op(A) is [m, k], op(B) [k, n]; `transpose_a`: A is stored
/// [k, m], `transpose_b`: B is stored [n, k]. Types: `in` for A and B, `out` for C, D and x, `vector` for v. `batch`
/// of them at once: each matrix then begins stride_in_batch() values after the one before.
struct LtProduct {
  std::int64_t m, n, k;
  DType in, out, vector;
  bool transpose_a = false, transpose_b = false, add = false;
  Epilogue epilogue = Epilogue::none;
  bool tf32 = false;  // of floats: tensor cores round the inputs to 10 bits after the first
  std::int64_t batch = 1;
  auto operator<=>(const LtProduct&) const = default;
};
inline bool has_extra(const LtProduct& p) {
  return p.epilogue == Epilogue::bias_gelu_tanh_aux || p.epilogue == Epilogue::dgelu_tanh;
}
/// "8320x192x768 nt bf16>f32 bias add": a product as readable text and as a key.
std::string words_of(const LtProduct& p);

/// For a matrix of so many values: each begins at 16 bytes, as all operands do.
constexpr std::int64_t stride_in_batch(std::int64_t values) { return (values + 7) / 8 * 8; }
/// Bytes. All operands have it, so that a product has one algorithm.
inline constexpr std::uint32_t kLtAlignment = 16;
/// c may equal d, and is read only with `add`. op(A) op(B) is multiplied by `scale`, C by `kept`.
struct LtOperands {
  const void *a, *b, *c;
  void *d, *vector = nullptr, *extra = nullptr;
  double scale = 1.0, kept = 1.0;
  bool aligned() const;
};

/// See LtProducts::at_once().
enum class AtOnce : std::uint8_t { done, no, not_yet };

class LtProducts {
 public:
  /// Throws EnvironmentError if cuBLASLt is missing or cannot start.
  explicit LtProducts(const Stream& stream);
  ~LtProducts();
  LtProducts(const LtProducts&) = delete;
  LtProducts& operator=(const LtProducts&) = delete;

  /// The library's version: "13.0.2".
  static std::string version();

  /// False, without doing anything, if cuBLASLt has no algorithm for the product or an operand is not aligned to 16
  /// bytes. Sums are float, or double for double, and each value is rounded once. Throws EnvironmentError if cuBLASLt
  /// fails; the next call then asks again.
  bool operator()(const char* op, LtProduct p, const LtOperands& with);
  /// The product for each of `all`, in one call on this object's stream, with the algorithm and the bits that it has
  /// alone. no: without doing anything, if they do not lie at equal distances or cuBLASLt has no such call. not_yet: nor
  /// before compare_new() has compared the bits of so many with those of single products, which cuBLASLt does not promise.
  AtOnce at_once(const char* op, const LtProduct& p, std::span<const LtOperands> all);
  /// Whether there were any to compare. Not in the middle of a recording, since it takes memory and waits.
  bool compare_new();
  /// Whether both compute the product, and alike.
  bool same_algorithm(LtProduct p, LtProducts& other);

  /// The algorithms chosen so far, readable: "8320x192x768 nt bf16 bias: algo 66 tile 24 stages 35 split-k 1; ..".
  std::string description() const;
  /// The same for choose() and prefer(), and those that choose() was given for products not used since: a line each for
  /// cuBLASLt's version, the GPU's name and each product. Empty if there are none.
  std::string choices() const;
  /// Uses the algorithms in `recorded` from now on; other products choose anew. Throws InputError if `recorded` is for
  /// another version of cuBLASLt or GPU, or cannot be read or used. Records of older versions name no GPU.
  void choose(const std::string& recorded);
  /// Of a file, for products that choose() has none for. Its products are checked at once; see
  /// Backend::prefer_products().
  void prefer(const ProductAlgorithms& file);
  /// See Backend::tune_products().
  std::vector<TunedProduct> tune(double seconds);

 private:
  struct Plan {
    cublasLtMatmulDesc_t what = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace = 0;
    std::int64_t calls = 0;
    bool found = false;
    Plan() = default;
    ~Plan();
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
  };
  /// From each product of a batch to the next, in values.
  struct Strides {
    std::int64_t a, b, c, d, vector = 0, extra = 0;
    static Strides of(const LtProduct& p);
  };
  /// None unless equal from each of `all` to the next.
  static std::optional<Strides> strides_between(const LtProduct& p, std::span<const LtOperands> all);
  Plan& plan(LtProduct p);
  static void describe(const LtProduct& p, const Strides& strides, Plan& plan);
  void forget_plans() {
    plans_.clear();
    keeps_bits_.clear();
  }
  using Algorithms = std::map<std::string, cublasLtMatmulAlgo_t>;  // by words_of() of a product
  struct Candidate {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace;
  };
  static constexpr int kCandidates = 16;
  /// The library's algorithms, at most so many of kCandidates, its own choice first.
  std::vector<Candidate> look_up(const Plan& plan, int most) const;
  /// False if cuBLASLt cannot use the algorithm.
  bool take(Plan& plan, const cublasLtMatmulAlgo_t& algorithm) const;
  /// False if cuBLASLt refuses the call. `workspace`: for what the stream computes.
  bool multiply(const char* op, const LtProduct& p, const Plan& plan, const LtOperands& with, const Stream& stream,
                Buffer& workspace) const;
  bool describe_at_once(LtProduct p, const Strides& strides, const Plan& alone, std::int64_t count, Plan& plan) const;
  bool keeps_bits(const LtProduct& p, std::int64_t count);
  TunedProduct tune(const LtProduct& p, Plan& plan, double seconds, Buffer& memory);

  const Stream& stream_;
  cublasLtHandle_t handle_ = nullptr;
  Buffer workspace_;
  std::map<LtProduct, Plan> plans_;
  Algorithms chosen_, preferred_;
  std::map<std::pair<LtProduct, std::int64_t>, bool> keeps_bits_;  // with the algorithms of plans_
  std::set<std::pair<LtProduct, std::int64_t>> uncompared_;
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
