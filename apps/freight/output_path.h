// Checks where a command writes its result, before anything is read: it must not overwrite its own inputs.
#pragma once
#include <string>
#include <vector>

namespace freight::app {

// Throws Error(usage) that names `flag` if `path` is "-", which is not a file, or is one of `inputs` in any spelling.
// An empty path is allowed.
void check_output(const std::string& flag, const std::string& path, const std::vector<std::string>& inputs);

// True if `path` is in the folder or in one below it.
bool lies_in(const std::string& path, const std::string& folder);

}  // namespace freight::app
