#include "experiments/lab/descriptor/trial_checks.h"

#include <algorithm>
#include <set>

#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/tasks.h"
#include "nn/model/freeze.h"
#include "nn/model/model.h"
#include "nn/training/update_factors.h"

namespace normlab {
namespace {

/// Patterns that the user may have meant: all names, each also with "*" for its numbers, and shortened to its
/// beginnings, its ends, or its first and last word, with "*" for the rest.
std::vector<std::string> likely_patterns(const std::vector<std::string>& names) {
  std::set<std::string> patterns(names.begin(), names.end());
  for (const std::string& name : names) {
    std::string any;
    for (const char c : name) {
      const bool digit = c >= '0' && c <= '9';
      if (!digit)
        any += c;
      else if (any.empty() || any.back() != '*')
        any += '*';
    }
    patterns.insert(any);
    if (any.find('.') != any.rfind('.'))
      patterns.insert(any.substr(0, any.find('.')) + ".*" + any.substr(any.rfind('.')));
    for (std::size_t dot = any.find('.'); dot != any.npos; dot = any.find('.', dot + 1)) {
      patterns.insert(any.substr(0, dot + 1) + "*");
      patterns.insert("*" + any.substr(dot));
    }
  }
  return {patterns.begin(), patterns.end()};
}

/// Of the parameters' names: what follows "no parameter matches ...".
std::string advice(const std::string& pattern, const std::vector<std::string>& names) {
  const std::vector<std::string> likely = likely_patterns(names);
  const std::string_view near = nearest(pattern, {likely.begin(), likely.end()});
  return near.empty() ? concat("; parameters have names such as \"", names.front(), "\" and \"", names.back(), "\"")
                      : concat("; did you mean \"", near, "\"?");
}

/// Of the multipliers and of train.freeze.
void check_patterns(const TrialConfig& trial, const Report& report) {
  const std::vector<Multiplier>& multipliers = trial.train.optimizer.multipliers;
  const std::vector<std::string>& freeze = trial.train.freeze;
  if (multipliers.empty() && freeze.empty()) return;
  ParameterSet set;
  make_model(set, trial.model);
  std::vector<std::string> names;
  for (const ParameterInfo& p : set.parameters()) names.push_back(p.name);
  for (std::size_t i = 0; i < multipliers.size(); ++i) {
    const std::string& pattern = multipliers[i].name;
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return fits(pattern, name); })) continue;
    report(concat("train.optimizer.multipliers.", i, ".name"),
           concat("no parameter matches ", in_quotes(pattern), advice(pattern, names)));
  }
  if (const auto problem = freezing(freeze, set.parameters()).problem)
    report(concat("train.freeze.", problem->pattern),
           problem->message + (problem->matches_none ? advice(freeze[problem->pattern], names) : ""));
}

std::string problem_of_early_stop(const EarlyStopConfig& rule, const TaskRules& task, const std::string& minival,
                                  bool averages) {
  if (rule.metric.empty()) return "";
  const bool averaged = rule.metric.rfind("minival/ema_", 0) == 0;
  const std::string name = rule.metric.substr(std::min(rule.metric.size(), rule.metric.find('/') + 1));
  if (rule.metric.rfind("eval/", 0) == 0)
    return concat(in_quotes(rule.metric),
                  " is measured on the slice that the table shows, and stopping by it would bias the table; set "
                  "dataset.minival to a slice of the training images and use \"minival/",
                  name, "\"");
  std::vector<std::string> known;
  for (const std::string_view prefix : {"minival/", "minival/ema_"})
    for (const auto& metrics : {task.metrics, task.on_request})
      for (const std::string_view metric : metrics) known.push_back(concat(prefix, metric));
  if (std::find(known.begin(), known.end(), rule.metric) == known.end()) {
    std::string words;
    for (const std::string& word : known)
      words += concat(word == known.front() ? "" : word == known.back() ? " or " : ", ", in_quotes(word));
    return concat("unknown metric ", in_quotes(rule.metric), "; expected ", words);
  }
  if (averaged && !averages) return "there are no averaged weights to evaluate; set train.ema.decay";
  if (minival.empty())
    return "needs dataset.minival, a slice of the training images such as \"train[90%:]\", next to dataset.train "
           "\"train[:90%]\"";
  return "";
}

void check_order(const std::vector<AugmentStep>& order, const Report& report) {
  const char* const all = "; list crop_padding, flip and policy once each";
  for (auto step = order.begin(); step != order.end(); ++step)
    if (std::find(order.begin(), step, *step) != step)
      return report(concat("train.augment.order.", step - order.begin()),
                    concat(word_of(*step), " is given twice", all));
  for (const AugmentStep step : AugmentConfig{}.order)
    if (std::find(order.begin(), order.end(), step) == order.end())
      return report("train.augment.order", concat(word_of(step), " is missing", all));
}

void check_augment(const TrialConfig& trial, const Report& report) {
  const AugmentConfig& augment = trial.train.augment;
  if (augment.crop == CropName::center && !cuts_centre(trial.train.eval_transform.crop))
    report("train.augment.crop",
           "crop center uses the settings of train.eval_transform, whose crop is not center; set that to center or "
           "stretch_center, too");
  const auto check_policy = [&](std::string_view key, const auto& policy) {
    if (const auto problem = problem_of(policy))
      report(concat("train.augment.", key, ".", problem->key), problem->what);
  };
  check_policy("randaugment", augment.randaugment);
  check_policy("autoaugment", augment.autoaugment);
  check_policy("trivialaugment", augment.trivialaugment);
  if (const auto on = policies_of(augment); on.size() > 1)
    report(concat("train.augment.", on.back()), concat(on.front(), " is on too; set the dialect of one to none"));
  check_order(augment.order, report);
  if (augment.erasing.dialect == ErasingDialect::torchvision && augment.erasing.fill == ErasingFill::color)
    report("train.augment.erasing.fill",
           "torchvision has no fill \"color\"; use \"constant\" or \"pixel\", or dialect \"timm\"");
  if ((augment.mix.mixup > 0 || augment.mix.cutmix > 0) && trial.train.batch_size < 2)
    report("train.augment.mix", "a batch of 1 image has no second image to mix with; raise train.batch_size");
}

}  // namespace

void check_meaning(const TrialConfig& trial, const Report& report) {
  const TrainConfig& train = trial.train;
  const RandAugmentConfig& randaugment = train.augment.randaugment;
  if (randaugment.dialect == RandAugmentDialect::timm && randaugment.magnitude > 10)
    report("train.augment.randaugment.magnitude",
           concat("timm's levels end at 10, so ", randaugment.magnitude, " would act as 10"));
  const EvalTransformConfig& transform = train.eval_transform;
  const auto [height, width] = image_size(trial.model);
  if (cuts_centre(transform.crop) && transform.resize_to > 0 && transform.resize_to < std::min(height, width))
    report("train.eval_transform.resize_to",
           concat("a crop of ", height, " x ", width, " pixels does not fit into an image whose shorter side has ",
                  transform.resize_to));
  const EarlyStopConfig& rule = train.early_stop;
  if (rule.metric.empty()) return;
  if (train.eval_every_epochs == 0)
    report("train.early_stop", "needs evaluations during the training, but train.eval_every_epochs is 0");
  if (is_share(rule.metric) && rule.min_delta >= 1)
    report("train.early_stop.min_delta", concat("is a share for this metric, so none can improve by ", rule.min_delta,
                                                "; one percentage point is 0.01"));
}

void check_training(const TrialConfig& trial, const Report& report) {
  const TrainConfig& train = trial.train;
  const TaskRules& rules = rules_of(task_of(trial.model));
  check_augment(trial, report);
  rules.check(trial, report);
  if (train.label_smoothing > 0 && train.smoothing == Smoothing::others && num_classes(trial.model) < 2)
    report("train.smoothing", "the label's class is the only one, so there are no other classes to spread to");
  if (train.batch_size % train.accumulate != 0)
    report("train.accumulate", concat(train.accumulate, " does not divide batch_size ", train.batch_size));

  if (const std::string problem =
          problem_of_early_stop(train.early_stop, rules, trial.dataset.minival, train.ema.decay > 0);
      !problem.empty())
    report("train.early_stop.metric", problem);

  const ScheduleSettings& schedule = train.schedule;
  if (schedule.name == ScheduleName::compound) {
    const auto& words = kWords<ScheduleFactor>;
    bool known = true;
    for (const std::string_view word : split_factors(schedule.factors))
      if (std::find(words.begin(), words.end(), word) == words.end()) {
        report("train.schedule.factors", unknown_word("factor", word, {words.begin(), words.end()}));
        known = false;
      }
    if (const auto problem = problem_of_factors(schedule.factors); known && problem)
      report("train.schedule.factors", *problem);
    if (has_factor(schedule.factors, "linear_warmup") && schedule.warmup_steps == 0 && schedule.warmup_epochs == 0)
      report("train.schedule.factors", "linear_warmup needs warmup_steps or warmup_epochs");
    if (has_factor(schedule.factors, "linear_cooldown") && schedule.cooldown_steps == 0)
      report("train.schedule.factors", "linear_cooldown needs cooldown_steps");
  }

  if (schedule.name == ScheduleName::milestones) {
    const std::vector<double>& epochs = schedule.milestones;
    if (epochs.empty() || epochs.front() <= 0 || !std::is_sorted(epochs.begin(), epochs.end(), std::less_equal<>{}))
      report("train.schedule.milestones", "give rising epochs above 0, such as [100, 150]");
    if (schedule.decay_factor == 1)
      report("train.schedule.decay_factor", "a factor of 1 changes no rate; PyTorch's default is 0.1");
  }

  check_patterns(trial, report);
  if (const auto problem = problem_of_few_shot(trial.eval.fewshot))
    report(concat("eval.fewshot.", problem->list, problem->place ? concat('.', *problem->place) : ""), problem->what);
}

std::optional<FewShotProblem> problem_of_few_shot(const FewShotConfig& config) {
  for (const auto& [list, values] : {std::pair("shots", &config.shots), {"seeds", &config.seeds}})
    for (std::size_t i = 0; i < values->size(); ++i)
      if (std::count(values->begin(), values->end(), (*values)[i]) > 1)
        return FewShotProblem{list, i, concat((*values)[i], " is given twice")};
  if (!config.shots.empty() && config.seeds.empty()) return FewShotProblem{"seeds", {}, "needs at least one seed"};
  return std::nullopt;
}

}  // namespace normlab
