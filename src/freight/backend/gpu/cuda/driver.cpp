// See driver.h.
#include "freight/backend/gpu/cuda/driver.h"

#include <algorithm>
#include <cstdlib>

#include "freight/base/error.h"
#include "freight/base/library.h"

namespace freight::cuda {

namespace {

std::string why_not_ready(const Driver& d, Status status, const std::string& path) {
  switch (status) {
    case kNoDevice:
      return cat("the driver ", path, " finds no device: there is none, this container has none, or ",
                 "CUDA_VISIBLE_DEVICES hides all");
    case kStubLibrary:
      return cat(path,
                 " is the toolkit's stub, not a driver: install NVIDIA's driver, or remove the stub from the "
                 "loader's path");
    case kSystemDriverMismatch:
      return cat("the driver's library ", path, " does not belong to the kernel's driver: reboot, or give the ",
                 "container the host's library");
    default: return cat("the driver ", path, " does not start: ", describe(d, status));
  }
}

freight::Loaded<Driver> load() {
  freight::Loaded<Driver> l{{}, find_library({"libcuda.so.1"}, LibraryKind::driver)};
  Driver& d = l.functions;
  std::string& why = l.library.why;
#define FREIGHT_CUDA_SYMBOL(name, symbol, ...) #symbol,
  look_up(l.library, "", {FREIGHT_CUDA_FUNCTIONS(FREIGHT_CUDA_SYMBOL)}, &d,
          cat("older than CUDA ", version_text(kOldestDriver), "; install driver 525 or newer"));
#undef FREIGHT_CUDA_SYMBOL
  if (!why.empty()) {
    why = cat(l.library.handle ? "the driver " : "no NVIDIA driver: ", why);
    return l;
  }
  // nvidia-smi's order, unless the user chose: the driver reads it once, here.
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
  // In recurrent layers cuBLAS would choose between two sizes of workspace by which is free: other bits in other runs.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2", 0);
  if (const Status status = d.init(0); status != kSuccess) {
    why = why_not_ready(d, status, l.library.path);
    return l;
  }
  d.driver_version(&d.version);
  if (d.version < kOldestDriver) {
    why = cat("the driver ", l.library.path, " is too old: it is for CUDA ", version_text(d.version), ", expected ",
              version_text(kOldestDriver), " or newer; install driver 525 or newer");
  }
  return l;
}

bool is_lost(Status status) {
  const auto all = {kDeinitialized, kDeviceUnavailable, kEccUncorrectable, kIllegalAddress, kLaunchTimeout};
  return std::find(all.begin(), all.end(), status) != all.end() ||
         (status >= kHardwareStackError && status <= kLaunchFailed);  // what a kernel can do wrong
}

}  // namespace

const Driver* load_driver(std::string& why) {
  static const auto kLoaded = load();
  why = kLoaded.library.why;
  return why.empty() ? &kLoaded.functions : nullptr;
}

const Driver& driver() {
  std::string why;
  if (const Driver* d = load_driver(why)) return *d;
  fail(ErrorKind::device, "cuda", why);
}

std::vector<std::string> names_of(const std::string& library) {
  std::string why;
  const Driver* d = load_driver(why);
  if (d && d->version < 13000) return {library + ".so.12"};
  return {library + ".so.13", library + ".so.12"};
}

std::string version_text(int version) { return cat(version / 1000, ".", version % 1000 / 10); }

std::string describe(const Driver& driver, Status status) {
  const char *name = nullptr, *text = nullptr;
  driver.error_name(status, &name);
  driver.error_text(status, &text);
  return cat(name ? name : "unknown error", text ? ", " : "", text ? text : "", " (", status, ")");
}

void check(const Driver& driver, Status status, const char* what) {
  if (status == kSuccess) return;
  const std::string said = describe(driver, status);
  if (status == kOutOfMemory) fail(ErrorKind::capacity, "cuda", what, ": the device's memory is exhausted: ", said);
  if (is_lost(status)) {
    fail(ErrorKind::device, "cuda", what, ": the device failed for this process: ", said,
         "; earlier checkpoints are intact: run again with --resume auto");
  }
  fail(ErrorKind::device, "cuda", what, ": ", said);
}

}  // namespace freight::cuda
