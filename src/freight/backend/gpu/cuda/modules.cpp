// See modules.h.
#include "freight/backend/gpu/cuda/modules.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/program_files.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/log.h"

namespace freight::cuda {

namespace {
std::string folder() { return env::cache_dir() + "/cuda"; }
}  // namespace

Modules::Modules(const Driver& driver, const Compiler& compiler, const Target& target, std::string dialect)
    : driver_(driver), compiler_(compiler), target_(target), dialect_(std::move(dialect)) {}

Modules::~Modules() {
  for (const auto& [entry, loaded] : loaded_) driver_.module_unload(loaded.module);
}

void Modules::want(const gpu::Launch& launch) {
  std::lock_guard lock(mutex_);
  if (loaded_.count(launch.entry) == 0) wanted_.emplace(launch.entry, launch.source);
}

void Modules::load() {
  std::lock_guard lock(mutex_);
  load_wanted();
}

void Modules::load_wanted() {
  if (wanted_.empty()) return;
  std::vector<Wanted> kernels, missing;
  const std::string identity = cat(target_.option(), "\nNVRTC ", version_text(compiler_.version()), "\n");
  for (const auto& [entry, text] : wanted_) {
    Wanted k{entry, dialect_ + text, {}};
    k.path = cat(folder(), "/", gpu::hash_name(identity + k.source), target_.portable ? ".ptx" : ".cubin");
    k.code = gpu::read_program(k.path);
    k.from_disk = !k.code.empty();
    (k.from_disk ? kernels : missing).push_back(std::move(k));
  }
  wanted_.clear();
  compile(missing);
  for (Wanted& k : missing) kernels.push_back(std::move(k));
  for (Wanted& k : kernels) place(k);
}

// Several at once: each takes NVRTC some ten milliseconds on one core.
void Modules::compile(std::vector<Wanted>& kernels) const {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < kernels.size(); i = next++) {
      Compiler::Result result = compiler_.compile(kernels[i].source, target_);
      (result.ok ? kernels[i].code : kernels[i].complaint) = result.ok ? std::move(result.code) : std::move(result.log);
    }
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (size_t t = 1; t < std::min(kernels.size(), cores); ++t) helpers.emplace_back(work);
  work();
  for (std::thread& t : helpers) t.join();
  for (const Wanted& k : kernels) {
    if (k.code.empty()) gpu::fail_to_compile("cuda", folder(), ".cu", k.source, k.complaint);
    gpu::write_program(k.path, k.code);
  }
}

void Modules::place(Wanted& kernel) {
  Loaded loaded;
  Status status = driver_.module_load(&loaded.module, kernel.code.c_str());
  if (status != kSuccess && kernel.from_disk) {
    log::info(cat("cuda: the driver refuses ", kernel.path, "; compiling again"));
    std::vector<Wanted> again(1, kernel);
    again[0].code.clear();
    compile(again);
    kernel = std::move(again[0]);
    status = driver_.module_load(&loaded.module, kernel.code.c_str());
  }
  check(driver_, status, cat("cannot load kernel ", kernel.entry).c_str());
  const Status found = driver_.module_function(&loaded.function, loaded.module, kernel.entry.c_str());
  loaded_[kernel.entry] = loaded;
  check(driver_, found, cat("kernel ", kernel.entry).c_str());
}

Function Modules::function(const std::string& entry) {
  std::lock_guard lock(mutex_);
  if (loaded_.count(entry) == 0) load_wanted();
  const auto it = loaded_.find(entry);
  FREIGHT_CHECK(it != loaded_.end(), entry);
  return it->second.function;
}

}  // namespace freight::cuda
