// What a plugin says of itself; loading them is tested by the command (tests/apps/plugin_test.cpp).
#include "freight/nn/plugin.h"

#include <gtest/gtest.h>

#include <fstream>

#include "freight/base/version.h"
#include "tests/support/files.h"

namespace freight::nn {
namespace {

TEST(Plugin, SaysTheVersionOfTheLibraryWhoseHeadersItWasBuiltWith) { EXPECT_STREQ(kPluginVersion, version()); }

TEST(Plugin, HalfACopyOfALibraryIsRefusedBeforeItIsLoaded) {
  const std::string whole = freight::testing::read_text("/proc/self/exe");
  const freight::testing::TemporaryDir dir;
  for (const size_t size : {size_t{40}, size_t{64}, size_t{1000}, whole.size() / 2, whole.size() - 1}) {
    const std::string path = dir / cat("libpart", size, ".so");
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    freight::testing::expect_error(ErrorKind::usage, {path, "is cut off: expected ", cat(", got ", size, " bytes")},
                                   [&] { load_plugin(path); });
  }
}

}  // namespace
}  // namespace freight::nn
