#include "core/cpu/bf16_products.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/cpu/kernel.h"
#include "core/cpu/onednn.h"
#include "core/error.h"

namespace normlab {
namespace {

/// oneDNN's primitive for one product. Immutable, so that all threads may execute it, and never destroyed.
struct Primitive {
  Bf16Product product;
  std::size_t number;
  OneDnnLayout a, b, bias, c, scratchpad;
  OneDnnPrimitiveDesc chosen;  // owns the layout of the scratchpad
  std::size_t scratch_bytes = 0;
  dnnl_primitive_t matmul = nullptr;
  Primitive* next = nullptr;
};

/// op(X) [batch, rows, cols] of a matrix, stored transposed or not.
OneDnnLayout describe(std::int64_t batch, std::int64_t rows, std::int64_t cols, bool transposed, DType dtype) {
  const auto type = dtype == DType::bf16 ? dnnl_bf16 : dnnl_f32;
  const std::int64_t by_row = transposed ? 1 : cols, by_col = transposed ? rows : 1;
  if (batch == 1) {
    const dnnl_dims_t extents = {rows, cols}, strides = {by_row, by_col};
    return make_layout(2, extents, type, strides);
  }
  const dnnl_dims_t extents = {batch, rows, cols}, strides = {rows * cols, by_row, by_col};
  return make_layout(3, extents, type, strides);
}

OneDnnAttributes make_attributes(bool add) {
  constexpr const char* kWhat = "a product cannot be set up";
  dnnl_primitive_attr_t made = nullptr;
  require(onednn().primitive_attr_create(&made), kWhat);
  OneDnnAttributes attributes(made);
  require(onednn().primitive_attr_set_scratchpad_mode(made, dnnl_scratchpad_mode_user), kWhat);
  if (!add) return attributes;
  dnnl_post_ops_t list = nullptr;
  require(onednn().post_ops_create(&list), kWhat);
  const OneDnnPostOps after(list);
#if DNNL_VERSION_MAJOR >= 3
  require(onednn().post_ops_append_sum(list, 1.0f, 0, dnnl_data_type_undef), kWhat);
#else
  require(onednn().post_ops_append_sum(list, 1.0f), kWhat);
#endif
  require(onednn().primitive_attr_set_post_ops(made, list), kWhat);
  return attributes;
}

std::unique_ptr<Primitive> make(const Bf16Product& product, std::size_t number) {
  auto p = std::make_unique<Primitive>();
  p->product = product;
  p->number = number;
  p->a = describe(product.batch, product.m, product.k, product.transpose_a, DType::bf16);
  p->b = describe(product.batch, product.k, product.n, product.transpose_b, DType::bf16);
  p->c = describe(product.batch, product.m, product.n, false, product.to);
  if (product.bias) p->bias = describe(1, 1, product.n, false, DType::f32);
  p->chosen = choose_product(p->a, p->b, p->bias, p->c, make_attributes(product.add).get());
  if (!p->chosen || onednn().primitive_create(&p->matmul, p->chosen.get()) != dnnl_success)
    throw EnvironmentError(concat("oneDNN ", onednn_info(), " has no bf16 product of [", product.m, ", ", product.k,
                                  "] and [", product.k, ", ", product.n,
                                  "] on this CPU; use \"bf16_emulated\", which does not need one"));
  p->scratchpad.desc = onednn().primitive_desc_query_md(p->chosen.get(), dnnl_query_scratchpad_md, 0);
  if (p->scratchpad.desc) p->scratch_bytes = onednn().memory_desc_get_size(p->scratchpad.desc);
  return p;
}

/// All primitives of the process by product. Read without a lock; never emptied.
class Primitives {
 public:
  const Primitive& find(const Bf16Product& product) {
    std::atomic<Primitive*>& bucket = buckets_[hash(product) % buckets_.size()];
    for (Primitive* p = bucket.load(std::memory_order_acquire); p; p = p->next)
      if (p->product == product) return *p;
    const std::lock_guard lock(mutex_);
    for (Primitive* p = bucket.load(std::memory_order_relaxed); p; p = p->next)
      if (p->product == product) return *p;  // another thread was faster
    std::unique_ptr<Primitive> made = make(product, made_.load(std::memory_order_relaxed));
    made->next = bucket.load(std::memory_order_relaxed);
    bucket.store(made.get(), std::memory_order_release);
    ++made_;
    return *made.release();
  }
  std::size_t made() const { return made_; }
  template <class F>
  void each(F&& f) const {
    for (const std::atomic<Primitive*>& bucket : buckets_)
      for (const Primitive* p = bucket.load(std::memory_order_acquire); p; p = p->next) f(*p);
  }

 private:
  static std::size_t hash(const Bf16Product& p) {
    std::uint64_t h = 0;
    for (const std::int64_t value : {p.m, p.n, p.k, p.batch, std::int64_t(p.transpose_a), std::int64_t(p.transpose_b),
                                     std::int64_t(p.to), std::int64_t(p.add)})
      h = (h ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(h >> 32);
  }
  std::array<std::atomic<Primitive*>, 1024> buckets_{};
  std::atomic<std::size_t> made_{0};
  std::mutex mutex_;
};
Primitives& primitives() {
  static auto& instance = *new Primitives;
  return instance;
}

/// oneDNN must not start a team of threads for one product: products already run in parallel, and the number of threads
/// would affect sums. The number counts when a primitive is made, and again when it runs.
void one_thread() {
  if (onednn().omp_set_num_threads) onednn().omp_set_num_threads(1);
}

/// oneDNN's views of the operands of one primitive. Each thread has its own and points them at the data of each call.
struct Operands {
  std::array<OneDnnMemory, 5> memory;
  std::array<dnnl_exec_arg_t, 5> list{};
  int count = 0;
  OneDnnMemory::pointer a, b, bias = nullptr, c, scratchpad = nullptr;
  explicit Operands(const Primitive& p) : a(add(DNNL_ARG_SRC, p.a)), b(add(DNNL_ARG_WEIGHTS, p.b)) {
    c = add(DNNL_ARG_DST, p.c);
    if (p.product.bias) bias = add(DNNL_ARG_BIAS, p.bias);
    if (p.scratch_bytes > 0) scratchpad = add(DNNL_ARG_SCRATCHPAD, p.scratchpad);
  }

 private:
  OneDnnMemory::pointer add(int role, OneDnnLayout layout) {
    dnnl_memory_t made = nullptr;
    require(onednn().memory_create(&made, layout.desc, onednn().engine, nullptr),
            "the memory of an operand cannot be set up");
    const auto at = static_cast<std::size_t>(count++);
    memory[at].reset(made);
    list[at] = {role, made};
    return made;
  }
};

OneDnnStream make_stream() {
  dnnl_stream_t made = nullptr;
  require(onednn().stream_create(&made, onednn().engine, dnnl_stream_default_flags), "a thread cannot open a stream");
  return OneDnnStream(made);
}

struct Thread {
  OneDnnStream stream = make_stream();
  std::vector<std::unique_ptr<Operands>> operands;  // indexed by the number of the primitive
  Thread() { one_thread(); }
  Operands& operands_of(const Primitive& p) {
    if (operands.size() <= p.number) operands.resize(p.number + 1);
    std::unique_ptr<Operands>& o = operands[p.number];
    if (!o) o = std::make_unique<Operands>(p);
    return *o;
  }
};
Thread& this_thread() {
  thread_local Thread thread;
  return thread;
}

void point(dnnl_memory_t memory, const void* data) {
  require(onednn().memory_set_data_handle(memory, const_cast<void*>(data)), "the memory of a product is refused");
}

void native_product(const Bf16Product& product, const bf16* a, const bf16* b, const float* bias, void* c) {
  Thread& thread = this_thread();
  const Primitive& p = primitives().find(product);
  const Operands& o = thread.operands_of(p);
  point(o.a, a);
  point(o.b, b);
  point(o.c, c);
  if (product.bias) point(o.bias, bias);
  const cpu::Scratch<std::byte> pad(static_cast<std::int64_t>(p.scratch_bytes));
  if (p.scratch_bytes > 0) point(o.scratchpad, pad);
  require(onednn().primitive_execute(p.matmul, thread.stream.get(), o.count, o.list.data()), "a product cannot be run");
}

const float* widen(const bf16* from, std::int64_t n, float* to) {
  std::copy_n(from, n, to);
  return to;
}

void emulated_product(const Bf16Product& p, const bf16* a, const bf16* b, const float* bias, void* c) {
  const cpu::Scratch<float> wide_a(p.m * p.k), wide_b(p.k * p.n), sums(p.m * p.n);
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const float *left = widen(a + i * p.m * p.k, p.m * p.k, wide_a),
                *right = widen(b + i * p.k * p.n, p.k * p.n, wide_b);
    gemm(p.transpose_a, p.transpose_b, p.m, p.n, p.k, 1.0f, left, p.transpose_a ? p.m : p.k, right,
         p.transpose_b ? p.k : p.n, 0.0f, sums, p.n);
    for (std::int64_t r = 0; r < p.m; ++r) {
      const std::int64_t at = (i * p.m + r) * p.n;
      auto* rounded = static_cast<bf16*>(c) + at;
      auto* wide = static_cast<float*>(c) + at;
      for (std::int64_t j = 0; j < p.n; ++j) {
        const float value = sums[r * p.n + j] + (p.bias ? bias[j] : 0.0f);
        if (p.to == DType::bf16)
          rounded[j] = bf16(p.add ? float(rounded[j]) + value : value);
        else
          wide[j] = p.add ? wide[j] + value : value;
      }
    }
  }
}

}  // namespace

void bf16_product(Bf16Products kind, const Bf16Product& product, const bf16* a, const bf16* b, const float* bias,
                  void* c) {
  if (kind == Bf16Products::native)
    native_product(product, a, b, bias, c);
  else
    emulated_product(product, a, b, bias, c);
}

void bf16_prepare(const Bf16Product& product) {
  one_thread();
  primitives().find(product);
}

void bf16_prepare_thread() {
  primitives().each([](const Primitive& p) { this_thread().operands_of(p); });
}

std::int64_t bf16_primitives_made() { return static_cast<std::int64_t>(primitives().made()); }

void require_native_bf16(bool (*has)(const char*)) {
  if (!has("avx512bf16") && !has("amx-bf16"))
    throw EnvironmentError(
        "\"precision\": \"bf16\" needs an x86-64 CPU with AVX512-BF16 or AMX-BF16, and this one has neither; use "
        "\"bf16_emulated\", which rounds at the same places on any CPU, but is slower than \"fp32\"");
  const unsigned runtime = onednn().version()->cpu_runtime;
  if (runtime != DNNL_RUNTIME_OMP && runtime != DNNL_RUNTIME_SEQ)
    throw EnvironmentError(
        "oneDNN: this build starts its own threads (it has neither the OpenMP nor the sequential runtime); install "
        "Debian's (apt-get install libdnnl-dev) and build again");
}

std::string onednn_info() {
  const dnnl_version_t* v = onednn().version();
  const auto set = onednn().get_effective_cpu_isa();
  const char* name = set == dnnl_cpu_isa_avx512_core_bf16  ? "avx512_core_bf16"
                     : set == dnnl_cpu_isa_avx512_core_amx ? "avx512_core_amx"
                                                           : "other";
  return concat(v->major, ".", v->minor, ".", v->patch, ", ", name);
}

}  // namespace normlab
