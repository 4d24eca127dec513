// Limits of docs/limits.md that specs have: one below and at the limit is taken, one above is refused by layer path.
#include <gtest/gtest.h>

#include <functional>

#include "freight/base/error.h"
#include "freight/ir/graph.h"
#include "freight/models/models.h"

namespace freight::models {
namespace {

std::string spec(const std::string& net, const std::string& input = "[1,4,4]", const std::string& name = "t") {
  return cat(R"({"format":"freight-model-1","name":")", name, R"(","input":)", input, R"(,"net":)", net, "}");
}
std::string refusal(const std::string& text) {
  try {
    from_spec(text, "net.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
void expect_limit(int64_t limit, const std::vector<std::string>& parts, const std::function<std::string(int64_t)>& of) {
  for (const int64_t n : {limit - 1, limit}) EXPECT_EQ(refusal(of(n)), "") << n;
  const std::string above = refusal(of(limit + 1));
  for (const std::string& part : parts)
    EXPECT_NE(above.find(part), std::string::npos) << part << " in '" << above << "'";
}

// The net itself counts.
TEST(SpecLimits, Layers) {
  expect_limit(20'000, {"net.json", "20000"}, [](int64_t n) {
    std::string net = "[";
    for (int64_t i = 1; i < n; ++i) net += cat(i > 1 ? "," : "", R"({"type":"ReLU"})");
    return spec(net + "]");
  });
}

TEST(SpecLimits, Depth) {
  expect_limit(64, {"net.json", "64"}, [](int64_t n) {
    const auto lists = static_cast<size_t>(n - 1);
    return spec(cat(std::string(lists, '['), R"({"type":"ReLU"})", std::string(lists, ']')));
  });
}

TEST(SpecLimits, ASettingOfALayer) {
  expect_limit(int64_t{1} << 30, {"net.json", "1073741825", "a smaller number"},
               [](int64_t n) { return spec(cat(R"([{"type":"Flatten"},{"type":"Linear","out":)", n, "}]")); });
}

TEST(SpecLimits, StrideDilationAndPaddingOfWindows) {
  const auto conv = [](const char* setting) {
    return [setting](int64_t n) {
      return spec(cat(R"([{"type":"Conv2d","out":1,"kernel":1,")", setting, "\":", n, "}]"));
    };
  };
  expect_limit(16'777'216, {"stride", "16777216"}, conv("stride"));
  expect_limit(16'777'216, {"dilation", "16777216"}, conv("dilation"));
  expect_limit(8192, {"padding", "8192"}, conv("padding"));
}

TEST(SpecLimits, AnAxisWithItsPadding) {
  expect_limit(67'108'864, {"axis 2", "67108864"}, [](int64_t n) {
    return spec(R"([{"type":"Conv1d","out":1,"kernel":3,"padding":1}])", cat("[1,", n - 2, "]"));
  });
}

TEST(SpecLimits, AWindow) {
  const auto conv = [](int64_t kernel, int64_t dilation) {
    return spec(cat(R"([{"type":"Conv1d","out":1,"kernel":)", kernel, R"(,"dilation":)", dilation, "}]"),
                "[1,67108864]");
  };
  expect_limit(67'108'864, {"kernel", "67108864"}, [&](int64_t n) { return conv(n, 1); });
  EXPECT_EQ(refusal(conv(5, 16'777'215)), "");  // of 67,108,861 pixels
  EXPECT_NE(refusal(conv(5, 16'777'216)).find("and a window of 67108865"), std::string::npos);
}

TEST(SpecLimits, TheNameOfAModelHas200Bytes) {
  expect_limit(200, {"'name'", "200 bytes"},
               [](int64_t n) { return spec("[]", "[4]", std::string(static_cast<size_t>(n), 'n')); });
}

TEST(SpecLimits, WeightsOfALayer) {
  const auto of = [](int64_t in, int64_t out) {
    return refusal(spec(cat(R"([{"type":"Linear","out":)", out, "}]"), cat("[", in, "]")));
  };
  EXPECT_EQ(of(1 << 20, (1 << 24) - 1), "");
  EXPECT_EQ(of(1 << 20, 1 << 24), "");  // 2^44
  EXPECT_NE(of(1 << 20, (1 << 24) + 1).find("net.json"), std::string::npos);
}

std::string refused_graph(const std::string& shape) {
  try {
    parse(cat("graph {\n  %0 = input \"x\" : f32[", shape, "]\n  %1 = relu(%0) : f32[", shape, "]\n  return %1\n}\n"),
          "g");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(TensorLimits, ElementsOfAGraphInTextForm) {
  constexpr int64_t kRows = 1 << 21, kColumns = 1 << 22;
  EXPECT_EQ(refused_graph(cat(kRows, ",", kColumns - 1)), "");
  EXPECT_EQ(refused_graph(cat(kRows, ",", kColumns)), "");  // 2^43
  EXPECT_NE(refused_graph(cat(kRows, ",", kColumns + 1)).find("size out of range"), std::string::npos);
}

TEST(TensorLimits, Axes) {
  EXPECT_EQ(refused_graph("2,1,1,1,1,1,1"), "");
  EXPECT_EQ(refused_graph("2,1,1,1,1,1,1,1"), "");
  EXPECT_NE(refused_graph("2,1,1,1,1,1,1,1,1").find("more than 8 entries"), std::string::npos);
}

}  // namespace
}  // namespace freight::models
