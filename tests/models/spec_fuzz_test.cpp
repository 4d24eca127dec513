// Damaged specs: a few thousand variants of a small valid one; only freight::Error comes out, and it names the file.
#include "freight/models/models.h"
#include "tests/support/fuzz.h"

namespace freight::models {
namespace {

TEST(Fuzz, Specs) {
  const std::string valid = R"({"format":"freight-model-1","name":"t","input":[2,8,8],
    "defs":{"b":[{"type":"Conv2d","out":4,"kernel":3,"padding":1,"groups":2},{"type":"BatchNorm2d"},{"type":"GELU"}]},
    "net":[{"ref":"b","name":"x"},{"type":"Residual","main":{"ref":"b"},"activation":{"type":"ReLU"}},
      {"type":"Concat","branches":[{"type":"Identity"},{"type":"Conv2d","out":2,"kernel":[1,1],"init":"he_normal"}]},
      {"type":"MaxPool2d","kernel":2},{"type":"AdaptiveAvgPool2d","output":[1,2]},{"type":"Flatten","start":1},
      {"type":"LayerNorm"},{"type":"Dropout","p":0.1},{"type":"Linear","out":3,"bias":false}]})";
  testing::fuzz(valid, 11, 6000, [](io::ByteView b) {
    const Model m = from_spec(std::string(reinterpret_cast<const char*>(b.data()), b.size()), "fuzzed");
    to_spec(m);
  });
}

}  // namespace
}  // namespace freight::models
