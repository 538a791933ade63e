// link(2) is defined once in the test program, in files_test.cpp; other tests can have a say.
#pragma once

namespace normlab {

/// Where it is set and says true, a link is not made; it sets errno.
inline bool (*refuse_link)() = nullptr;

}  // namespace normlab
