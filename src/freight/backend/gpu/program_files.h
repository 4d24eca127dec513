// Compiled programs on disk, under the cache directory: files that a driver's programs are kept in and found again, and
// the texts of those that did not compile.
#pragma once
#include <string>

namespace freight::gpu {

// Empty where there is no such file.
std::string read_program(const std::string& path);
// Whole or not at all. A file that cannot be written costs a compilation, never an error: false.
bool write_program(const std::string& path, const std::string& bytes);

// Saves the text of a program that did not compile in `folder` and throws Error(device) that names the file and says
// what the compiler did. `ending` of the file's name: ".cl".
[[noreturn]] void fail_to_compile(const char* driver, const std::string& folder, const char* ending,
                                  const std::string& source, const std::string& complaint);

}  // namespace freight::gpu
