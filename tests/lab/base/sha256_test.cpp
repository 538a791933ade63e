#include "experiments/lab/base/sha256.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("sha256: hashes are those of FIPS 180-4") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("sha256: after every piece the hash is that of the text so far") {
  Sha256 hash;
  hash.update("a");
  CHECK(hash.hex() == sha256_hex("a"));
  const std::byte rest[] = {std::byte{'b'}, std::byte{'c'}};
  hash.update(rest);
  CHECK(hash.hex() == sha256_hex("abc"));
}
