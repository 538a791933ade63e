group_norm.o: cuda/group_norm.cu cuda/column_sums.cuh cuda/kernel.cuh \
 tests/cuda_emulation/include/cuda_runtime.h tests/cuda_emulation/heap.h \
 tests/cuda_emulation/runtime.h tests/cuda_emulation/scheduler.h \
 core/for_type.h core/dtype.h core/host_device.h core/error.h \
 core/kernels.h core/collective.h core/function_ref.h core/tensor.h \
 core/shape.h core/random.h core/philox.h core/resample.h \
 core/step_state.h cuda/launch.h cuda/device.h cuda/memory.h \
 core/memory.h cuda/cuda_backend.h core/backend.h core/device.h \
 core/updates.h cuda/lt_products.h \
 tests/cuda_emulation/include/cublasLt.h \
 tests/cuda_emulation/include/cublas_v2.h cuda/products.h cuda/transfer.h
cuda/column_sums.cuh:
cuda/kernel.cuh:
tests/cuda_emulation/include/cuda_runtime.h:
tests/cuda_emulation/heap.h:
tests/cuda_emulation/runtime.h:
tests/cuda_emulation/scheduler.h:
core/for_type.h:
core/dtype.h:
core/host_device.h:
core/error.h:
core/kernels.h:
core/collective.h:
core/function_ref.h:
core/tensor.h:
core/shape.h:
core/random.h:
core/philox.h:
core/resample.h:
core/step_state.h:
cuda/launch.h:
cuda/device.h:
cuda/memory.h:
core/memory.h:
cuda/cuda_backend.h:
core/backend.h:
core/device.h:
core/updates.h:
cuda/lt_products.h:
tests/cuda_emulation/include/cublasLt.h:
tests/cuda_emulation/include/cublas_v2.h:
cuda/products.h:
cuda/transfer.h:
