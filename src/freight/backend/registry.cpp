// The backends of this build, by name. A backend is made on first use and lives until the program ends.
#include <mutex>

#include "freight/backend/backend.h"
#include "freight/backend/cpu/cpu.h"
#include "freight/backend/null/null.h"
#include "freight/backend/ref/ref.h"
#include "freight/base/error.h"

namespace freight {

namespace {
struct Row {
  const char* name;
  std::unique_ptr<Backend> (*make)();
};
constexpr Row kBackends[] = {
    {"cpu", make_cpu_backend},
    {"ref", make_ref_backend},
    {"null", make_null_backend},
};
}  // namespace

Backend& backend(const std::string& name) {
  static std::mutex mutex;
  static std::unique_ptr<Backend> made[std::size(kBackends)];
  std::lock_guard lock(mutex);
  for (size_t i = 0; i < std::size(kBackends); ++i) {
    if (name != kBackends[i].name) continue;
    if (!made[i]) made[i] = kBackends[i].make();
    return *made[i];
  }
  fail(ErrorKind::device, "device", "unknown backend: got '", name, "', need one of ", join(backend_names(), ", "));
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Row& row : kBackends) names.push_back(row.name);
  return names;
}

}  // namespace freight
