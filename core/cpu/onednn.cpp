#include "core/cpu/onednn.h"

#include "core/error.h"
#include "core/library.h"

namespace normlab {
namespace {

OneDnn open() {
  const Library library("oneDNN", concat("libdnnl.so.", DNNL_VERSION_MAJOR), "install it: apt-get install libdnnl-dev");
  OneDnn functions;
#define NORMLAB_FIND(name) library.find("dnnl_" #name, functions.name);
  NORMLAB_ONEDNN_FUNCTIONS(NORMLAB_FIND)
  NORMLAB_ONEDNN_FUNCTIONS_OF_VERSION(NORMLAB_FIND)
#undef NORMLAB_FIND
  library.find_if_there("omp_set_num_threads", functions.omp_set_num_threads);
  require(functions.engine_create(&functions.engine, dnnl_cpu, 0), "the CPU cannot be used");
  return functions;
}

}  // namespace

const OneDnn& onednn() {
  static const OneDnn instance = open();
  return instance;
}

void require(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) throw EnvironmentError(concat("oneDNN: ", what, " (status ", int(status), ")"));
}

OneDnnLayout make_layout(int axes, const dnnl_dims_t extents, dnnl_data_type_t type, const dnnl_dims_t strides) {
  constexpr const char* kWhat = "a matrix cannot be set up";
#if DNNL_VERSION_MAJOR >= 3
  dnnl_memory_desc_t layout = nullptr;
  require(onednn().memory_desc_create_with_strides(&layout, axes, extents, type, strides), kWhat);
  return {layout};
#else
  auto layout = std::make_unique<dnnl_memory_desc_t>();
  require(onednn().memory_desc_init_by_strides(layout.get(), axes, extents, type, strides), kWhat);
  return {layout.release()};
#endif
}

OneDnnPrimitiveDesc choose_product(OneDnnLayout a, OneDnnLayout b, OneDnnLayout bias, OneDnnLayout c,
                                   const_dnnl_primitive_attr_t attributes) {
  dnnl_primitive_desc_t chosen = nullptr;
#if DNNL_VERSION_MAJOR >= 3
  onednn().matmul_primitive_desc_create(&chosen, onednn().engine, a.desc, b.desc, bias.desc, c.desc, attributes);
#else
  dnnl_matmul_desc_t product;
  if (onednn().matmul_desc_init(&product, a.desc, b.desc, bias.desc, c.desc) == dnnl_success)
    onednn().primitive_desc_create(&chosen, &product, attributes, onednn().engine, nullptr);
#endif
  return OneDnnPrimitiveDesc(chosen);
}

}  // namespace normlab
