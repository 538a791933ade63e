// Marks functions that device code may call too, and those that only kernels call; empty for compilers other than nvcc.
#pragma once

#ifdef __CUDACC__
#define NORMLAB_HOST_DEVICE __host__ __device__
#define NORMLAB_DEVICE __device__
#else
#define NORMLAB_HOST_DEVICE
#define NORMLAB_DEVICE
#endif
