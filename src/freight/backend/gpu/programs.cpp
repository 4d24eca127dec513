// See programs.h.
#include "freight/backend/gpu/programs.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/log.h"

namespace freight::gpu {

namespace {

// Empty where there is no such file.
std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  return {std::istreambuf_iterator<char>(in), {}};
}

// Whole or not at all. A file that cannot be written costs a compilation, never an error: false.
bool write_file(const std::string& path, const std::string& bytes) {
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

}  // namespace

void Programs::want(const Launch& launch) {
  std::lock_guard lock(mutex_);
  if (handles_.count(launch.entry) == 0) wanted_.emplace(launch.entry, launch.source);
}

void Programs::load() {
  std::lock_guard lock(mutex_);
  const std::string folder = cat(env::cache_dir(), "/", options_.driver, "/");
  std::vector<Program> wanted, missing;
  for (const auto& [entry, text] : wanted_) {
    if (wanted.empty() || !options_.together) wanted.emplace_back().text = options_.dialect;
    wanted.back().entries.push_back(entry);
    wanted.back().text += text;
  }
  wanted_.clear();
  const auto ready = [&](const Program& p) {
    for (const std::string& entry : p.entries) handles_[entry] = p.handle;
  };
  for (Program& p : wanted) {
    if (!options_.ending.empty()) {
      p.path = cat(folder, hash_name(options_.identity + p.text), options_.ending);
      p.code = read_file(p.path);
    }
    if (!p.code.empty()) read(p);
    if (p.handle) {
      ++read_back_;
      ready(p);
      continue;
    }
    if (!p.code.empty()) log::info(cat(options_.driver, ": the driver refuses ", p.path, "; compiling again"));
    missing.push_back(std::move(p));
  }
  compile(missing);
  for (const Program& p : missing) {
    if (!p.handle) {
      const std::string path = cat(folder, "failed-", hash_name(p.text), options_.text_ending);
      const bool saved = write_file(path, p.text);
      fail(ErrorKind::device, options_.driver, "a kernel does not compile; its source is ",
           saved ? path : "not saved, the cache directory cannot be written",
           "; the compiler says: ", p.complaint.substr(0, 1500));
    }
    ++compiled_;
    ready(p);
    if (!p.code.empty()) write_file(p.path, p.code);
  }
}

void* Programs::handle(const std::string& entry) {
  std::lock_guard lock(mutex_);
  if (handles_.count(entry) == 0) load();
  const auto it = handles_.find(entry);
  FREIGHT_CHECK(it != handles_.end(), entry);
  return it->second;
}

}  // namespace freight::gpu
