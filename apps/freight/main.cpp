// The command `freight`.
#include <cstdio>
#include <cstring>

#include "freight/base/version.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("freight %s\n", freight::version());
    return 0;
  }
  std::fprintf(stderr, "usage: freight --version\n");
  return 2;
}
