// The only access to oneDNN. It is opened at the first bf16 product: linking its 40 MB and its OpenCL loader would cost
// every command time and address space. Compiles against 2.6 and 3.x, and opens the version compiled against.
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <memory>
#include <type_traits>

namespace normlab {

/// Functions of the library, without the prefix "dnnl_".
// clang-format off
#define NORMLAB_ONEDNN_FUNCTIONS(F) \
  F(version) F(get_effective_cpu_isa) F(engine_create) F(stream_create) F(stream_destroy) F(memory_desc_get_size) \
  F(memory_create) F(memory_destroy) F(memory_set_data_handle) F(primitive_attr_create) F(primitive_attr_destroy) \
  F(primitive_attr_set_scratchpad_mode) F(primitive_attr_set_post_ops) F(post_ops_create) F(post_ops_destroy) \
  F(post_ops_append_sum) F(primitive_desc_destroy) F(primitive_desc_query_md) F(primitive_create) \
  F(primitive_execute) F(sgemm)
// clang-format on
#if DNNL_VERSION_MAJOR >= 3
#define NORMLAB_ONEDNN_FUNCTIONS_OF_VERSION(F) F(memory_desc_create_with_strides) F(matmul_primitive_desc_create)
#else
#define NORMLAB_ONEDNN_FUNCTIONS_OF_VERSION(F) \
  F(memory_desc_init_by_strides) F(matmul_desc_init) F(primitive_desc_create)
#endif

struct OneDnn {
#define NORMLAB_MEMBER(name) decltype(&dnnl_##name) name = nullptr;
  NORMLAB_ONEDNN_FUNCTIONS(NORMLAB_MEMBER)
  NORMLAB_ONEDNN_FUNCTIONS_OF_VERSION(NORMLAB_MEMBER)
#undef NORMLAB_MEMBER
  void (*omp_set_num_threads)(int) = nullptr;  // of the OpenMP runtime it was built with; null without one
  dnnl_engine_t engine = nullptr;              // the CPU
};

/// Opens the library on the first call. Throws EnvironmentError if it is missing or of another version than the one
/// compiled against.
const OneDnn& onednn();

/// Throws EnvironmentError with `what` unless the library call succeeded.
void require(dnnl_status_t status, const char* what);

/// Deletes an object of the library.
template <auto Destroy>
struct OneDnnDeleter {
  template <class T>
  void operator()(T* object) const {
    (onednn().*Destroy)(object);
  }
};
template <class T, auto Destroy>
using OneDnnOwned = std::unique_ptr<std::remove_pointer_t<T>, OneDnnDeleter<Destroy>>;
using OneDnnStream = OneDnnOwned<dnnl_stream_t, &OneDnn::stream_destroy>;
using OneDnnMemory = OneDnnOwned<dnnl_memory_t, &OneDnn::memory_destroy>;
using OneDnnAttributes = OneDnnOwned<dnnl_primitive_attr_t, &OneDnn::primitive_attr_destroy>;
using OneDnnPostOps = OneDnnOwned<dnnl_post_ops_t, &OneDnn::post_ops_destroy>;
using OneDnnPrimitiveDesc = OneDnnOwned<dnnl_primitive_desc_t, &OneDnn::primitive_desc_destroy>;

/// A memory layout. It is a value in 2.x and an object of the library in 3.x; those of products live as long as
/// the library.
struct OneDnnLayout {
#if DNNL_VERSION_MAJOR >= 3
  const_dnnl_memory_desc_t desc = nullptr;
#else
  const dnnl_memory_desc_t* desc = nullptr;
#endif
};
OneDnnLayout make_layout(int axes, const dnnl_dims_t extents, dnnl_data_type_t type, const dnnl_dims_t strides);
/// C = A B (+ bias, if it has a layout); null if the library has no such product on this CPU.
OneDnnPrimitiveDesc choose_product(OneDnnLayout a, OneDnnLayout b, OneDnnLayout bias, OneDnnLayout c,
                                   const_dnnl_primitive_attr_t attributes);

}  // namespace normlab
