// Marks functions that device code may call too; empty for compilers other than nvcc.
#pragma once

#ifdef __CUDACC__
#define NORMLAB_HOST_DEVICE __host__ __device__
#else
#define NORMLAB_HOST_DEVICE
#endif
