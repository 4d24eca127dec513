// What a plugin says of itself; loading them is tested by the command (tests/apps/plugin_test.cpp).
#include "freight/nn/plugin.h"

#include <gtest/gtest.h>

#include "freight/base/version.h"

namespace freight::nn {
namespace {

TEST(Plugin, SaysTheVersionOfTheLibraryWhoseHeadersItWasBuiltWith) { EXPECT_STREQ(kPluginVersion, version()); }

}  // namespace
}  // namespace freight::nn
