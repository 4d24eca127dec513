// The device that the tests of this folder compute on: FREIGHT_TEST_DEVICE ("cuda:0"), else the first OpenCL device.
// tools/gpu_check runs the same tests on the GPU of a machine that has one.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/base/error.h"

namespace freight::test {

inline bool test_device_is_named() { return std::getenv("FREIGHT_TEST_DEVICE") != nullptr; }
inline std::string test_device() { return test_device_is_named() ? std::getenv("FREIGHT_TEST_DEVICE") : "opencl:0"; }
// Why it cannot be used, "" where it can.
inline std::string why_no_test_device() {
  static const std::string kWhy = [] {
    try {
      backend(test_device());
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  }();
  return kWhy;
}
inline bool test_device_has_f64() {
  const OpenClDevices all = opencl_devices();
  return test_device() != "opencl:0" || (!all.devices.empty() && all.devices[0].f64);
}

// A device that was named and cannot be used is a failure, one that is not there by chance a skipped test.
#define NEEDS_TEST_DEVICE()                                                        \
  if (const std::string why = freight::test::why_no_test_device(); !why.empty()) { \
    if (freight::test::test_device_is_named()) FAIL() << why;                      \
    GTEST_SKIP() << why;                                                           \
  }

}  // namespace freight::test
