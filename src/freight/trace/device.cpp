// See device.h.
#include "freight/trace/device.h"

#include <mutex>
#include <set>

#include "freight/backend/backend.h"
#include "freight/base/env.h"

namespace freight {

namespace {

thread_local trace::Device t_device = nullptr;  // null outside of any scope

trace::Device interned(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> names;  // whose elements do not move
  const std::lock_guard lock(mutex);
  const auto it = names.find(name);
  if (it != names.end()) return &*it;
  need_backend_name(name);
  return &*names.insert(name).first;
}

trace::Device process_device() {
  static const trace::Device device = [] {
    const std::string name = env::get("FREIGHT_DEVICE");
    return name.empty() || name == "auto" ? interned("cpu") : trace::device_named(name);
  }();
  return device;
}

}  // namespace

trace::Device trace::device_named(const std::string& name) {
  if (name.empty() || name == "auto") return process_device();
  return interned(name == "opencl" || name == "cuda" ? name + ":0" : name);
}

trace::Device trace::thread_device() { return t_device ? t_device : process_device(); }

DeviceScope::DeviceScope(const std::string& device) : before_(t_device) {
  const trace::Device at = trace::device_named(device);
  backend(*at);  // throws where it is not there
  t_device = at;
}

DeviceScope::~DeviceScope() { t_device = before_; }

const std::string& current_device() { return *trace::thread_device(); }

}  // namespace freight
