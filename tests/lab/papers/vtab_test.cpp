// Appendix E and Table 3 of "Dual PatchNorm": VTAB-1k.
#include "experiments/lab/descriptor/tune.h"
#include "tests/lab/papers/paper_table.h"

using namespace normlab;

namespace {

/// A task of VTAB: its group, its classes, the validation images, and the test images.
struct VtabTask {
  const char *name, *group;
  std::int64_t classes;
  const char *minival, *eval;
};
const VtabTask kVtab[] = {{"caltech101", "natural", 102, "train[90%:][:200]", "test"},
                          {"cifar100", "natural", 100, "train[90%:][:200]", "test"},
                          {"dtd", "natural", 47, "val[:200]", "test"},
                          {"flowers102", "natural", 102, "val[:200]", "test"},
                          {"oxford_pets", "natural", 37, "train[80%:][:200]", "test"},
                          {"sun397", "natural", 397, "val[:200]", "test"},
                          {"svhn", "natural", 10, "train[90%:][:200]", "test"},
                          {"patch_camelyon", "specialised", 2, "val[:200]", "test"},
                          {"eurosat", "specialised", 10, "train[60%:][:200]", "train[80%:]"},
                          {"resisc45", "specialised", 45, "train[60%:][:200]", "train[80%:]"},
                          {"retinopathy", "specialised", 5, "val[:200]", "test"},
                          {"clevr_count", "structured", 8, "train[90%:][:200]", "val"},
                          {"clevr_distance", "structured", 6, "train[90%:][:200]", "val"},
                          {"dmlab", "structured", 6, "val[:200]", "test"},
                          {"dsprites_location", "structured", 16, "train[80%:][:200]", "train[90%:]"},
                          {"dsprites_orientation", "structured", 16, "train[80%:][:200]", "train[90%:]"},
                          {"kitti_distance", "structured", 4, "val[:200]", "test"},
                          {"smallnorb_azimuth", "structured", 18, "test[:200]", "test[50%:]"},
                          {"smallnorb_elevation", "structured", 9, "test[:200]", "test[50%:]"}};

const Lines kAppendixE{{"8: loss = 'sigmoid_xent'", "train.loss", "\"sigmoid\""},
                       {"10: total_steps = 2500", "steps", "2500"},
                       {"17: split='train[:800]', to choose the rate", "dataset.train", "\"train[:800]\""},
                       {"19: batch_size = 512", "train.batch_size", "512"},
                       {"20: one endless stream of batches", "train.drop_last", "false"},
                       {"11: ops of VTAB: 224 pixels", "model.image_size", "[224, 224]"},
                       {"11: the whole image", "train.augment.crop", "\"stretch\""},
                       {"11: bilinear, no antialiasing", "train.augment.resize", "\"bilinear_plain\""},
                       {"11: the whole image", "train.eval_transform.crop", "\"stretch\""},
                       {"11: bilinear, no antialiasing", "train.eval_transform.resize", "\"bilinear_plain\""},
                       {"11: value range of the library", "dataset.mean", "[0.5, 0.5, 0.5]"},
                       {"11: value range of the library", "dataset.std", "[0.5, 0.5, 0.5]"},
                       {"11: no augmentation", "train.augment.flip", "false"},
                       {"11: no augmentation", "train.augment.randaugment.layers", "absent"},
                       {"11: no augmentation", "train.augment.mix.mixup", "0"},
                       {"32: model_name = 'vit'", "model.kind", "\"vit\""},
                       {"39: rep_size=True", "model.rep_size", "768"},
                       {"40: pool_type='tok'", "model.pool", "\"token\""},
                       {"42: dont_load head", "start.leave_out", "[\"head\"]"},
                       {"45: optax_name = 'big_vision.momentum_hp'", "train.optimizer.name", "\"momentum_hp\""},
                       {"45: momentum of the library", "train.optimizer.momentum", "0.9"},
                       {"45: momentum in bfloat16", "train.optimizer.bf16_moment", "true"},
                       {"46: grad_clip_norm = 1.0", "train.clip_norm", "1"},
                       {"47: wd = None", "train.optimizer.weight_decay", "0"},
                       {"48: lr = 0.0003", "train.optimizer.lr", "0.0003"},
                       {"51: warmup_steps=200", "warmup_steps", "200"},
                       {"52: decay_type='cosine'", "train.schedule.name", "\"cosine\""},
                       {"no dropout is set", "model.dropout", "0"}};

}  // namespace

TEST_CASE("papers: appendix E of Dual PatchNorm has the settings of VTAB") {
  CHECK(check_lines("papers/dual_patchnorm/vtab", "", kAppendixE) == std::set<std::string>{"train.drop_last"});
}

TEST_CASE("papers: Table 3 of Dual PatchNorm has the 19 tasks of VTAB, each with its own slices") {
  const Experiment vtab = load_experiment(file_of("papers/dual_patchnorm/vtab"));
  REQUIRE(vtab.rows.size() == 19 * 4);
  std::size_t r = 0;
  for (const VtabTask& task : kVtab) {
    CAPTURE(task.name);
    const auto in_group = std::find_if(vtab.groups.begin(), vtab.groups.end(),
                                       [&](const BenchmarkGroup& g) { return g.name == task.group; });
    REQUIRE(in_group != vtab.groups.end());
    CHECK(std::find(in_group->benchmarks.begin(), in_group->benchmarks.end(), task.name) != in_group->benchmarks.end());
    for (const char* const file : {"B/32", "B/16"})
      for (const char* const placement : {"pre_pre", "dpn"}) {
        const Cell& row = vtab.rows[r];
        CHECK(row.axes.front().second == task.name);
        CHECK(row.axes[1].second == file);
        CHECK(row.axes[3].second == placement);
        REQUIRE(row.tuning.size() == 9);
        const TrialConfig& tuning = vtab.trials[row.tuning.front()].config;
        CHECK(num_classes(tuning.model) == task.classes);
        CHECK(tuning.dataset.train == "train[:800]");
        CHECK(tuning.dataset.eval == task.minival);
        const TrialConfig own = vtab.tuned->config(r, std::vector<std::size_t>{0});
        CHECK(own.dataset.train == concat("train[:800]+", task.minival));
        CHECK(own.dataset.eval == task.eval);
        ++r;
      }
  }
  REQUIRE(vtab.groups.size() == 4);
  CHECK(vtab.groups[0].benchmarks.size() == 7);
  CHECK(vtab.groups[1].benchmarks.size() == 4);
  CHECK(vtab.groups[2].benchmarks.size() == 8);
  CHECK(vtab.groups[3].benchmarks.size() == 19);
}
