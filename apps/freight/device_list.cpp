// See device_list.h.
#include "device_list.h"

#include <cctype>

#include "freight/backend/gpu/cuda/cuda.h"
#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"

namespace freight::app {

namespace {

constexpr int64_t kMostDevices = 4096;

int64_t checked_count(const std::string& flag, const std::string& text, int64_t n) {
  if (n >= 1 && n <= kMostDevices) return n;
  refuse_text(flag, cat("a count from 1 to ", kMostDevices), text);
}

}  // namespace

DeviceList parse_device_list(const std::string& flag, const std::string& text) {
  if (const auto n = parse_number<int64_t>(text)) return {.count = checked_count(flag, text, *n)};
  DeviceList list;
  for (std::string part : split(text, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    const size_t star = part.find('*');
    const std::string name = part.substr(0, star);
    if (name.empty()) fail(ErrorKind::usage, flag, "has an empty part: got '", excerpt(text), "'");
    if (const auto first = static_cast<unsigned char>(name[0]); std::isdigit(first) || first == '-' || first == '.') {
      refuse_text(flag, "names like cuda:0,cuda:1, NAME*COUNT, all, or one number", text);
    }
    int64_t times = 1;
    if (star != std::string::npos) {
      const auto n = parse_number<int64_t>(part.substr(star + 1));
      if (!n) refuse_text(flag, "NAME*COUNT, like cpu*4", part);
      times = checked_count(flag, part, *n);
    }
    const std::vector<std::string> named = name == "all" ? devices_here() : std::vector<std::string>{name};
    for (int64_t i = 0; i < times; ++i) list.names.insert(list.names.end(), named.begin(), named.end());
    checked_count(flag, text, static_cast<int64_t>(list.names.size()));
  }
  return list;
}

std::vector<std::string> devices_here() {
  std::vector<std::string> all = {"cpu"};
  const CudaDevices cuda = cuda_devices();
  for (size_t i = 0; i < cuda.devices.size(); ++i) {
    if (cuda.devices[i].why_not.empty()) all.push_back(cat("cuda:", i));
  }
  const size_t opencl = opencl_devices().devices.size();
  for (size_t i = 0; i < opencl; ++i) all.push_back(cat("opencl:", i));
  return all;
}

}  // namespace freight::app
