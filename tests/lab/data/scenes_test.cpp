#include "experiments/lab/data/scenes.h"

#include <array>
#include <set>

#include "experiments/lab/data/generated.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

constexpr int kSide = 32, kUnit = 8;
constexpr ShapesLabel kLabels[] = {ShapesLabel::kind, ShapesLabel::colour, ShapesLabel::number, ShapesLabel::position};

struct Picture {
  std::array<std::uint8_t, 3 * kSide * kSide> rgb{};
  std::array<std::uint8_t, kSide * kSide> mask{};
  std::vector<SceneObject> objects;
};
Picture picture(std::int64_t index, ShapesLabel label, std::uint64_t seed = 1, const std::string& split = "train") {
  Picture out;
  out.objects = draw_scene(seed, split, index, label, out.rgb.data(), out.mask.data());
  return out;
}

/// Sets of pixels of one kind that touch at a side.
std::vector<std::vector<int>> parts_of(Picture picture) {
  std::vector<std::vector<int>> parts;
  for (int start = 0; start < kSide * kSide; ++start) {
    const std::uint8_t kind = picture.mask[std::size_t(start)];
    if (kind == 0) continue;
    std::vector<int> part{start};
    picture.mask[std::size_t(start)] = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const int x = part[i] % kSide, y = part[i] / kSide;
      for (const auto& [nx, ny] : {std::pair(x - 1, y), {x + 1, y}, {x, y - 1}, {x, y + 1}}) {
        if (nx < 0 || ny < 0 || nx >= kSide || ny >= kSide) continue;
        const int next = ny * kSide + nx;
        if (picture.mask[std::size_t(next)] != kind) continue;
        picture.mask[std::size_t(next)] = 0;
        part.push_back(next);
      }
    }
    parts.push_back(part);
  }
  return parts;
}

/// The name whose pure colour is nearest to the mean colour of these pixels.
SceneColour seen_colour(const Picture& picture, const std::vector<int>& pixels) {
  constexpr int kPure[][3] = {{220, 0, 0},   {0, 160, 0},   {0, 0, 220},     {230, 230, 0},
                              {150, 0, 180}, {0, 220, 220}, {255, 255, 255}, {0, 0, 0}};
  std::array<double, 3> mean{};
  for (const int pixel : pixels)
    for (std::size_t c = 0; c < 3; ++c)
      mean[c] += picture.rgb[std::size_t(pixel) * 3 + c] / static_cast<double>(pixels.size());
  double least = 1e9;
  std::size_t nearest = 0;
  for (std::size_t i = 0; i < std::size(kPure); ++i) {
    double distance = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      const double mixed = (3 * kPure[i][c] + 128) / 4.0;  // edges are mixed with the ground
      distance += (mean[c] - mixed) * (mean[c] - mixed);
    }
    if (distance < least) {
      least = distance;
      nearest = i;
    }
  }
  return static_cast<SceneColour>(nearest);
}

ImageSet scenes(ShapesLabel label, const std::string& slice, std::int64_t count) {
  DatasetConfig config;
  config.train_images = config.eval_images = count;
  config.label = label;
  ImageSet images = make_generated(config, request_for(slice, 1, config.name));
  finish_image_set(images);
  return images;
}

}  // namespace

TEST_CASE("scenes: the pictures never change") {
  const std::vector<std::string> hashes{"c03de986ed4d4739abd57a467deb76640b1dabb91b1a5bcd3abb96d7fce107d6",
                                        "7886625e3b4e856778f968f2728c9dc2753883138d0f2e17980caa8d6898d72f",
                                        "c7a43bc454ae71491e68e245a58966becc6e2a66356068299d95b2eab59879ac",
                                        "464b6cc4354f1bafdbae01e11c12722aeaf7e2009462a82b7e822f7fe01bd244"};
  for (std::size_t i = 0; i < 4; ++i) CHECK(scenes(kLabels[i], "train", 100).hash == hashes[i]);
}

TEST_CASE("scenes: the class of an image is a property of its objects, and classes are balanced") {
  for (const ShapesLabel label : kLabels) {
    CAPTURE(word_of(label));
    const auto classes = std::ssize(scene_classes(label));
    for (std::int64_t i = 0; i < 360; ++i) {
      const std::vector<SceneObject> objects = picture(i, label).objects;
      const std::string is = label == ShapesLabel::number     ? std::to_string(objects.size())
                             : label == ShapesLabel::kind     ? std::string(word_of(objects[0].kind))
                             : label == ShapesLabel::position ? std::string(word_of(objects[0].position()))
                                                              : std::string(word_of(objects[0].colour));
      CHECK(is == scene_classes(label)[std::size_t(i % classes)]);
    }
    const ImageSet images = scenes(label, "train", 360);
    CHECK(images.num_classes == classes);
    CHECK(images.class_names == scene_classes(label));
    for (std::int64_t i = 0; i < 360; ++i) CHECK(images.labels[std::size_t(i)] == i % classes);
  }
}

TEST_CASE("scenes: what is painted agrees with the list of objects") {
  for (const ShapesLabel label : kLabels) {
    for (std::int64_t i = 0; i < 300; ++i) {
      CAPTURE(word_of(label));
      CAPTURE(i);
      const Picture p = picture(i, label);
      const std::vector<std::vector<int>> parts = parts_of(p);
      REQUIRE(parts.size() == p.objects.size());
      std::set<const SceneObject*> found;
      for (const std::vector<int>& part : parts) {
        const int x = part[0] % kSide * kUnit + kUnit / 2, y = part[0] / kSide * kUnit + kUnit / 2;
        for (const SceneObject& object : p.objects) {
          const int reach = object.radius + kUnit / 2;  // half a pixel beyond its box
          if (std::abs(x - object.x) > reach || std::abs(y - object.y) > reach) continue;
          CHECK(p.mask[std::size_t(part[0])] == 1 + int(object.kind));
          CHECK(seen_colour(p, part) == object.colour);
          found.insert(&object);
        }
      }
      CHECK(found.size() == p.objects.size());
    }
  }
}

TEST_CASE("scenes: a kind has a silhouette of its own") {
  // Whether it covers the middle, the right, and a point inside the circle's diagonal.
  const std::array<std::array<bool, 3>, 5> kCovers{
      {{true, true, true}, {true, true, false}, {true, true, true}, {true, false, false}, {false, true, true}}};
  for (std::int64_t i = 0; i < 500; ++i) {
    const Picture p = picture(i, ShapesLabel::kind);
    const SceneObject& o = p.objects[0];
    const auto covers = [&](int x, int y) {  // in tenths of the radius
      const int px = (o.x + x * o.radius / 10) / kUnit, py = (o.y + y * o.radius / 10) / kUnit;
      return p.mask[std::size_t(py * kSide + px)] == 1 + int(o.kind);
    };
    CAPTURE(word_of(o.kind));
    CAPTURE(i);
    CHECK((std::array{covers(0, 0), covers(8, 0), covers(6, -6)} == kCovers[std::size_t(o.kind)]));
    if (o.kind == SceneKind::square)
      CHECK((covers(7, 7) && covers(7, -7)));
    else
      CHECK(!covers(9, -9));
  }
}

TEST_CASE("scenes: one object is plainly the largest, and all lie in the image without touching") {
  for (std::int64_t i = 0; i < 2000; ++i) {
    const std::vector<SceneObject> objects = picture(i, ShapesLabel::number).objects;
    for (std::size_t a = 0; a < objects.size(); ++a) {
      const SceneObject& o = objects[a];
      CHECK(std::min({o.x, o.y, kSide * kUnit - o.x, kSide * kUnit - o.y}) >= o.radius);
      if (a > 0) CHECK(2 * objects[0].radius > 2.8 * o.radius);
      for (std::size_t b = 0; b < a; ++b)
        CHECK(std::max(std::abs(o.x - objects[b].x), std::abs(o.y - objects[b].y)) > o.radius + objects[b].radius);
    }
  }
}

TEST_CASE("scenes: a position is a third of the height and a third of the width, not near their border") {
  std::set<ScenePosition> seen;
  for (std::int64_t i = 0; i < 500; ++i)
    for (const SceneObject& o : picture(i, ShapesLabel::colour).objects) {
      const std::string word(word_of(o.position()));
      CHECK((word.find("left") != word.npos) == (o.x < 85));
      CHECK((word.find("right") != word.npos) == (o.x > 171));
      CHECK((word.find("top") != word.npos) == (o.y < 85));
      CHECK((word.find("bottom") != word.npos) == (o.y > 171));
      for (const int border : {85, 171}) CHECK(std::min(std::abs(o.x - border), std::abs(o.y - border)) >= 7);
      seen.insert(o.position());
    }
  CHECK(seen.size() == 9);
}

TEST_CASE("scenes: everything but the label is drawn anew in each image") {
  std::set<std::array<int, 4>> looks;
  for (std::int64_t i = 0; i < 400; i += 4) {  // of one class
    const std::vector<SceneObject> objects = picture(i, ShapesLabel::number).objects;
    REQUIRE(objects.size() == 1);
    looks.insert({int(objects[0].kind), int(objects[0].colour), int(objects[0].position()), objects[0].radius});
  }
  CHECK(looks.size() > 90);
}

TEST_CASE("scenes: other labels, seeds and splits have other pictures") {
  const Picture first = picture(5, ShapesLabel::kind);
  CHECK(picture(5, ShapesLabel::kind).rgb == first.rgb);
  CHECK(picture(5, ShapesLabel::colour).rgb != first.rgb);
  CHECK(picture(5, ShapesLabel::kind, 2).rgb != first.rgb);
  CHECK(picture(5, ShapesLabel::kind, 1, "test").rgb != first.rgb);
}

TEST_CASE("scenes: a slice has the pictures of the whole split") {
  const ImageSet all = scenes(ShapesLabel::position, "test", 200),
                 part = scenes(ShapesLabel::position, "test[50:]", 200);
  REQUIRE(part.size() == 150);
  for (std::int64_t i = 0; i < part.size(); ++i)
    CHECK(std::equal(part.image(i), part.image(i) + 3072, all.image(std::stoll(part.key(i)))));
}

TEST_CASE("scenes: images by relation are no scenes") {
  std::array<std::uint8_t, 3072> rgb{};
  CHECK_SAYS(input_error([&] { scene_classes(ShapesLabel::relation); }), "by relation");
  draw_scene(1, "train", 0, ShapesLabel::kind, rgb.data());  // without a mask
}
