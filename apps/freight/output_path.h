// Where a command writes its result: what would destroy what it reads is refused before anything is read.
#pragma once
#include <string>
#include <vector>

namespace freight::app {

// Throws Error(usage) that names `flag` where `path` is "-", which is no file, or one of `inputs` under any spelling.
// An empty path is none.
void check_output(const std::string& flag, const std::string& path, const std::vector<std::string>& inputs);

// True where `path` lies in the folder or one below it.
bool lies_in(const std::string& path, const std::string& folder);

}  // namespace freight::app
