#include "experiments/lab/sweep/progress_log.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"

namespace normlab {
namespace {

using Json = nlohmann::ordered_json;

Json speed(double images_per_second) { return images_per_second > 0 ? number_or_null(images_per_second) : Json(); }

std::string line_of(const char* event, const Json& rest) {
  Json object{{"event", event}, {"time", utc_time()}};
  object.update(rest);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

ProgressLog::ProgressLog(const std::string& path) {
  if (const std::filesystem::path folder = std::filesystem::path(path).parent_path(); !folder.empty())
    make_folders(folder);
  if (path == "-")
    file_ = {stderr, [](std::FILE*) { return 0; }};  // stays open
  else
    file_.reset(std::fopen(path.c_str(), "ae"));
  if (!file_) throw_system_error("open", path, errno);
}

void ProgressLog::begin(const Experiment& experiment, const RunSummary& summary, int workers) {
  put(line_of("begin", {{"experiment", experiment.stem},
                        {"trials", summary.trials},
                        {"finished", summary.all_finished()},
                        {"workers", workers},
                        {"host", host_name()},
                        {"pid", getpid()}}));
}

void ProgressLog::message(const std::string& text) { put(line_of("message", {{"text", text}})); }

void ProgressLog::progress(const Trial& trial, pid_t worker, const WorkerProgress& p) {
  if (!due(trial.id)) return;
  put(line_of("progress", {{"trial", trial.id},
                           {"label", trial.label},
                           {"worker", worker},
                           {"step", p.step},
                           {"steps", p.steps},
                           {"images_per_second", speed(p.images_per_second)},
                           {"loss", number_or_null(p.loss)},
                           {"seconds_left", number_or_null(p.seconds_left)}}));
}

void ProgressLog::trial_end(const Trial& trial, pid_t worker, std::string_view state, const std::string& text) {
  last_.erase(trial.id);
  put(line_of("trial",
              {{"trial", trial.id}, {"label", trial.label}, {"worker", worker}, {"state", state}, {"message", text}}));
}

void ProgressLog::sweep(const SweepProgress& p) {
  if (!due("")) return;
  put(line_of("sweep", {{"finished", p.finished},
                        {"trials", p.total},
                        {"running", p.workers.size()},
                        {"elsewhere", p.elsewhere},
                        {"images_per_second", speed(p.images_per_second)},
                        {"seconds_left", number_or_null(p.seconds_left)}}));
}

void ProgressLog::end(const RunSummary& summary) {
  put(line_of("end", {{"trials", summary.trials},
                      {"finished", summary.all_finished()},
                      {"diverged", summary.diverged},
                      {"failed", summary.failed},
                      {"refused", summary.refused},
                      {"elsewhere", summary.elsewhere},
                      {"stopped", summary.stopped}}));
}

bool ProgressLog::due(const std::string& what) {
  const auto now = Clock::now();
  const auto [found, first] = last_.try_emplace(what, now);
  if (first) return true;
  if (now - found->second < std::chrono::seconds(1)) return false;
  found->second = now;
  return true;
}

void ProgressLog::put(const std::string& line) {
  std::fputs(line.c_str(), file_.get());
  std::fflush(file_.get());
}

}  // namespace normlab
