// Whether this program is built with a sanitizer, as g++ or clang says it.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define NORMLAB_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define NORMLAB_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NORMLAB_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define NORMLAB_THREAD_SANITIZER 1
#endif
#endif
