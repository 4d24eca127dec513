// See device.h.
#include "freight/trace/device.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "freight/backend/backend.h"
#include "freight/base/env.h"
#include "freight/trace/thread_context.h"

namespace freight {

namespace {

trace::Device interned(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> names;  // whose elements do not move
  const std::lock_guard lock(mutex);
  const auto it = names.find(name);
  if (it != names.end()) return &*it;
  need_backend_name(name);
  return &*names.insert(name).first;
}

// "opencl" and "opencl:00" are "opencl:0": one device has one name.
std::string canonical(const std::string& name) {
  if (name == "opencl" || name == "cuda") return name + ":0";
  const size_t colon = name.find(':');
  if (colon == std::string::npos || colon + 1 == name.size()) return name;
  const size_t digit = std::min(name.find_first_not_of('0', colon + 1), name.size() - 1);
  return name.substr(0, colon + 1) + name.substr(digit);
}

trace::Device process_device() {
  static const trace::Device device = [] {
    const std::string name = env::get("FREIGHT_DEVICE");
    // It is not looked for: commands that run nothing work beside a device that is away, operations tell.
    return name.empty() || name == "auto" ? interned("cpu") : interned(canonical(name));
  }();
  return device;
}

}  // namespace

trace::Device trace::device_named(const std::string& name) {
  if (name.empty() || name == "auto") return process_device();
  const Device at = interned(canonical(name));
  backend(*at);  // throws where it is not there
  return at;
}

trace::Device trace::thread_device() {
  const Device device = thread_context().device;
  return device ? device : process_device();
}

DeviceScope::DeviceScope(const std::string& device) : before_(trace::thread_context().device) {
  const trace::Device at = trace::device_named(device);
  backend(*at);  // the process's is not looked for by its name
  trace::thread_context().device = at;
}

DeviceScope::~DeviceScope() { trace::thread_context().device = before_; }

const std::string& current_device() { return *trace::thread_device(); }

}  // namespace freight
