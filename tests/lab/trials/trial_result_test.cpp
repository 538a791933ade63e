#include "experiments/lab/trials/trial_result.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/lab/trials/unsealed_result.h"

using namespace normlab;

namespace {

TrialResult example() {
  TrialResult result;
  result.id = "abc";
  result.status = TrialEnd::diverged;
  result.metrics = {{"eval/accuracy", 0.1}, {"train/loss", 1e30}};
  result.message = "loss is inf: \"blocks.0.mlp\"";
  result.diverged_step = 1200;
  result.diverged_rule = "nonfinite";
  result.diverged_site = "blocks.0.mlp";
  result.diverged_value = -std::numeric_limits<double>::infinity();
  result.steps = 1200;
  result.attempt = 3;
  result.early_stop_rule = "minival/accuracy has not risen for 3 evaluations";
  result.seed = 18446744073709551615ULL;
  result.wall_seconds = 12.5;
  result.images_per_second = 1.0 / 3;
  result.peak_mb = 321;
  result.provenance = {{"version", "73f18dd"}, {"cpu", "none"}};
  result.resumed = 2;
  result.different_bits = true;
  return result;
}

std::string refusal(const std::string& text) {
  try {
    parse_trial_result(text, "result.json");
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

/// A result of schema 1, which has no seal.
nlohmann::ordered_json without_seal() {
  TrialResult plain;
  plain.id = "d";
  plain.metrics = {{"eval/accuracy", 0.75}, {"eval/loss", 0.5}};
  plain.steps = plain.attempt = 4;
  auto json = nlohmann::ordered_json::parse(write_trial_result(plain));
  for (const char* key : {"files", "sha256"}) json.erase(key);
  json["schema"] = 1;
  return json;
}

/// Why a result without a seal is refused when a value of it is another.
std::string refusal_with(const std::string& pointer, const nlohmann::ordered_json& value) {
  auto changed = without_seal();
  changed[nlohmann::ordered_json::json_pointer(pointer)] = value;
  return refusal(changed.dump());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("trial result: a diverged result reads back") {
  CHECK(parse_trial_result(write_trial_result(example()), "x") == example());
}

TEST_CASE("trial result: a result reads back without the keys that it lacks") {
  TrialResult plain;
  plain.id = "d";
  plain.metrics = {{"eval/accuracy", 0.7512345678901234}};
  CHECK(parse_trial_result(write_trial_result(plain), "x") == plain);
  CHECK(write_trial_result(plain).find("diverged") == std::string::npos);
  CHECK(write_trial_result(plain).find("\"steps\"") == std::string::npos);
  plain.steps = 900;
  plain.stopped_early_step = 900;
  plain.files = {{"metrics.jsonl", {120, std::string(64, 'a')}}};
  CHECK(parse_trial_result(write_trial_result(plain), "x") == plain);
}

TEST_CASE("trial result: metrics that are not finite are written in words and not read") {
  TrialResult diverged = example();
  diverged.metrics["train/loss"] = std::numeric_limits<double>::quiet_NaN();
  const std::string text = write_trial_result(diverged);
  CHECK(text.find("\"train/loss\": null") != text.npos);
  CHECK(nlohmann::json::parse(text)["nonfinite"]["train/loss"] == "nan");
  CHECK(parse_trial_result(text, "x").metrics.empty());
}

TEST_CASE("trial result: an unsealed one whose metrics are not finite has diverged") {
  TrialResult old;  // of an earlier version
  old.id = "d";
  old.steps = 40;
  for (const char* name : {"eval/loss", "eval/ema_loss", "minival/loss", "eval/accuracy", "train/loss"}) {
    CAPTURE(name);
    old.metrics = {{"eval/accuracy", 0.1}, {"eval/loss", 2.0}, {"train/loss", 2.0}};
    old.metrics[name] = -std::numeric_limits<double>::infinity();
    const std::string text = unsealed_text(old);
    CHECK(text.find(concat("\"", name, "\": null")) != text.npos);
    CHECK(nlohmann::json::parse(text)["nonfinite"][name] == "-inf");
    const TrialResult read = parse_trial_result(text, "x");
    CHECK(read.status == TrialEnd::diverged);
    CHECK(read.metrics.empty());
    CHECK(read.diverged_step == 40);
    CHECK(read.diverged_rule == "nonfinite");
    CHECK(read.diverged_site == "evaluation");
    CHECK(read.diverged_value == -std::numeric_limits<double>::infinity());
    CHECK(read.message == concat("step 40: the result says that ", name, " is -inf, so none of its metrics is one"));
  }
}

TEST_CASE("trial result: a diverged one keeps its site beside metrics that are not finite") {
  TrialResult diverged = example();
  diverged.metrics["train/loss"] = std::numeric_limits<double>::quiet_NaN();
  const TrialResult read = parse_trial_result(write_trial_result(diverged), "x");
  CHECK(read.metrics.empty());
  CHECK(read.diverged_site == "blocks.0.mlp");
}

TEST_CASE("trial result: one of a newer schema is refused") {
  const std::string good = write_trial_result(example());
  CHECK(refusal(good) == "");
  CHECK(refusal(replaced(good, "\"schema\": 2", "\"schema\": 3")) ==
        "result.json: written with schema 3, this program reads 1 and 2; use the program that wrote it, or a newer "
        "one");
}

TEST_CASE("trial result: a damaged text is refused with the reason") {
  const std::string good = write_trial_result(example());
  const std::string torn = refusal(good.substr(0, 40));
  CHECK_MESSAGE(torn.find("result.json: byte 40: not valid JSON") == 0, torn);
  CHECK(torn.find("delete this file and start the same command again") != torn.npos);
  CHECK(refusal(good + std::string(8, '\0')).find("a NUL byte") != torn.npos);
  CHECK(refusal("[]").find("expected an object, found array") != torn.npos);
  CHECK(refusal(std::string(100'000, '[')).find("nested too deeply") != torn.npos);
}

TEST_CASE("trial result: a key that is unknown, doubled or missing is refused") {
  const std::string good = write_trial_result(example());
  CHECK(refusal(replaced(good, "\"resumed\": 2", "\"resumed\": 2, \"again\": 2")).find("\"again\": unknown key") !=
        std::string::npos);
  CHECK(refusal(replaced(good, "\"resumed\": 2", "\"resumed\": 2, \"resumed\": 3")).find("duplicate key \"resumed\"") !=
        std::string::npos);
  CHECK(refusal(replaced(good, "\"resumed\": 2,", "")).find("\"resumed\": this key is missing") != std::string::npos);
}

TEST_CASE("trial result: a value of the wrong kind is refused") {
  const std::string good = write_trial_result(example());
  CHECK(refusal(replaced(good, "\"diverged\"", "\"exploded\"")).find("unknown status \"exploded\"") !=
        std::string::npos);
  CHECK(refusal(replaced(good, "\"train/loss\": 1e+30", "\"train/loss\": \"x\""))
            .find("\"train/loss\": expected a number") != std::string::npos);
}

TEST_CASE("trial result: images that were left out are named and counted") {
  TrialResult result;
  result.id = "x";
  CHECK(write_trial_result(result).find("bad_images") == std::string::npos);
  result.bad_images = {"train a.jpg: is no image", "eval b.jpg: gone"};
  const std::string text = write_trial_result(result);
  CHECK(text.find("\"count\": 2") != std::string::npos);
  CHECK(parse_trial_result(text, "r.json") == result);
}

TEST_CASE("trial result: a wrong count of left-out images is refused") {
  TrialResult result;
  result.id = "x";
  result.bad_images = {"train a.jpg: is no image", "eval b.jpg: gone"};
  const std::string wrong = replaced(write_trial_result(result), "\"count\": 2", "\"count\": 3");
  CHECK_THROWS_AS(parse_trial_result(wrong, "r.json"), InputError);
}

TEST_CASE("trial result: any change of a value breaks the seal") {
  const std::string good = write_trial_result(example());
  CHECK(parse_trial_result(good, "x").sealed);
  for (const auto& change :
       std::vector<std::pair<std::string, std::string>>{{"\"seed\": 1", "\"seed\": 2"},
                                                        {"73f18dd", "73f18de"},
                                                        {"12.5", "12.4"},
                                                        {"\"diverged\"", "\"failed\""},
                                                        {"different_bits\": true", "different_bits\": false"}}) {
    CAPTURE(change.first);
    CHECK(refusal(replaced(good, change.first, change.second)) != "");
  }
  const std::string other = refusal(replaced(good, "73f18dd", "73f18de"));
  CHECK_MESSAGE(other.find("result.json: is damaged: the SHA-256 of the rest of it is ") == 0, other);
}

TEST_CASE("trial result: a seal under another name is missing") {
  const std::string good = write_trial_result(example());
  CHECK(refusal(replaced(good, "\"sha256\"", "\"sha257\"")).find("\"sha256\": this key is missing") !=
        std::string::npos);
}

TEST_CASE("trial result: the seal does not depend on the layout") {
  const std::string good = write_trial_result(example());
  CHECK(refusal(nlohmann::ordered_json::parse(good).dump()) == "");
}

TEST_CASE("trial result: one without a seal reads but is not written again") {
  const auto json = without_seal();
  CHECK(!parse_trial_result(json.dump(), "x").sealed);
  CHECK_THROWS_AS(write_trial_result(parse_trial_result(json.dump(), "x")), InputError);
}

TEST_CASE("trial result: numbers that no training gives are refused without a seal") {
  CHECK(refusal_with("/metrics/eval~1accuracy", 1) == "");
  CHECK(refusal_with("/metrics/eval~1accuracy", 7.5)
            .find("eval/accuracy: 7.5 is not an accuracy, which is between 0 and 1") != std::string::npos);
  CHECK(refusal_with("/metrics/eval~1accuracy", -1e300) != "");
  CHECK(refusal_with("/metrics/eval~1loss", -5).find("eval/loss: -5 is not a loss") != std::string::npos);
  CHECK(refusal_with("/peak_mb", 0).find("0 is outside 1 to 1e+15") != std::string::npos);
  CHECK(refusal_with("/wall_seconds", -1).find("-1 is outside 0 to 1e+10") != std::string::npos);
  CHECK(refusal_with("/wall_seconds", 1e300) != "");
  CHECK(refusal_with("/images_per_second", -1) != "");
  CHECK(refusal_with("/steps", -1) != "");
  CHECK(refusal_with("/attempt", 0).find("0 is outside 1 to 10000") != std::string::npos);
  CHECK(refusal_with("/attempt", 10000) == "");
  CHECK(refusal_with("/attempt", 10001) != "");
  CHECK(refusal_with("/resumed", -1) != "");
}

TEST_CASE("trial result: a file of another folder is refused even if the result is sealed") {
  for (const char* name : {"metrics.jsonl", "a b..c"}) {
    TrialResult sealed = example();
    sealed.files[name] = {1, std::string(64, '0')};
    CHECK(refusal(write_trial_result(sealed)) == "");
  }
  for (const char* name : {"../../x", "/etc/passwd", "a/b", "..", ".hidden", ""}) {
    TrialResult sealed = example();
    sealed.files[name] = {1, std::string(64, '0')};
    CHECK_MESSAGE(refusal(write_trial_result(sealed)).find("is not a plain name") != std::string::npos, name);
  }
  TrialResult sealed = example();
  sealed.attempt = 10'000'000;
  CHECK(refusal(write_trial_result(sealed)).find("10000000 is outside 1 to 10000") != std::string::npos);
}

TEST_CASE("trial result: keys that contradict the status or each other are refused") {
  CHECK(refusal_with("/status", "failed").find("a trial that failed has no metrics") != std::string::npos);
  CHECK(refusal_with("/status", "diverged").find("is missing in a diverged result") != std::string::npos);
  CHECK(refusal_with("/diverged_step", 4).find("only a diverged result has this key") != std::string::npos);
  CHECK(refusal_with("/stopped_early_step", 3).find("is 3, but \"steps\" is 4") != std::string::npos);
}

TEST_CASE("trial result: one whose loss is not finite has not ended as done") {
  TrialResult plain;
  plain.id = "d";
  plain.metrics = {{"eval/accuracy", 0.75}, {"eval/loss", std::numeric_limits<double>::quiet_NaN()}};
  CHECK(refusal(write_trial_result(plain)).find("eval/loss is nan, which is not a valid result") != std::string::npos);
}
