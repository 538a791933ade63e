#include "experiments/lab/data/archive.h"

#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

Members contents(const std::filesystem::path& file) {
  Members members;
  read_tar(file, [&](ArchiveMember m) { members.push_back({m.name, {m.content.begin(), m.content.end()}}); });
  return members;
}

/// The header of a member of a ustar.
std::string tar_header(const std::string& name, unsigned bytes) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  char size[12];
  std::snprintf(size, sizeof size, "%011o", bytes);
  header.replace(124, 11, size);
  header.replace(148, 8, 8, ' ');
  header[156] = '0';
  header.replace(257, 5, "ustar");
  header.replace(263, 2, "00");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char check[8];
  std::snprintf(check, sizeof check, "%06o", sum);
  return header.replace(148, 7, check, 7);
}

/// A tar of two members, and its bytes.
struct TwoMembers : TempFolder {
  TwoMembers() {
    write_tar(*this / "x.tar", {{"1.txt", std::string(700, 'a')}, {"2.txt", std::string(600, 'b')}});
    whole = read_file(*this / "x.tar");
    REQUIRE(whole.size() == 512 * (3 + 3 + 2));
  }
  std::string whole;
};

}  // namespace

TEST_CASE("archive: members of plain and gzipped tars come in order") {
  TempFolder folder;
  const Members members{
      {"b.txt", "hello"}, {"a/" + std::string(180, 'x') + ".txt", std::string(5000, 'y')}, {"empty", ""}};
  for (const std::string name : {"x.tar", "x.tar.gz"}) {
    CAPTURE(name);
    write_tar(folder / name, members);
    CHECK(contents(folder / name) == members);
  }
}

TEST_CASE("archive: folders are skipped") {
  TempFolder folder;
  write_tar(folder / "x.tar", {{"a/", ""}, {"a/1", "one"}, {"b/", ""}});
  CHECK(contents(folder / "x.tar") == Members{{"a/1", "one"}});
}

TEST_CASE("archive: the error of a tar cut anywhere names the file and the member") {
  TwoMembers folder;
  for (std::size_t bytes = 1; bytes < folder.whole.size() - 512; bytes += 57) {
    CAPTURE(bytes);
    write_file(folder / "cut.tar", folder.whole.substr(0, bytes));
    const std::string said = input_error([&] { contents(folder / "cut.tar"); });
    CHECK_SAYS(said, "cut.tar");
    if (bytes > 512) CHECK_SAYS(said, bytes < 512 * 4 ? "\"1.txt\"" : ".txt\"");
  }
}

TEST_CASE("archive: a tar cut between two members lacks its end marker") {
  TwoMembers folder;
  write_file(folder / "cut.tar", folder.whole.substr(0, 512 * 3));  // libarchive sees nothing wrong
  CHECK_SAYS(input_error([&] { contents(folder / "cut.tar"); }),
             "byte 1536: the tar ends without its end marker, after member \"1.txt\"");
}

TEST_CASE("archive: a tar cut inside a member says how many of its bytes are there") {
  TwoMembers folder;
  write_file(folder / "cut.tar", folder.whole.substr(0, 512 * 4 + 100));
  CHECK_SAYS(input_error([&] { contents(folder / "cut.tar"); }), "byte 1536, member \"2.txt\": read 100 of 600 bytes");
}

TEST_CASE("archive: a gzipped tar cut anywhere is an error") {
  TempFolder folder;
  std::string noise;
  for (unsigned i = 0; i < 3000; ++i) noise += static_cast<char>(i * i * 2654435761u >> 13);
  write_tar(folder / "x.tar.gz", {{"1.txt", noise}, {"2.txt", noise}});
  const std::string whole = read_file(folder / "x.tar.gz");
  for (std::size_t bytes = 20; bytes + 60 < whole.size(); bytes += 97) {
    CAPTURE(bytes);
    write_file(folder / "cut.tar.gz", whole.substr(0, bytes));
    CHECK_FALSE(input_error([&] { contents(folder / "cut.tar.gz"); }).empty());
  }
}

TEST_CASE("archive: a gzipped tar with another checksum or length is refused") {
  TempFolder folder;
  write_tar(folder / "x.tar", {{"1.txt", "one"}});
  // libarchive reads no further than the end marker.
  for (const std::size_t padding : {std::size_t{0}, std::size_t{1} << 20}) {
    std::string whole = gzip(read_file(folder / "x.tar") + std::string(padding, '\0'));
    for (std::size_t byte = whole.size() - 8; byte < whole.size(); ++byte) {
      CAPTURE(byte);
      std::string damaged = whole;
      damaged[byte] ^= 4;
      write_file(folder / "x.tar.gz", damaged);
      CHECK_SAYS(input_error([&] { contents(folder / "x.tar.gz"); }),
                 byte + 4 < whole.size() ? ": incorrect data check; the file is damaged" : ": incorrect length check");
    }
  }
}

TEST_CASE("archive: a gzipped tar with a changed byte anywhere is an error") {
  TempFolder folder;
  std::string noise;
  for (unsigned i = 0; i < 3000; ++i) noise += static_cast<char>('a' + (i * i * 2654435761u >> 27));
  write_tar(folder / "x.tar.gz", {{"1.txt", noise}});
  const std::string whole = read_file(folder / "x.tar.gz");
  for (std::size_t byte = 10; byte < whole.size(); byte += 7) {
    CAPTURE(byte);
    std::string damaged = whole;
    damaged[byte] ^= 16;
    write_file(folder / "x.tar.gz", damaged);
    CHECK_FALSE(input_error([&] { contents(folder / "x.tar.gz"); }).empty());
  }
}

TEST_CASE("archive: a link is refused by its name") {
  TempFolder folder;
  write_tar(folder / "link.tar", {{"1.txt", "one"}, {"2.txt", "-> 1.txt"}});
  CHECK_SAYS(input_error([&] { contents(folder / "link.tar"); }), "member \"2.txt\": is a link");
}

TEST_CASE("archive: a file that is not a tar is refused") {
  TempFolder folder;
  write_file(folder / "text.tar", std::string(2000, 'x'));
  CHECK_SAYS(input_error([&] { contents(folder / "text.tar"); }), "text.tar");
  write_file(folder / "empty.tar", "");
  CHECK_SAYS(input_error([&] { contents(folder / "empty.tar"); }), "empty.tar");
}

TEST_CASE("archive: a missing file is refused") {
  TempFolder folder;
  CHECK_SAYS(input_error([&] { contents(folder / "absent.tar"); }), "absent.tar");
}

TEST_CASE("archive: the error of a damaged header names the member before it") {
  TempFolder folder;
  write_tar(folder / "x.tar", {{"1.txt", "one"}, {"2.txt", "two"}});
  std::string damaged = read_file(folder / "x.tar");
  damaged[1024 + 3] ^= 1;  // in the name of the second header, so its checksum is wrong
  write_file(folder / "x.tar", damaged);
  CHECK_SAYS(input_error([&] { contents(folder / "x.tar"); }), "after member \"1.txt\"");
}

TEST_CASE("archive: a gzipped tar that unpacks to far more than its size is refused") {
  TempFolder folder;
  const std::string zeros = gzip_of_zeros(200), end = gzip(std::string(1024, '\0'));
  const auto member = [&](const char* name) { return gzip(tar_header(name, 200u << 20)) + zeros; };
  const auto said = [&](const std::string& packed, bool wanted) {
    write_file(folder / "x.tar.gz", packed);
    return input_error_within(1200, [&] {
      read_tar(
          folder / "x.tar.gz", [](ArchiveMember) {}, [&](const std::string&) { return wanted; });
    });
  };
  for (const bool wanted : {true, false}) {
    CAPTURE(wanted);
    CHECK(said(member("1.json") + end, wanted) == "");
    CHECK_SAYS(said(member("1.json") + member("2.json") + end, wanted),
               "byte 209715712, member \"2.json\": has 209715200 bytes by its header, so the members exceed 256 MiB "
               "and 100 times the size of the file. If this is intended, unpack it with gunzip");
  }
}
