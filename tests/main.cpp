#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "core/cpu/blas.h"
#include "core/error.h"
#include "tests/devices.h"

namespace {

std::vector<std::string> failures;  // a line for each test case that failed
std::vector<std::string> times;     // a line for each test case

/// Notes how long each test case took, and of those that fail the first failed check, so that a long log can end with
/// them.
class FailureList : public doctest::IReporter {
 public:
  explicit FailureList(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& test) override {
    test_ = &test;
    first_.clear();
  }
  void log_assert(const doctest::AssertData& check) override {
    if (!check.m_failed) return;
    const doctest::String& seen = check.m_threw ? check.m_exception : check.m_decomp;
    std::ostringstream what;  // of CHECK_MESSAGE the message first: a comparison of objects shows no values
    for (int i = 0; i < get_num_active_contexts(); ++i) {
      get_active_contexts()[i]->stringify(&what);
      what << ": ";
    }
    what << (seen.size() > 0 ? seen.c_str() : check.m_expr);
    note(check.m_file, check.m_line, what.str());
  }
  void log_message(const doctest::MessageData& message) override {
    if (message.m_severity != doctest::assertType::is_warn)
      note(message.m_file, message.m_line, message.m_string.c_str());
  }
  void test_case_exception(const doctest::TestCaseException& exception) override {
    note(test_->m_file.c_str(), static_cast<int>(test_->m_line), exception.error_string.c_str());
  }
  void test_case_end(const doctest::CurrentTestCaseStats& end) override {
    times.push_back("time: " + std::to_string(end.seconds) + " " + test_->m_name);
    if (!end.testCaseSuccess) failures.push_back(std::string("failed: ") + test_->m_name + " (" + first_ + ")");
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  void note(const char* file, int line, std::string what) {
    const std::lock_guard lock(mutex_);
    if (!first_.empty()) return;
    for (char& c : what)
      if (c == '\n') c = ' ';
    first_ = std::string(file) + ":" + std::to_string(line) + ": " + what.substr(0, 300);
  }
  const doctest::TestCaseData* test_ = nullptr;
  std::string first_;
  std::mutex mutex_;
};
DOCTEST_REGISTER_LISTENER("failure_list", 1, FailureList);

}  // namespace

int main(int argc, char** argv) {
  normlab::clear_blas_environment();  // as the program does
  doctest::Context context(argc, argv);
  const int failed = context.run();
  try {
    if (!context.shouldExit()) std::cout << normlab::devices_report() << "\n";
  } catch (const normlab::Error& error) {  // a device that NORMLAB_TEST_DEVICES asks for
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
  for (const std::string& line : failures) std::cout << line << "\n";
  if (std::getenv("NORMLAB_TEST_TIMES") != nullptr)
    for (const std::string& line : times) std::cout << line << "\n";
  return failed;
}
