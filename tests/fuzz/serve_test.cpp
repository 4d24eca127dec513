// Mutated bodies of infer requests through the protocol's parser, as parsers_test.cpp does with files. For a long run:
// FREIGHT_FUZZ_TIMES=1000 with the address sanitizer (CONTRIBUTING.md).
#include <gtest/gtest.h>

#include "freight/serve/protocol.h"
#include "tests/support/files.h"
#include "tests/support/fuzz.h"

namespace freight::serve {
namespace {
using namespace freight::testing;

const char* const kJson =
    R"({"id":"7","inputs":[{"name":"input","datatype":"FP32","shape":[2,3],"data":[[1,2.5,-3e1],[4,5,6]]},)"
    R"({"name":"text","datatype":"BYTES","shape":[1],"data":["a \u00e9"]}],"parameters":{"binary_data_output":true},)"
    R"("outputs":[{"name":"y","parameters":{"classification":2}}]})";

TEST(Fuzz, InferRequestsOfJson) {
  fuzz(kJson, 41, 4000, [](io::ByteView b) { parse_infer(b, {}, "fuzzed"); });
}

TEST(Fuzz, InferRequestsWithBinaryTensors) {
  const std::string json =
      R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[1,4],"parameters":{"binary_data_size":4}},)"
      R"({"name":"b","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}},)"
      R"({"name":"c","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":13}}]})";
  const std::string body = json + "abcd" + std::string(8, '\0') + le(3, 4) + "abc" + le(2, 4) + "de";
  fuzz(body, 42, 4000, [&](io::ByteView b) { parse_infer(b, json.size(), "fuzzed"); });
}

// What comes through holds what it says: nothing behind the parser checks sizes again.
TEST(Fuzz, InferRequestsThatAreTakenAreConsistent) {
  fuzz(kJson, 43, 4000, [](io::ByteView b) {
    for (const NamedTensor& t : parse_infer(b, {}, "fuzzed").inputs) {
      const auto count = static_cast<size_t>(t.shape.numel());
      if (t.type == DataType::bytes ? t.texts.size() != count : t.values.shape() != t.shape) {
        throw std::logic_error("a tensor of another size than its shape");
      }
    }
  });
}

}  // namespace
}  // namespace freight::serve
