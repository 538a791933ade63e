// The tests of readers by themselves, for their line coverage: no devices, no network.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
