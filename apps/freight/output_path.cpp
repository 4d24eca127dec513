// See output_path.h.
#include "output_path.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "freight/base/error.h"
#include "freight/base/usage.h"

namespace freight::app {

namespace fs = std::filesystem;

void check_output(const std::string& flag, const std::string& path, const std::vector<std::string>& inputs) {
  need_no_stream(flag, path, "this output goes to a file");
  std::error_code error;
  if (path.empty() || !fs::is_regular_file(path, error)) return;
  for (const std::string& input : inputs) {
    // Standard input may be a file, too.
    if (fs::equivalent(path, input == "-" ? "/dev/stdin" : input, error) && !error) {
      fail(ErrorKind::usage, flag, path, " is also an input (", input, "): use another file");
    }
  }
}

bool lies_in(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error), outer = fs::weakly_canonical(folder, error);
  return !error && std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace freight::app
