#include "cuda/lt_products.h"

#include <optional>
#include <regex>
#include <sstream>

#include "core/error.h"
#include "cuda/library.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// The functions used, with their names in the library.
// clang-format off
#define NORMLAB_CUBLASLT(F) \
  F(create, cublasLtCreate) F(destroy, cublasLtDestroy) F(property, cublasLtGetProperty) \
  F(create_what, cublasLtMatmulDescCreate) F(destroy_what, cublasLtMatmulDescDestroy) \
  F(set_what, cublasLtMatmulDescSetAttribute) F(create_layout, cublasLtMatrixLayoutCreate) \
  F(set_layout, cublasLtMatrixLayoutSetAttribute) F(destroy_layout, cublasLtMatrixLayoutDestroy) \
  F(create_preference, cublasLtMatmulPreferenceCreate) \
  F(destroy_preference, cublasLtMatmulPreferenceDestroy) F(set_preference, cublasLtMatmulPreferenceSetAttribute) \
  F(look_up, cublasLtMatmulAlgoGetHeuristic) F(check, cublasLtMatmulAlgoCheck) \
  F(config, cublasLtMatmulAlgoConfigGetAttribute) F(matmul, cublasLtMatmul)
// clang-format on
struct CublasLt {
  NORMLAB_CUBLASLT(NORMLAB_LIBRARY_MEMBER)
  explicit CublasLt(const Library& library = Library("cublasLt")) { NORMLAB_CUBLASLT(NORMLAB_LIBRARY_FIND) }
};

const CublasLt& lt() {
  static const CublasLt instance;
  return instance;
}

void check(const char* op, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  NORMLAB_CUDA_NAMESPACE::check(op, cudaGetLastError());  // where the GPU is at fault, cuBLASLt does not say so
  throw EnvironmentError(concat(op, ": cuBLASLt failed with status ", static_cast<int>(status)));
}

constexpr std::int64_t kWorkspace = std::int64_t{32} << 20;  // NVIDIA's advice for Hopper
cublasLtEpilogue_t epilogue_of(Epilogue e) {
  switch (e) {
    case Epilogue::none:
      break;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu_tanh_aux:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::dgelu_tanh:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_vector(Epilogue e) { return e != Epilogue::none && e != Epilogue::dgelu_tanh; }

/// Whether cuBLASLt has no such algorithm. Throws for any other failure, which may pass. Some versions report an epilogue
/// that a type lacks as an invalid value.
bool has_none(const char* op, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
      status == CUBLAS_STATUS_ARCH_MISMATCH)
    return true;
  check(op, status);
  return false;
}

template <class V>
void set(cublasLtMatmulDesc_t what, cublasLtMatmulDescAttributes_t attribute, const V& value) {
  check("cuBLASLt", lt().set_what(what, attribute, &value, sizeof value));
}
template <class V>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const V& value) {
  check("cuBLASLt", lt().set_layout(layout, attribute, &value, sizeof value));
}
template <class V>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const V& value) {
  check("cuBLASLt", lt().set_preference(preference, attribute, &value, sizeof value));
}

constexpr const char* kEpilogues[] = {"", " bias", " bias_gelu_tanh_aux", " dgelu_tanh"};

/// The inverse of words_of(); nothing for other words.
std::optional<LtProduct> product_of(const std::string& words) {
  static const std::regex form(
      R"((\d{1,12})x(\d{1,12})x(\d{1,12}) ([nt])([nt]) (\w+)(?:>(\w+))?( bias\w*| dgelu\w*)?(?:\((\w+)\))?( add)?( tf32)?(?: batch (\d{1,9}))?)");
  std::smatch parts;
  if (!std::regex_match(words, parts, form)) return std::nullopt;
  const auto type = [](const std::string& name, DType otherwise) {
    for (const DType known : {DType::f32, DType::f64, DType::bf16})
      if (name == to_string(known)) return known;
    return otherwise;
  };
  const DType in = type(parts[6], DType::i32), out = type(parts[7], in);
  LtProduct p{.m = std::stoll(parts[1]),
              .n = std::stoll(parts[2]),
              .k = std::stoll(parts[3]),
              .in = in,
              .out = out,
              .vector = type(parts[9], out),
              .transpose_a = parts[4] == "t",
              .transpose_b = parts[5] == "t",
              .add = parts[10].matched,
              .tf32 = parts[11].matched};
  for (std::size_t e = 0; e < std::size(kEpilogues); ++e)
    if (parts[8] == kEpilogues[e]) p.epilogue = static_cast<Epilogue>(e);
  return in != DType::i32 && words_of(p) == words ? std::optional(p) : std::nullopt;
}

std::uint32_t config(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  std::uint32_t value = 0;
  std::size_t written = 0;
  check("cuBLASLt", lt().config(&algorithm, attribute, &value, sizeof value, &written));
  return value;
}

std::string words_of(const cublasLtMatmulAlgo_t& algorithm) {
  return concat("algo ", config(algorithm, CUBLASLT_ALGO_CONFIG_ID), " tile ",
                config(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID), " stages ",
                config(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID), " split-k ",
                config(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

std::string to_hex(const cublasLtMatmulAlgo_t& algorithm) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint64_t word : algorithm.data)
    for (int shift = 60; shift >= 0; shift -= 4) hex += kDigits[word >> shift & 15];
  return hex;
}

/// False for anything but output of to_hex().
bool from_hex(const std::string& hex, cublasLtMatmulAlgo_t& algorithm) {
  constexpr std::size_t kDigitsOfWord = 16;
  if (hex.size() != kDigitsOfWord * std::size(algorithm.data)) return false;
  if (hex.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i)
    algorithm.data[i] = std::stoull(hex.substr(i * kDigitsOfWord, kDigitsOfWord), nullptr, 16);
  return true;
}

/// The lines before those of products.
std::string library_line() { return "cuBLASLt " + LtProducts::version(); }
std::string gpu_line() { return "GPU " + device_info().name; }

using Fail = FunctionRef<void(int line, const std::string& what)>;

/// The algorithms of choices(), by product, each with its line. `fail` throws.
void read_choices(const std::string& text, Fail fail,
                  FunctionRef<void(int line, const std::string& product, const cublasLtMatmulAlgo_t&)> see) {
  std::istringstream lines(text);
  std::string words;
  for (int line = 1; std::getline(lines, words); ++line) {
    const bool gpu = line == 2 && words.starts_with("GPU ");
    if (line == 1 || gpu) {
      if (const std::string here = gpu ? gpu_line() : library_line(); words != here)
        fail(line, concat("recorded under \"", words, "\", but this is ", here));
      continue;
    }
    const std::size_t colon = words.rfind(": ");
    cublasLtMatmulAlgo_t algorithm{};
    if (colon == std::string::npos || !from_hex(words.substr(colon + 2), algorithm))
      fail(line, concat("no algorithm of a product: \"", words, "\""));
    see(line, words.substr(0, colon), algorithm);
  }
}

}  // namespace

std::string words_of(const LtProduct& p) {
  std::string words =
      concat(p.m, "x", p.n, "x", p.k, " ", p.transpose_a ? "t" : "n", p.transpose_b ? "t" : "n", " ", to_string(p.in));
  if (p.out != p.in) words += concat(">", to_string(p.out));
  words += kEpilogues[static_cast<int>(p.epilogue)];
  if (has_vector(p.epilogue) && p.vector != p.out) words += concat("(", to_string(p.vector), ")");
  if (p.add) words += " add";
  if (p.tf32) words += " tf32";
  if (p.batch > 1) words += concat(" batch ", p.batch);
  return words;
}

LtProducts::Plan::~Plan() {
  for (cublasLtMatrixLayout_t layout : {a, b, c, d})
    if (layout) lt().destroy_layout(layout);
  if (what) lt().destroy_what(what);
}

LtProducts::LtProducts(const Stream& stream) : stream_(stream), workspace_("cuBLASLt", stream) {
  check("cuBLASLt", lt().create(&handle_));
  // Allocated here, so that no step allocates. Not shared with cuBLAS, which may keep data there between calls.
  workspace_.get<char>(kWorkspace);
}

LtProducts::~LtProducts() {
  plans_.clear();
  if (handle_) lt().destroy(handle_);
}

std::string LtProducts::version() {
  int numbers[3] = {};
  for (const libraryPropertyType which : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL})
    check("cuBLASLt", lt().property(which, &numbers[static_cast<int>(which)]));
  return concat(numbers[0], ".", numbers[1], ".", numbers[2]);
}

LtProducts::Strides LtProducts::Strides::of(const LtProduct& p) {
  const std::int64_t of_d = stride_in_batch(p.m * p.n);
  return {stride_in_batch(p.m * p.k), stride_in_batch(p.k * p.n), of_d, of_d};
}

void LtProducts::describe(const LtProduct& p, const Strides& strides, Plan& plan) {
  // cuBLASLt is column-major, where our rows are the transposed matrix: D^T = op(B)^T op(A)^T.
  const bool wide = p.in == DType::f64;
  const cublasComputeType_t compute = wide     ? CUBLAS_COMPUTE_64F
                                      : p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                               : CUBLAS_COMPUTE_32F;
  check("cuBLASLt", lt().create_what(&plan.what, compute, wide ? CUDA_R_64F : CUDA_R_32F));
  set(plan.what, CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t{p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N});
  set(plan.what, CUBLASLT_MATMUL_DESC_TRANSB, std::int32_t{p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N});
  set(plan.what, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(epilogue_of(p.epilogue)));
  void* const somewhere = reinterpret_cast<void*>(std::uintptr_t{kLtAlignment});  // only its alignment matters
  if (has_vector(p.epilogue)) {
    set(plan.what, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(data_type(p.vector)));
    set(plan.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
    if (p.batch > 1) set(plan.what, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, strides.vector);
  }
  if (has_extra(p)) {
    set(plan.what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
    set(plan.what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere);
    if (p.batch > 1) set(plan.what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, strides.extra);
  }
  const auto layout = [&](cublasLtMatrixLayout_t& to, DType type, std::int64_t rows, std::int64_t cols,
                          std::int64_t stride) {
    check("cuBLASLt", lt().create_layout(&to, data_type(type), static_cast<std::uint64_t>(cols),
                                         static_cast<std::uint64_t>(rows), cols));
    if (p.batch == 1) return;
    set(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(p.batch));
    set(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  };
  layout(plan.b, p.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, strides.b);
  layout(plan.a, p.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, strides.a);
  layout(plan.c, p.out, p.m, p.n, p.add ? strides.c : strides.d);
  layout(plan.d, p.out, p.m, p.n, strides.d);
}

std::vector<LtProducts::Candidate> LtProducts::look_up(const Plan& plan, int most) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check("cuBLASLt", lt().create_preference(&preference));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspace));
  // Split sums are added in float, as with cuBLAS, and in order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto of : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, of, kLtAlignment);
  cublasLtMatmulHeuristicResult_t results[kCandidates] = {};
  int count = 0;
  const cublasStatus_t status =
      lt().look_up(handle_, plan.what, plan.b, plan.a, plan.c, plan.d, preference, most, results, &count);
  lt().destroy_preference(preference);
  std::vector<Candidate> found;
  if (has_none("cuBLASLt", status)) return found;
  for (int i = 0; i < count; ++i)
    if (!has_none("cuBLASLt", results[i].state)) found.push_back({results[i].algo, results[i].workspaceSize});
  return found;
}

bool LtProducts::take(Plan& plan, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = lt().check(handle_, plan.what, plan.b, plan.a, plan.c, plan.d, &algorithm, &result);
  if (has_none("cuBLASLt", status) || result.workspaceSize > static_cast<std::size_t>(kWorkspace)) return false;
  plan.algorithm = algorithm;
  plan.workspace = result.workspaceSize;
  return plan.found = true;
}

LtProducts::Plan& LtProducts::plan(LtProduct p) {
  p.tf32 = p.tf32 && p.in == DType::f32;
  const auto known = plans_.find(p);
  if (known != plans_.end()) return known->second;
  Plan& made = plans_[p];
  try {
    describe(p, Strides::of(p), made);
    const std::string words = words_of(p);
    const cublasLtMatmulAlgo_t* recorded = nullptr;
    for (const Algorithms* all : {&preferred_, &chosen_})
      if (const auto one = all->find(words); one != all->end()) recorded = &one->second;
    if (recorded) {
      if (!take(made, *recorded))
        throw InputError(
            concat("cuBLASLt: the recorded algorithm of the product ", words,
                   " cannot be used here; resume on the GPU that recorded it, or remove the trial's folder to restart "
                   "the trial"));
    } else if (const auto found = look_up(made, 1); !found.empty()) {
      made.algorithm = found[0].algorithm;
      made.workspace = found[0].workspace;
      made.found = true;
    }
  } catch (...) {
    plans_.erase(p);
    throw;
  }
  return made;
}

bool LtProducts::operator()(const char* op, LtProduct p, const LtOperands& with) {
  if (p.m == 0 || p.n == 0 || p.k == 0) return false;
  if (!with.aligned()) return false;
  Plan& the = plan(p);
  if (!the.found) return false;
  ++the.calls;
  if (!multiply(op, p, the, with, stream_, workspace_))
    throw EnvironmentError(concat(op, ": cuBLASLt refuses the algorithm that it has chosen for ", words_of(p)));
  return true;
}

bool LtProducts::multiply(const char* op, const LtProduct& p, const Plan& the, const LtOperands& with,
                          const Stream& stream, Buffer& workspace) const {
  if (has_vector(p.epilogue)) set(the.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, with.vector);
  if (with.extra) set(the.what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, with.extra);
  const double alpha64 = with.scale, beta64 = p.add ? with.kept : 0.0;
  const auto alpha32 = static_cast<float>(alpha64), beta32 = static_cast<float>(beta64);
  const bool wide = p.in == DType::f64;
  const void* alpha = wide ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* beta = wide ? static_cast<const void*>(&beta64) : &beta32;
  const cublasStatus_t status =
      lt().matmul(handle_, the.what, alpha, with.b, the.b, with.a, the.a, beta, p.add ? with.c : with.d, the.c, with.d,
                  the.d, &the.algorithm, workspace.get<char>(kWorkspace), the.workspace, stream.handle());
  if (has_none(op, status)) return false;
  stream.launched(op);
  return true;
}

std::string LtProducts::description() const {
  std::string words;
  for (const auto& [product, plan] : plans_)
    if (plan.found) words += concat(words.empty() ? "" : "; ", words_of(product), ": ", words_of(plan.algorithm));
  return words;
}

std::string LtProducts::choices() const {
  std::string lines;
  Algorithms unused = chosen_;
  const auto add = [&](const std::string& product, const cublasLtMatmulAlgo_t& algorithm) {
    lines += concat("\n", product, ": ", to_hex(algorithm));
  };
  for (const auto& [product, plan] : plans_) {
    if (plan.found) add(words_of(product), plan.algorithm);
    unused.erase(words_of(product));
  }
  for (const auto& [product, algorithm] : unused) add(product, algorithm);
  return lines.empty() ? "" : concat(library_line(), "\n", gpu_line(), lines);
}

void LtProducts::choose(const std::string& recorded) {
  Algorithms chosen;
  read_choices(
      recorded,
      [](int, const std::string& what) {
        throw InputError(concat("the algorithms of its products: ", what,
                                "; resume where they are, or with --allow-different-bits"));
      },
      [&](int, const std::string& product, const cublasLtMatmulAlgo_t& algorithm) { chosen[product] = algorithm; });
  chosen_ = std::move(chosen);
  forget_plans();
}

void LtProducts::prefer(const ProductAlgorithms& file) {
  const auto fail = [&](int line, const std::string& what) {
    throw InputError(concat(file.file, ":", line, ": ", what,
                            "; make the file again on this machine: normlab bench gemm --device cuda --tune FILE"));
  };
  Algorithms preferred;
  read_choices(file.text, fail, [&](int line, const std::string& product, const cublasLtMatmulAlgo_t& algorithm) {
    if (line == 2) fail(line, "does not name the GPU");
    const std::optional<LtProduct> p = product_of(product);
    if (!p) fail(line, concat("\"", product, "\" is no product"));
    Plan plan;
    describe(*p, Strides::of(*p), plan);
    if (!take(plan, algorithm)) fail(line, concat("cuBLASLt does not have this algorithm for ", product));
    if (!preferred.emplace(product, algorithm).second) fail(line, concat(product, " has an earlier line"));
  });
  if (preferred.empty()) fail(1, "has no algorithms");
  preferred_ = std::move(preferred);
  forget_plans();
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
