// Runs Python where a test needs it: PYTHON, or python3 of the PATH.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/lab/cli/program.h"

namespace normlab {

/// A script in `folder`, which is its working directory; its standard error follows its output.
inline Finished run_python(const TemporaryFolder& folder, const std::string& script) {
  const char* const python = std::getenv("PYTHON");
  std::ofstream(folder / "script.py") << script;
  const std::string log = (folder / "python.txt").string();
  const int status = std::system(("cd '" + folder.path().string() + "' && " + (python ? python : "python3") +
                                  " script.py >'" + log + "' 2>&1 </dev/null")
                                     .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(log), ""};
}

/// Why a test that needs the module is skipped; "" where it is there.
inline std::string lacks_module(const TemporaryFolder& folder, const std::string& module) {
  if (run_python(folder, "").code != 0) return "skipped: no python3 on this machine";
  if (run_python(folder, "import " + module).code != 0)
    return "skipped: python3 has no module " + module + "; PYTHON=... names another python";
  return "";
}

}  // namespace normlab
