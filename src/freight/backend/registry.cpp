// The backends of this build, by name, those of devices, found when asked for, and those that plug-ins add. A backend
// is made on first use and lives until the program ends.
#include <algorithm>
#include <map>
#include <mutex>

#include "freight/backend/backend.h"
#include "freight/backend/cpu/cpu.h"
#include "freight/backend/gpu/cuda/cuda.h"
#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/backend/null/null.h"
#include "freight/backend/ref/ref.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"

namespace freight {

namespace {

struct Row {
  std::string name;
  std::unique_ptr<Backend> (*make)() = nullptr;
  std::unique_ptr<Backend> made;  // null until first used
};

struct Registry {
  Registry() {
    add("cpu", make_cpu_backend);
    add("ref", make_ref_backend);
    add("null", make_null_backend);
  }
  void add(const char* name, std::unique_ptr<Backend> (*make)()) { rows.push_back({name, make, nullptr}); }
  Row* find(const std::string& name) {
    for (Row& row : rows) {
      if (row.name == name) return &row;
    }
    return nullptr;
  }
  std::mutex mutex;
  std::vector<Row> rows;
  std::map<std::string, std::unique_ptr<Backend>> devices;  // "cuda:0"
  // Those of drivers that may be gone before the program ends. They are never destroyed, and found here by whoever
  // looks for leaks.
  std::map<std::string, std::unique_ptr<Backend>>& kept = *new std::map<std::string, std::unique_ptr<Backend>>;
};

Registry& registry() {
  static Registry r;
  return r;
}

// The drivers of devices.
struct DeviceKind {
  std::string name;
  std::unique_ptr<Backend> (*make)(int index);
  bool kept;  // see Registry
};
const DeviceKind kDeviceKinds[] = {{"cuda", make_cuda_backend, false}, {"opencl", make_opencl_backend, true}};

// The number behind "opencl:", 0 for "opencl" alone; false for other names.
bool parse_device(const std::string& name, const std::string& kind, int& index) {
  index = 0;
  if (name == kind) return true;
  if (!starts_with(name, kind + ":")) return false;
  const std::string_view digits = std::string_view(name).substr(kind.size() + 1);
  const std::optional<int> number = parse_number<int>(digits);
  index = number.value_or(0);
  return number && digits[0] != '-';
}

// The device of a kind. Where the environment names it, nobody sees its name in the command or the program, so that the
// message tells where it comes from.
std::unique_ptr<Backend> make(const DeviceKind& kind, int index) {
  try {
    return kind.make(index);
  } catch (const Error& e) {
    const std::string by_environment = env::get("FREIGHT_DEVICE");
    int named = 0;
    if (!parse_device(by_environment, kind.name, named) || named != index) throw;
    throw Error(e.kind(), "FREIGHT_DEVICE=" + by_environment, e.message(), e.where());
  }
}

}  // namespace

Backend& backend(const std::string& name) {
  Registry& r = registry();
  {
    std::lock_guard lock(r.mutex);
    if (Row* row = r.find(name)) {
      if (!row->made) row->made = row->make();
      return *row->made;
    }
    for (const DeviceKind& kind : kDeviceKinds) {
      int index = 0;
      if (!parse_device(name, kind.name, index)) continue;
      std::unique_ptr<Backend>& made = (kind.kept ? r.kept : r.devices)[cat(kind.name, ":", index)];
      if (!made) made = make(kind, index);
      return *made;
    }
  }
  need_backend_name(name);
  fail(ErrorKind::device, "device", "backend '", name, "' is not in this build");
}

void need_backend_name(const std::string& name) {
  const std::vector<std::string> names = backend_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  for (const DeviceKind& kind : kDeviceKinds) {
    int index = 0;
    if (parse_device(name, kind.name, index)) return;
  }
  const bool by_environment = !name.empty() && env::get("FREIGHT_DEVICE") == name;
  fail(ErrorKind::device, by_environment ? "FREIGHT_DEVICE" : "device", "unknown backend: expected one of ",
       join(names, ", "), ", cuda:N, opencl:N, got '", excerpt(name), "'");
}

void register_backend(std::unique_ptr<Backend> added) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const std::string name = added->name();
  if (r.find(name)) fail(ErrorKind::device, "device", "backend '", name, "' is registered already");
  r.rows.push_back({name, nullptr, std::move(added)});
}

std::vector<std::string> backend_names() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<std::string> names;
  for (const Row& row : r.rows) names.push_back(row.name);
  return names;
}

}  // namespace freight
