// See modules.h.
#include "freight/backend/gpu/cuda/modules.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "freight/base/strings.h"

namespace freight::cuda {

Modules::Modules(const Driver& driver, const Compiler& compiler, const Target& target, std::string dialect)
    : gpu::Programs({.driver = "cuda",
                     .text_ending = ".cu",
                     .ending = target.portable ? ".ptx" : ".cubin",
                     .identity = cat(target.option(), "\nNVRTC ", version_text(compiler.version()), "\n"),
                     .dialect = std::move(dialect)}),
      driver_(driver),
      compiler_(compiler),
      target_(target) {}

Modules::~Modules() {
  for (const Module module : modules_) driver_.module_unload(module);
}

// Several at once: each takes NVRTC some ten milliseconds on one core.
void Modules::compile(std::vector<Program>& programs) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < programs.size(); i = next++) {
      Compiler::Result result = compiler_.compile(programs[i].text, target_);
      programs[i].code = std::move(result.code);
      programs[i].complaint = std::move(result.log);
    }
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (size_t t = 1; t < std::min(programs.size(), cores); ++t) helpers.emplace_back(work);
  work();
  for (std::thread& t : helpers) t.join();
  for (Program& p : programs) {
    if (!p.code.empty()) check(driver_, place(p), cat("cannot load kernel ", p.entries[0]).c_str());
  }
}

Status Modules::place(Program& p) {
  Module module = nullptr;
  if (const Status status = driver_.module_load(&module, p.code.c_str()); status != kSuccess) return status;
  modules_.push_back(module);
  Function function = nullptr;
  const Status status = driver_.module_function(&function, module, p.entries[0].c_str());
  p.handle = function;
  return status;
}

}  // namespace freight::cuda
