// See programs.h.
#include "freight/backend/gpu/programs.h"

#include "freight/backend/gpu/kernel_text.h"
#include "freight/base/cache.h"
#include "freight/base/error.h"
#include "freight/base/log.h"

namespace freight::gpu {

void Programs::want(const Launch& launch) {
  std::lock_guard lock(mutex_);
  if (handles_.count(launch.entry) == 0) wanted_.emplace(launch.entry, launch.source);
}

void Programs::load() {
  std::lock_guard lock(mutex_);
  const auto path_of = [&](const std::string& name) { return cache_path(cat(options_.driver, "/", name)); };
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
      p.path = path_of(hash_name(options_.identity + p.text) + options_.ending);
      p.code = read_cache(p.path);
    }
    if (!p.code.empty()) read(p);
    if (p.handle) {
      ++read_back_;
      ready(p);
      continue;
    }
    if (!p.code.empty()) logging::info(cat(options_.driver, ": the driver refuses ", p.path, "; compiling again"));
    missing.push_back(std::move(p));
  }
  compile(missing);
  for (const Program& p : missing) {
    if (!p.handle) {
      const std::string path = path_of(cat("failed-", hash_name(p.text), options_.text_ending));
      const bool saved = write_cache(path, p.text);
      fail(ErrorKind::device, options_.driver, "a kernel does not compile; its source is ",
           saved ? path : "not saved, the cache directory cannot be written",
           "; the compiler says: ", p.complaint.substr(0, 1500));
    }
    ++compiled_;
    ready(p);
    if (!p.code.empty()) write_cache(p.path, p.code);
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
