// A network that several ranks train has the bits of one that a single process trains.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "core/group.h"
#include "nn/model/init.h"
#include "nn/probes/probes.h"
#include "nn/probes/site_probe.h"
#include "nn/training/engine.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/nn/model/small_network.h"
#include "tests/nn/training/ranks_training.h"

using namespace normlab;

namespace {

void check_ranks(const Case& c) {
  const std::vector<std::byte> alone = trained(c, cpu_backend(), group_of_one(), 1);
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const int threads : {1, 2}) {
      CAPTURE(ranks);
      CAPTURE(threads);
      Team{.forked = ranks}.run([&](Group& group) {
        const std::vector<std::byte> here = trained(c, cpu_backend(), group, threads);
        const bool equal =
            std::equal(here.begin(), here.end(), alone.begin()) && (!group.root() || here.size() == alone.size());
        const std::vector<bool> all = [&] {
          const std::vector<char> found = group.gathered(char(equal));
          return std::vector<bool>(found.begin(), found.end());
        }();
        if (group.root()) CHECK(all == std::vector<bool>(static_cast<std::size_t>(ranks), true));
      });
    }
}

}  // namespace

TEST_CASE("ranks: layer norm") { check_ranks({}); }

TEST_CASE("ranks: batch norm, whose statistics are over all ranks") {
  Case c;
  c.model = small_vit("bn");
  check_ranks(c);
}

TEST_CASE("ranks: a batch norm over groups of images, in parts of a batch") {
  Case c;
  ViTConfig model = small_vit("bn");
  c.settings.accumulate = 3;
  for (const RunningFrom running :
       {RunningFrom::all_groups, RunningFrom::first_group, RunningFrom::first_group_of_step}) {
    model.placement.final.statistics_batch = 4;
    model.placement.final.running = running;
    c.model = model;
    check_ranks(c);
  }
}

TEST_CASE("ranks: Swin, drop-path, dropout and an average of the weights") {
  Case c;
  SwinConfig model = small_swin("pre_pre");
  model.drop_path = 0.5;
  model.dropout = 0.1;
  c.model = model;
  c.settings.ema.decay = 0.9;
  check_ranks(c);
}

TEST_CASE("ranks: bf16") {
  Case c;
  c.settings.precision = precision_of(DType::bf16);
  check_ranks(c);
}

TEST_CASE("ranks: every optimiser") {
  for (std::size_t name = 0; name < kWords<OptimizerName>.size(); ++name) {
    CAPTURE(name);
    for (const Precision precision : {Precision::fp32, precision_of(DType::bf16)}) {
      Case c;
      ViTConfig model = small_vit("pre_pre");
      model.embed_dim = 48;  // matrices across the borders of chunks
      model.mlp_dim = 384;
      c.model = model;
      c.settings.precision = precision;
      c.settings.optimizer.name = static_cast<OptimizerName>(name);
      c.settings.optimizer.weight_decay = 0.1;
      check_ranks(c);
    }
  }
}

TEST_CASE("ranks: frozen parameters, and a training of the head alone") {
  Case c;
  c.settings.freeze = {"stem", "blocks.0"};
  check_ranks(c);
}

TEST_CASE("ranks: as many as images") {
  Case c;
  c.batch = c.settings.max_batch = 8;
  c.last = 1;
  check_ranks(c);
  c.model = small_vit("bn");
  check_ranks(c);
}

TEST_CASE("ranks: probes see each image once") {
  for (const std::string_view placement : {"pre_pre", "bn"}) {
    const ViTConfig model = small_vit(placement);
    EngineSettings settings;
    settings.max_batch = 20;
    const auto probed = [&](Group& ranks, std::int64_t images) {
      ShardPool pool(2, ranks);
      Engine engine(cpu_backend(), pool, model, settings);
      initialise(engine.parameters(), model, 3);
      const Batch data(model, images);
      SignalProbe signal;
      NormProbe norms(true);
      AttentionProbe attention;
      Observers observers;
      signal.observe(observers);
      norms.observe(observers);
      attention.observe(observers);
      engine.use_probe(observers);
      engine.state().lr = 1e-2;
      engine.train_step(data.images, data.labels);
      signal.gather(ranks);
      norms.gather(ranks);
      attention.gather(ranks);
      std::vector<double> all;
      for (const SignalProbe::Layer& layer : signal.layers())
        for (const int axis : {0, 1})
          all.insert(all.end(), {layer.stream[axis].afsm, layer.stream[axis].afv, layer.branch[axis].afv});
      for (const NormProbe::Site& site : norms.sites()) {
        const ActivationMoments& m = site.moments;
        all.insert(all.end(), {double(m.count), m.mean, m.variance, m.kurtosis, m.lowest, m.highest});
        all.insert(all.end(), m.bins.begin(), m.bins.end());
        for (const MappedPoint& point : site.points) all.insert(all.end(), {point.in, point.out, double(point.token)});
      }
      for (const AttentionProbe::Layer& layer : attention.layers())
        all.insert(all.end(), {layer.entropy, layer.largest_logit});
      return all;
    };
    for (const std::int64_t images : {20, 3}) {
      const std::vector<double> alone = probed(group_of_one(), images);
      CHECK(alone.size() > 200);
      for (const int ranks : {2, 3, 8}) {
        CAPTURE(ranks);
        Team{.forked = ranks}.run([&](Group& group) {
          const std::vector<char> equal = group.gathered(char(probed(group, images) == alone));
          CHECK(equal == std::vector<char>(equal.size(), 1));
        });
      }
    }
  }
}

TEST_CASE("ranks: the first non-finite value is found in any rank") {
  const ViTConfig model = small_vit("pre_pre");
  EngineSettings settings;
  settings.max_batch = 20;
  const auto found = [&](Group& ranks) {
    ShardPool pool(1, ranks);
    Engine engine(cpu_backend(), pool, model, settings);
    initialise(engine.parameters(), model, 3);
    Batch data(model, 20);
    data.images.data<float>()[data.images.size() - 1] = std::numeric_limits<float>::infinity();
    engine.state().lr = 1e-2;
    const std::vector<float> before(engine.parameters().update().values.data<float>(),
                                    engine.parameters().update().values.data<float>() + 100);
    CHECK(std::isnan(engine.train_step(data.images, data.labels)));
    CHECK(std::equal(before.begin(), before.end(), engine.parameters().update().values.data<float>()));
    return engine.find_nonfinite(data.images, data.labels).words();
  };
  const std::string alone = found(group_of_one());
  for (const int ranks : {2, 3, 8})
    Team{.forked = ranks}.run([&](Group& group) {
      const std::string here = found(group);
      CHECK(group.shared_text(here, ranks - 1) == alone);
      CHECK(here == alone);
    });
}

TEST_CASE("ranks: a text of any length is shared") {
  const std::string text(10'000'000, 'x');  // more than the ranks show each other at a time
  Team{.forked = 3}.run([&](Group& ranks) {
    CHECK(ranks.shared_text(ranks.number() == 2 ? text : "", 2) == text);
    CHECK(ranks.shared_text(text, 0).size() == text.size());
  });
}

TEST_CASE("ranks: the error of a rank ends all, with its kind") {
  const auto run = [](auto&& fail) {
    Team{.forked = 3}.run([&](Group& ranks) {
      ranks.gathered(0);
      if (ranks.number() == 1) fail();
      ranks.gathered(0);
    });
  };
  CHECK_THROWS_WITH_AS(run([] { throw InputError("the input"); }), "the input", InputError);
  CHECK_THROWS_WITH_AS(run([] { throw EnvironmentError("the disk"); }), "rank 1 of 3: the disk", EnvironmentError);
  CHECK_THROWS_WITH_AS(Team{.forked = 3}.run([](Group& ranks) {
    if (ranks.root()) throw InputError("of rank 0");
    ranks.gathered(0);
  }),
                       "of rank 0", InputError);
}

TEST_CASE("ranks: a killed rank ends all with a message") {
  std::string message;
  try {
    Team{.forked = 4}.run([](Group& ranks) {
      ranks.gathered(0);
      if (ranks.number() == 2) kill(getpid(), SIGKILL);
      ranks.gathered(0);
    });
  } catch (const EnvironmentError& error) {
    message = error.what();
  }
  CHECK(message.starts_with("rank 2 of 4 (process "));
  CHECK(message.ends_with(
      ") was ended by signal 9 (Killed; memory may have run out); the same command resumes from the last checkpoint"));
}

TEST_CASE("ranks: a rank that ends by itself while others wait ends all") {
  const auto message = [](bool waits) -> std::string {
    try {
      Team{.forked = 3}.run([&](Group& ranks) {
        ranks.gathered(0);
        if (ranks.number() == 1) _exit(3);  // as where memory runs out and nothing may be thrown
        if (waits) ranks.gathered(0);
      });
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "";
  };
  for (const bool waits : {true, false}) {
    CHECK(message(waits).starts_with("rank 1 of 3 (process "));
    CHECK(message(waits).ends_with(") ended with code 3; the same command resumes from the last checkpoint"));
  }
}

TEST_CASE("ranks: too many are refused") {
  CHECK_THROWS_WITH_AS(Team{.forked = 0}.run([](Group&) {}), "--ranks 0: is not between 1 and 256", InputError);
}
