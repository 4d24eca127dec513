// Specs: files the binary has never seen, inferred sizes, and every kind of bad spec with its message.
#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/models/models.h"
#include "freight/ops/ops.h"

namespace freight::models {
namespace {

std::string with_net(const std::string& net, const std::string& input = "[1,28,28]", const std::string& more = "") {
  return R"({"format":"freight-model-1","name":"t","input":)" + input + more + R"(,"net":)" + net + "}";
}

struct Bad {
  const char* what;
  std::string text;
  std::vector<std::string> parts;  // that the message must have
};

class BadSpec : public ::testing::TestWithParam<Bad> {};

TEST_P(BadSpec, IsAUsageErrorThatNamesWhatIsAtFault) {
  try {
    from_spec(GetParam().text, "dir/net.json");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    const std::string text = e.what();
    EXPECT_NE(text.find("net.json"), std::string::npos) << text;
    for (const std::string& part : GetParam().parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, BadSpec,
    ::testing::Values(
        Bad{"not json", "{", {"not valid JSON"}}, Bad{"not an object", "[1]", {"a spec is a JSON object"}},
        Bad{"no format", "{}", {"'format'", "missing"}},
        Bad{"no input", R"({"format":"freight-model-1","net":[]})", {"'input' is missing"}},
        Bad{"bad input", with_net("[]", "[0,28]"), {"'input'", "[0,28]"}},
        Bad{"huge input", with_net("[]", "[1000000000,1000000000,1000000000]"), {"'input'"}},
        Bad{"no network", R"({"format":"freight-model-1","input":[4]})", {"'net' is missing"}},
        Bad{"unknown key", with_net("[]", "[4]", R"(,"nett":1)"), {"unknown key 'nett'", "did you mean net?"}},
        Bad{"unknown layer",
            with_net(R"([{"type":"Conv2D","out":4,"kernel":3}])"),
            {"'Conv2D'", "did you mean Conv2d?", "(0, "}},
        Bad{"unknown setting",
            with_net(R"([{"type":"Conv2d","out":4,"kernal":3,"kernel":3}])"),
            {"'kernal'", "did you mean kernel?"}},
        Bad{"missing setting",
            with_net(R"([{"type":"Flatten"},{"type":"Linear"}])"),
            {"Linear", "'out' is missing", "(1, "}},
        Bad{"wrong kind", with_net(R"([{"type":"Linear","out":"ten"}])"), {"'out'", "\"ten\"", "expected an integer"}},
        Bad{"negative", with_net(R"([{"type":"Linear","out":-3}])"), {"Linear", "-3"}},
        Bad{"channels differ",
            with_net(R"([{"type":"Conv2d","out":6,"kernel":5},{"type":"Conv2d","in":8,"out":16,"kernel":5}])"),
            {"[2,6,24,24]", "[16,8,5,5]", "(1, net.json"}},
        Bad{"linear differs",
            with_net(R"([{"type":"Flatten"},{"type":"Linear","in":100,"out":10}])"),
            {"f32[2,784]", "f32[10,100]", "(1, "}},
        Bad{"kernel too large",
            with_net(R"([{"name":"stem","type":"Conv2d","out":6,"kernel":50}])"),
            {"[6,1,50,50]", "(stem, "}},
        Bad{"residual differs",
            with_net(R"([{"type":"Residual","main":[{"type":"Conv2d","out":4,"kernel":3,"padding":1}]}])"),
            {"f32[2,4,28,28]", "f32[2,1,28,28]", "Residual"}},
        Bad{"a layer named as the shortcut",
            with_net(R"([{"type":"Residual","main":[{"type":"Conv2d","out":3,"kernel":1,"name":"downsample"}],
                "shortcut":{"type":"Conv2d","out":3,"kernel":1}}])"),
            {"Residual", "'downsample'", "rename it"}},
        Bad{"concat differs",
            with_net(R"([{"type":"Concat","branches":[{"type":"MaxPool2d","kernel":2},{"type":"Identity"}]}])"),
            {"[2,1,14,14]", "[2,1,28,28]"}},
        Bad{"cycle",
            with_net(R"({"ref":"a"})", "[4]", R"(,"defs":{"a":[{"ref":"b"}],"b":[{"ref":"a"}]})"),
            {"cycle: a -> b -> a"}},
        Bad{"no such ref",
            with_net(R"({"ref":"blok"})", "[4]", R"(,"defs":{"block":[]})"),
            {"'blok'", "did you mean block?"}},
        Bad{"two of one name", with_net(R"([{"type":"ReLU","name":"a"},{"type":"ReLU","name":"a"}])"), {"'a'"}},
        Bad{"two of one path",
            with_net(R"([{"type":"Linear","name":"","out":4},{"type":"Linear","name":"","out":4}])", "[4]"),
            {"two weights have the path 'weight'"}},
        Bad{"no path",
            with_net(R"({"type":"LayerScale","shape":4})", "[4]"),
            {"a weight has no path", "give its layer a name"}},
        Bad{"overflow", with_net(R"([{"type":"Linear","out":99999999999999999999}])"), {"'out'"}},
        Bad{"name is no text", R"({"format":"freight-model-1","name":7,"input":[4],"net":[]})", {"'name'", "got 7"}},
        Bad{"name is long",
            R"({"format":"freight-model-1","name":")" + std::string(201, 'n') + R"(","input":[4],"net":[]})",
            {"'name'", "at most 200"}},
        Bad{"padding too large",
            with_net(R"([{"name":"stem","type":"Conv2d","out":4,"kernel":3,"padding":8193}])"),
            {"conv2d", "padding is too large", "8193", "at most 8192", "(stem"}},
        Bad{"stride too large",
            with_net(R"([{"type":"MaxPool2d","kernel":2,"stride":16777217}])"),
            {"stride is too large", "16777217", "at most 16777216"}},
        Bad{"dilation too large",
            with_net(R"([{"type":"Conv2d","out":4,"kernel":3,"padding":8192,"dilation":16777217}])"),
            {"dilation is too large", "16777217"}},
        Bad{"axis too long",
            with_net(R"([{"type":"Conv1d","out":4,"kernel":3}])", "[1,67108865]"),
            {"axis 2 is too long", "67108865"}},
        Bad{"key twice", R"({"format":"freight-model-1","format":"x"})", {"\"format\" appears twice"}},
        Bad{"nested deep", std::string(300'000, '['), {"nested deeper than 200"}},
        Bad{"long name",
            with_net(R"([{"type":"Linear","out":4,")" + std::string(100'000, 'k') + R"(":1}])"),
            {"unknown setting 'kkk", "..."}},
        Bad{"too large", with_net(R"([{"type":"Conv2d","out":1000000000,"kernel":100000}])"), {"weights"}},
        Bad{"too large transposed",
            with_net(R"([{"type":"ConvTranspose2d","out":1000,"kernel":1000000}])"),
            {"weights"}},
        Bad{"probability", with_net(R"([{"type":"Dropout","p":1.5}])"), {"Dropout", "1.5"}},
        Bad{"init", with_net(R"([{"type":"Linear","out":3,"init":"he"}])"), {"unknown init 'he'"}},
        Bad{"bias init", with_net(R"([{"type":"Linear","out":3,"bias_init":"zeros"}])"), {"unknown bias_init 'zeros'"}},
        Bad{"loss", with_net("[]", "[4]", R"(,"loss":"l3")"), {"'loss'", "\"l3\"", "mse"}},
        Bad{"auxiliary without head", with_net(R"([{"type":"Auxiliary"}])"), {"Auxiliary", "'head' is missing"}},
        Bad{"auxiliary weight",
            with_net(R"([{"type":"Auxiliary","weight":-1,"head":[]}])"),
            {"Auxiliary", "-1", "(0, "}},
        Bad{"auxiliary head",
            with_net(
                R"([{"name":"aux","type":"Auxiliary","head":[{"type":"Flatten"},{"type":"Linear","in":9,"out":2}]}])"),
            {"f32[2,784]", "f32[2,9]", "(aux.1, "}},
        Bad{"deep", with_net(std::string(100, '[') + std::string(100, ']')), {"nested deeper"}}),
    [](const auto& tested) {
      std::string name = tested.param.what;
      for (char& c : name) {
        if (c == ' ') c = '_';
      }
      return name;
    });

TEST(Spec, SizesFollowFromTheInput) {
  const Model m = from_spec(with_net(R"([
      {"type":"Conv2d","out":8,"kernel":3,"stride":2},
      {"type":"BatchNorm2d"},
      {"type":"ReLU"},
      {"type":"Residual","main":[{"type":"Conv2d","out":8,"kernel":3,"padding":1},{"type":"GELU"}],"activation":{"type":"SiLU"}},
      {"type":"Concat","branches":[{"type":"Identity"},[{"type":"Conv2d","out":4,"kernel":[1,1]},{"type":"Tanh"}]]},
      {"type":"GroupNorm","groups":3},
      {"type":"Flatten"},
      {"name":"head","type":"Linear","out":5}])"));
  EXPECT_EQ(m.output_type(3), (Type{DType::f32, {3, 5}}));
  // The printed form has all sizes and builds the same net.
  const std::string printed = to_spec(m);
  EXPECT_NE(printed.find(R"({"type":"Linear","name":"head","in":2028,"out":5})"), std::string::npos) << printed;
  EXPECT_EQ(to_spec(from_spec(printed)), printed);
}

TEST(Spec, DefinitionsRepeatWithParametersOfTheirOwn) {
  const Model m = from_spec(with_net(R"([{"ref":"block"},{"ref":"block","name":"second"},{"type":"Linear","out":2}])",
                                     "[8]", R"(,"defs":{"block":[{"type":"Linear","out":8},{"type":"ReLU"}]})"));
  const auto names = m.net->state_dict();
  ASSERT_EQ(names.size(), 6u);
  EXPECT_EQ(names[0].name, "0.0.weight");
  EXPECT_EQ(names[2].name, "second.0.weight");
  EXPECT_NE(names[0].variable.array().to_vector<float>(), names[2].variable.array().to_vector<float>());
}

TEST(Spec, TextModelsTakeIntegers) {
  const Model m =
      from_spec(with_net(R"([{"type":"Embedding","rows":100,"width":16},{"type":"Flatten"},{"type":"Linear","out":4}])",
                         "[20]", R"(,"input_dtype":"i32")"));
  EXPECT_EQ(m.output_type(2), (Type{DType::f32, {2, 4}}));
  EXPECT_EQ(to_spec(from_spec(to_spec(m))), to_spec(m));
}

TEST(Spec, ALayerWithAnEmptyNameLeavesNoTraceInPaths) {
  const Model m = from_spec(with_net(R"([{"type":"Linear","name":"","out":4}])", "[4]"));
  EXPECT_EQ(m.net->state_dict()[0].name, "weight");
  EXPECT_EQ(to_spec(from_spec(to_spec(m))), to_spec(m));
}

}  // namespace
}  // namespace freight::models
