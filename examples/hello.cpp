// The smallest program: prints the version and a channels-last layout.
#include <cstdio>

#include "freight/base/shape.h"
#include "freight/base/version.h"

int main() {
  const freight::Shape images{64, 3, 32, 32};  // (N, C, H, W)
  std::printf("freight %s: %s has channels-last strides %s\n", freight::version(), to_string(images).c_str(),
              to_string(freight::channels_last_strides(images)).c_str());
}
