#include <algorithm>
#include <iomanip>
#include <sstream>

#include "experiments/lab/data/readers.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

std::string jpeg(unsigned seed) { return make_jpeg(8, 12, seed); }

/// Three classes, two shards; the second is gzipped and its members are not in order of their keys.
struct Folder : TempFolder {
  Folder() {
    write_file(*this / "classes.txt", "ant\nbee\ncat\n");
    write_tar(*this / "train-000000.tar", {{"1.jpg", jpeg(1)}, {"1.cls", "0"}, {"2.cls", "1\n"}, {"2.jpeg", jpeg(2)}});
    write_tar(*this / "train-000001.tar.gz", {{"sub/", ""},
                                              {"sub/9.JPG", jpeg(3)},
                                              {"sub/9.json", "{}"},
                                              {"sub/9.cls", "2"},
                                              {"__meta__/info.bin", "?"},
                                              {"1.jpg", jpeg(4)},
                                              {"1.cls", "2"}});
  }
  ImageSet read(const std::string& slice, int threads = 1) const {
    return read_webdataset(path(), "", request_for(slice, threads));
  }
  /// The error of reading a dataset whose only shard "x-000000.tar" has these members.
  std::string said(const Members& members) const {
    write_tar(*this / "x-000000.tar", members);
    return input_error([&] { read("x"); });
  }
};

/// The images of two JPEGs and a PNG of several sizes, in a tar "x" and a gzipped tar "y".
struct SeveralSizes : Folder {
  SeveralSizes() {
    const Members members{{"1.jpg", files[0]}, {"1.cls", "0"},      {"2.jpg", files[1]},
                          {"2.cls", "1"},      {"3.PNG", files[2]}, {"3.cls", "2"}};
    write_tar(*this / "x-000000.tar", members);
    write_tar(*this / "y-000000.tar.gz", members);
  }
  std::vector<std::string> files{jpeg(1), make_jpeg(8, 8, 2), make_png(5, 7, 3)};
};

struct NamedShards : Folder {
  NamedShards() {
    for (const char* name : {"a-08.tar", "a-09.tar", "a-10.tar", "more/b.tar"}) {
      std::filesystem::create_directories((*this / name).parent_path());
      write_tar(*this / name, {{"1.jpg", jpeg(1)}, {"1.cls", "0"}});
    }
  }
  std::vector<std::string> keys(const std::string& names) const {
    return read_webdataset(path(), names, request_for("train")).keys;
  }
};

/// The blocks of a member as Python's tarfile writes them.
std::string tar_member(const std::string& name, char type, const std::string& content) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  const auto octal = [](std::size_t value, int digits) {
    std::ostringstream out;
    out << std::oct << std::setw(digits) << std::setfill('0') << value;
    return out.str();
  };
  put(0, name);
  put(100, octal(0644, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(content.size(), 11));
  put(136, octal(0, 11));
  put(156, std::string(1, type));
  put(257, std::string("ustar\0", 6) + "00");
  put(148, "        ");
  std::size_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

/// Its default format, PAX: a name outside ASCII is in a record before the member, whose own name has a "?" instead.
std::string python_member(const std::string& name, const std::string& content, const std::string& owner = "") {
  const auto record = [](const std::string& text) {
    std::size_t size = text.size() + 1;  // the length counts its own digits
    while (std::to_string(size).size() + 1 + text.size() != size) ++size;
    return std::to_string(size) + " " + text;
  };
  std::string records = record("path=" + name + "\n"), plain = name;
  if (!owner.empty()) records += record("uname=" + owner + "\n");
  for (char& c : plain)
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  return tar_member("././@PaxHeader", 'x', records) + tar_member(plain, '0', content);
}
const std::string kTarEnd(1024, '\0');

}  // namespace

TEST_CASE("webdataset: samples are sorted by shard and key") {
  const ImageSet images = Folder().read("train");
  CHECK(images.keys ==
        std::vector<std::string>{"train-000000/1", "train-000000/2", "train-000001/1", "train-000001/sub/9"});
  CHECK(images.labels == std::vector<std::int32_t>{0, 1, 2, 2});
  for (const auto& [index, seed] : {std::pair{0, 1}, {1, 2}, {2, 4}, {3, 3}}) {  // red of the first pixel
    CHECK(std::abs(images.image(index)[0] - 37 * seed) <= 4);
  }
}

TEST_CASE("webdataset: images have their size in the files") {
  const ImageSet images = Folder().read("train");
  CHECK(images.height == 8);
  CHECK(images.width == 12);
}

TEST_CASE("webdataset: class names come from classes.txt") {
  CHECK(Folder().read("train").class_names == std::vector<std::string>{"ant", "bee", "cat"});
}

TEST_CASE("webdataset: any number of threads reads the same bytes") {
  Folder folder;
  Members members;
  for (unsigned i = 0; i < 300; ++i) {
    members.push_back({concat(1000 + i, ".jpg"), jpeg(i)});
    members.push_back({concat(1000 + i, ".cls"), std::to_string(i % 3)});
  }
  write_tar(folder / "many-000000.tar", members);
  write_tar(folder / "many-000001.tar", members);
  for (const char* slice : {"many", "many[:90%]"}) {
    ImageSet one = folder.read(slice, 1), four = folder.read(slice, 4);
    finish_image_set(one);
    finish_image_set(four);
    CHECK(one.pixels == four.pixels);
    CHECK(one.keys == four.keys);
    CHECK(one.labels == four.labels);
    CHECK(one.hash == four.hash);
  }
}

TEST_CASE("webdataset: a slice has the images of the whole split") {
  Folder folder;
  const ImageSet whole = folder.read("train"), part = folder.read("train[1:3]");
  REQUIRE(part.size() == 2);
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto at = std::find(whole.keys.begin(), whole.keys.end(), part.key(i)) - whole.keys.begin();
    CHECK(std::equal(part.image(i), part.image(i) + part.image_bytes(), whole.image(at)));
  }
}

TEST_CASE("webdataset: a split without shards is refused") {
  Folder folder;
  CHECK_SAYS(input_error([&] { folder.read("test"); }), "holds no shard of split \"test\": expected test-000000.tar");
}

TEST_CASE("webdataset: a missing shard is named") {
  Folder folder;
  std::filesystem::rename(folder / "train-000000.tar", folder / "train-000002.tar");
  CHECK_SAYS(input_error([&] { folder.read("train"); }),
             "train-000000.tar: this shard is missing; the next one is train-000001.tar.gz");
  std::filesystem::copy(folder / "train-000002.tar", folder / "train-000000.tar");
  std::filesystem::rename(folder / "train-000002.tar", folder / "train-000003.tar");
  CHECK_SAYS(input_error([&] { folder.read("train"); }), "train-000002.tar: this shard is missing");
}

TEST_CASE("webdataset: two shards of one number are refused") {
  Folder folder;
  std::filesystem::copy(folder / "train-000000.tar", folder / "train-000001.tar");
  CHECK_SAYS(input_error([&] { folder.read("train"); }), "exists twice");
}

TEST_CASE("webdataset: a missing classes.txt is named") {
  Folder folder;
  std::filesystem::remove(folder / "classes.txt");
  CHECK_SAYS(input_error([&] { folder.read("train"); }), "classes.txt: cannot be read");
}

TEST_CASE("webdataset: members that are not part of a sample are refused") {
  Folder folder;
  const std::string j = jpeg(1);
  CHECK_SAYS(folder.said({{"1.jpg", j}, {"1.cls", "0"}, {"2.jpg", j}, {"2.cls", "0"}, {"1.txt", "x"}}),
             "member \"1.txt\": key \"1\" occurs again");
  CHECK_SAYS(folder.said({{"1.jpg", j}, {"1.cls", "0"}, {"1.cls", "0"}}), "sample \"1\" already has a .cls");
  CHECK_SAYS(folder.said({{"1.jpg", j}, {"1.JPG", j}, {"1.cls", "0"}}), "sample \"1\" already has a .jpg");
  CHECK_SAYS(folder.said({{"1.jpg", j}, {"1.jpeg", j}, {"1.cls", "0"}}), "sample \"1\" already has an image");
  CHECK_SAYS(folder.said({{"1.jpg", j}, {"2.jpg", j}, {"2.cls", "0"}}), "sample \"1\" has no .cls");
  CHECK_SAYS(folder.said({{"1.jpg", j}, {"1.cls", "0"}, {"2.cls", "0"}}), "sample \"2\" has no .jpg");
  CHECK_SAYS(folder.said({{"1.jpg", j}, {"1.png", j}, {"1.cls", "0"}}), "sample \"1\" already has an image");
  CHECK_SAYS(folder.said({{"1.jpg", j}, {"1.seg.jpg", j}, {"1.cls", "0"}}), "unknown extension .seg.jpg");
  CHECK_SAYS(folder.said({{"README", "x"}}), "member \"README\": the name is not key.extension");
  CHECK_SAYS(folder.said({{"a/.jpg", j}}), "is not key.extension");
  CHECK_SAYS(folder.said({{"1.jpg", j}, {"1.cls", "-> 2.cls"}}), "member \"1.cls\": is a link");
  CHECK_SAYS(folder.said({{"a/", ""}}), "holds no sample");
}

TEST_CASE("webdataset: a label must be below the number of classes") {
  Folder folder;
  CHECK_SAYS(folder.said({{"1.jpg", jpeg(1)}, {"1.cls", "3"}}), "byte 1536, member \"1.cls\": label 3 is not below 3");
}

TEST_CASE("webdataset: a label must be a decimal number") {
  Folder folder;
  for (const char* bad : {"", "-1", "1.0", "ant", "0x1", "1 2", "99999999999999999999"}) {
    CAPTURE(bad);
    CHECK_SAYS(folder.said({{"1.jpg", jpeg(1)}, {"1.cls", bad}}),
               concat("a label must be a decimal number, got \"", bad));
  }
}

TEST_CASE("webdataset: the first bad image is named with its shard") {
  Folder folder;
  Members members;
  for (unsigned i = 0; i < 400; ++i) {
    const std::string good = jpeg(i);
    members.push_back({concat(1000 + i, ".jpg"), i == 200 || i > 300 ? good.substr(0, good.size() - 60) : good});
    members.push_back({concat(1000 + i, ".cls"), "0"});
  }
  write_tar(folder / "bad-000000.tar", members);
  for (const int threads : {1, 4}) {
    CHECK_SAYS(input_error([&] { folder.read("bad", threads); }),
               "bad-000000.tar: member \"1200.jpg\": the JPEG is damaged");
  }
}

TEST_CASE("webdataset: images of several sizes stay in their shard") {
  const SeveralSizes folder;
  for (const char* split : {"x", "y"}) {
    const ImageSet images = folder.read(split);
    REQUIRE(images.encoded);
    CHECK(images.pixels.empty());
    CHECK(images.height == 0);
    CHECK(images.shards == std::vector<std::vector<std::int64_t>>{{0, 1, 2}});
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < 3; ++i) {
      images.encoded->read(i, bytes);
      CHECK(std::string(bytes.begin(), bytes.end()) == folder.files[static_cast<std::size_t>(i)]);
    }
  }
}

TEST_CASE("webdataset: an image in a shard is named by shard and member") {
  const SeveralSizes folder;
  for (const char* split : {"x", "y"}) {
    const ImageSet images = folder.read(split);
    REQUIRE(images.encoded);
    CHECK_SAYS(images.encoded->where(1), concat(split, "-000000.tar"));
    CHECK_SAYS(images.encoded->where(1), "member \"2.jpg\"");
  }
}

TEST_CASE("webdataset: the provenance says that images differ in size") {
  const SeveralSizes folder;
  for (const char* split : {"x", "y"}) {
    const ImageSet images = folder.read(split);
    CHECK_SAYS(images.provenance, "images differ in size: ");
  }
}

TEST_CASE("webdataset: the same images in another shard have another hash") {
  const SeveralSizes folder;
  CHECK(folder.read("x").hash.size() == 64);
  CHECK(folder.read("x").hash != folder.read("y").hash);  // the keys name the shard
}

TEST_CASE("webdataset: a shard of undecoded images that is cut short is refused") {
  const SeveralSizes folder;
  std::filesystem::resize_file(folder / "x-000000.tar", 600);
  CHECK_SAYS(input_error([&] { folder.read("x"); }), "is the file truncated?");
}

TEST_CASE("webdataset: a shard cut within an undecoded image is named") {
  Folder folder;
  write_tar(folder / "x-000000.tar", {{"1.cls", "0"}, {"1.jpg", std::string(5000, 'x')}});
  std::filesystem::resize_file(folder / "x-000000.tar", 4096);
  CHECK_SAYS(input_error([&] { folder.read("x"); }), "member \"1.jpg\": has 5000 bytes by its header, but ");
}

TEST_CASE("webdataset: shards are read by their names in any form") {
  const NamedShards folder;
  CHECK(folder.keys("a-{08..10}.tar") == std::vector<std::string>{"a-08/1", "a-09/1", "a-10/1"});
  CHECK(folder.keys("more/b.tar,a-09.tar") == std::vector<std::string>{"a-09/1", "more/b/1"});
}

TEST_CASE("webdataset: a missing shard of a range is named") {
  const NamedShards folder;
  CHECK_SAYS(input_error([&] { folder.keys("a-{08..11}.tar"); }), "a-11.tar: this shard is missing");
}

TEST_CASE("webdataset: a shard that is not a tar is refused") {
  const NamedShards folder;
  CHECK_SAYS(input_error([&] { folder.keys("a-08.zip"); }), "does not end in .tar");
}

TEST_CASE("webdataset: names outside ASCII are those of the tar, in Python's format and in GNU's") {
  const Folder folder;
  const std::string names[] = {"\xc3\xa9/s0", "e\xcc\x81/s1", "\xe6\x97\xa5\xe6\x9c\xac/s2"};
  std::string pax, gnu;
  for (unsigned i = 0; i < 3; ++i) {
    pax += python_member(names[i] + ".jpg", jpeg(i), "Jos\xc3\xa9") + python_member(names[i] + ".cls", "2");
    gnu += tar_member(names[i] + ".jpg", '0', jpeg(i)) + tar_member(names[i] + ".cls", '0', "2");
  }
  write_file(folder / "x-000000.tar", pax + kTarEnd);
  write_file(folder / "y-000000.tar", gnu + kTarEnd);
  const ImageSet of_pax = folder.read("x"), of_gnu = folder.read("y");
  REQUIRE(of_pax.size() == 3);
  CHECK(of_pax.keys[1] == "x-000000/" + names[0]);
  for (std::size_t i = 0; i < 3; ++i) CHECK(of_pax.keys[i].substr(1) == of_gnu.keys[i].substr(1));
  CHECK(of_pax.pixels == of_gnu.pixels);
}

TEST_CASE("webdataset: what macOS adds to a tar is passed over, as in folders") {
  const Folder folder;
  const Members clean{{"s0.jpg", jpeg(1)}, {"s0.cls", "1"}, {"a/s1.jpg", jpeg(2)}, {"a/s1.cls", "2"}};
  Members from_mac{{"._s0.jpg", "?"}, {".DS_Store", "?"}};
  from_mac.insert(from_mac.end(), clean.begin(), clean.begin() + 2);
  from_mac.insert(from_mac.end(),
                  {{"./._a", "?"}, {"a/._s1.jpg", "?"}, {"a/.DS_Store", "?"}, clean[2], {"a/._s1.cls", "x"}, clean[3]});
  from_mac.push_back({"__MACOSX/._s0.jpg", "?"});
  from_mac.push_back({"__MACOSX/a/s1.jpg", "?"});
  for (const char* ending : {".tar", ".tar.gz"}) {
    write_tar(folder / concat("x-000000", ending), from_mac);
    write_tar(folder / concat("y-000000", ending), clean);
    const ImageSet mac = folder.read("x"), plain = folder.read("y");
    CHECK(mac.size() == 2);
    CHECK(mac.labels == plain.labels);
    CHECK(mac.pixels == plain.pixels);
    std::filesystem::remove(folder / concat("x-000000", ending));
    std::filesystem::remove(folder / concat("y-000000", ending));
  }
  write_file(folder / "._train-000000.tar", "?");
  CHECK(webdataset_splits(folder.path()) == std::vector<std::string>{"train"});
}

TEST_CASE("webdataset: labels may count from 1") {
  const Folder folder;
  write_tar(folder / "x-000000.tar", {{"1.jpg", jpeg(1)}, {"1.cls", "3"}, {"2.jpg", jpeg(2)}, {"2.cls", "1"}});
  SliceRequest request = request_for("x");
  CHECK_SAYS(
      input_error([&] { read_webdataset(folder.path(), "", request); }),
      "label 3 is not below 3, the number of classes in classes.txt; if labels count from 1, set \"labels_from\": 1");
  request.numbers.from = 1;
  CHECK(read_webdataset(folder.path(), "", request).labels == std::vector<std::int32_t>{2, 0});
  write_tar(folder / "x-000000.tar", {{"1.jpg", jpeg(1)}, {"1.cls", "0"}});
  CHECK_SAYS(input_error([&] { read_webdataset(folder.path(), "", request); }), "label 0 is not from 1 to 3");
}

TEST_CASE("webdataset: classes may have equal names, and labels tell them apart") {
  const Folder folder;
  write_file(folder / "classes.txt", "crane\nmaillot\ncrane\n");
  write_tar(folder / "x-000000.tar", {{"1.jpg", jpeg(1)}, {"1.cls", "0"}, {"2.jpg", jpeg(2)}, {"2.cls", "2"}});
  const ImageSet images = folder.read("x");
  CHECK(images.class_names == std::vector<std::string>{"crane", "maillot", "crane"});
  CHECK(images.labels == std::vector<std::int32_t>{0, 2});
}
