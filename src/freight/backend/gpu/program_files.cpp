// See program_files.h.
#include "freight/backend/gpu/program_files.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/base/error.h"

namespace freight::gpu {

std::string read_program(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  return {std::istreambuf_iterator<char>(in), {}};
}

bool write_program(const std::string& path, const std::string& bytes) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const std::string partial = cat(path, ".", getpid());
  {
    std::ofstream out(partial, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out) return false;
  }
  std::filesystem::rename(partial, path, ignored);
  return !ignored;
}

void fail_to_compile(const char* driver, const std::string& folder, const char* ending, const std::string& source,
                     const std::string& complaint) {
  const std::string path = cat(folder, "/failed-", hash_name(source), ending);
  const bool saved = write_program(path, source);
  fail(ErrorKind::device, driver, "a kernel does not compile; its source is ",
       saved ? path : "not saved, the cache directory cannot be written",
       "; the compiler says: ", complaint.substr(0, 1500));
}

}  // namespace freight::gpu
