// Marks what device code may call as well; nothing to every other compiler.
#pragma once

#ifdef __CUDACC__
#define NORMLAB_HOST_DEVICE __host__ __device__
#else
#define NORMLAB_HOST_DEVICE
#endif
