// The bodies of the Open Inference Protocol: what is read, what is refused and how it is said. No sockets, no models.
#include "freight/serve/protocol.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace freight::serve {
namespace {

using namespace freight::testing;
using Json = nlohmann::json;

InferRequest parse(const std::string& body, std::optional<size_t> json_size = {}) {
  return parse_infer(bytes_of(body), json_size, "infer");
}
std::string one_input(const std::string& members) { return R"({"inputs":[{"name":"input",)" + members + "}]}"; }

TEST(Protocol, NumbersMayBeFlatOrNested) {
  const InferRequest flat = parse(one_input(R"("datatype":"FP32","shape":[2,2],"data":[1,-2.5,3e2,4])"));
  const InferRequest nested = parse(one_input(R"("shape":[2,2],"data":[[1,-2.5],[3e2,4]],"datatype":"FP32")"));
  for (const InferRequest& r : {flat, nested}) {
    ASSERT_EQ(r.inputs.size(), 1u);
    EXPECT_EQ(r.inputs[0].name, "input");
    EXPECT_EQ(r.inputs[0].shape, (Shape{2, 2}));
    EXPECT_EQ(r.inputs[0].values.to_vector<float>(), (std::vector<float>{1, -2.5f, 300, 4}));
    EXPECT_FALSE(r.binary_outputs);
    EXPECT_TRUE(r.outputs.empty());
  }
}

TEST(Protocol, EveryMemberIsRead) {
  const InferRequest r = parse(
      R"({"id":"a7","parameters":{"binary_data_output":true,"sequence_id":3},"inputs":[
          {"name":"t","datatype":"BYTES","shape":[2],"data":["a \u00e9",""],"parameters":{"content_type":"str"}},
          {"name":"n","datatype":"INT32","shape":[3],"data":[-5,-2147483648,2147483647]},
          {"name":"u","datatype":"UINT8","shape":[2],"data":[0,255]}],
        "outputs":[{"name":"y","parameters":{"binary_data":true,"classification":3}},{"name":"z"}]})");
  EXPECT_EQ(r.id, "a7");
  EXPECT_TRUE(r.binary_outputs);
  EXPECT_EQ(r.inputs[0].texts, (std::vector<std::string>{"a \xc3\xa9", ""}));
  EXPECT_EQ(r.inputs[1].values.to_vector<int32_t>(),
            (std::vector<int32_t>{-5, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}));
  EXPECT_EQ(r.inputs[2].values.to_vector<int32_t>(), (std::vector<int32_t>{0, 255}));
  ASSERT_EQ(r.outputs.size(), 2u);
  EXPECT_TRUE(r.outputs[0].binary);
  EXPECT_EQ(r.outputs[0].classification, 3);
  EXPECT_FALSE(r.outputs[1].binary);
}

TEST(Protocol, NumbersOf64BitsAreReadAsTheyAreWritten) {
  const InferRequest r = parse(
      R"({"inputs":[
          {"name":"i","datatype":"INT64","shape":[5],
           "data":[9223372036854775807,-9223372036854775808,9007199254740993,-9007199254740993,1e3]},
          {"name":"d","datatype":"FP64","shape":[3],"data":[0.1,16777217,-1e300]}]})");
  EXPECT_EQ(r.inputs[0].values.to_vector<int64_t>(),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(),
                                  9007199254740993, -9007199254740993, 1000}));
  EXPECT_EQ(r.inputs[1].values.to_vector<double>(), (std::vector<double>{0.1, 16777217, -1e300}));
  const std::string json =
      R"({"inputs":[{"name":"i","datatype":"INT64","shape":[1],"parameters":{"binary_data_size":8}},
          {"name":"d","datatype":"FP64","shape":[1],"parameters":{"binary_data_size":8}}]})";
  const InferRequest b = parse(json + le(9007199254740993, 8) + le(0x3fb999999999999a, 8), json.size());
  EXPECT_EQ(b.inputs[0].values.to_vector<int64_t>(), std::vector<int64_t>{9007199254740993});
  EXPECT_EQ(b.inputs[1].values.to_vector<double>(), std::vector<double>{0.1});
}

TEST(Protocol, BinaryTensorsFollowTheJsonInOrder) {
  const std::string json =
      R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}},
          {"name":"b","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}},
          {"name":"c","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":11}}]})";
  const std::string body = json + "\x01\x02\xff" + le(0x3f800000, 4) + le(3, 4) + "abc" + le(0, 4);
  const InferRequest r = parse(body, json.size());
  EXPECT_EQ(r.inputs[0].values.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 255}));
  EXPECT_EQ(r.inputs[1].values.to_vector<float>(), std::vector<float>{1});
  EXPECT_EQ(r.inputs[2].texts, (std::vector<std::string>{"abc", ""}));
}

struct Refused {
  std::string body;
  std::vector<std::string> says;
};

TEST(Protocol, FaultsAreNamed) {
  const std::string deep(100'000, '[');
  const Refused kCases[] = {
      {"", {"not valid JSON"}},
      {"{", {"not valid JSON at byte"}},
      {"[1]", {"object with \"inputs\"", "array"}},
      {"{}", {"\"inputs\" is missing"}},
      {R"({"inputs":5})", {"\"inputs\" must be a list", "number"}},
      {R"({"inputs":[]})", {"empty"}},
      {R"({"inputs":[7]})", {"must be an object"}},
      {R"({"inputs":[{}]})", {"\"name\" is missing"}},
      {R"({"id":5,"inputs":[]})", {"\"id\" must be a text"}},
      {one_input(R"("datatype":"FP16","shape":[1],"data":[1])"), {"FP16", "FP32, FP64, UINT8, INT32, INT64, BYTES"}},
      {one_input(R"("datatype":"FP32","data":[1])"), {"\"shape\" is missing"}},
      {one_input(R"("datatype":"FP32","shape":[],"data":[1])"), {"1 to 8 sizes"}},
      {one_input(R"("datatype":"FP32","shape":[-1],"data":[1])"), {"integers from 0", "-1"}},
      {one_input(R"("datatype":"FP32","shape":[2000000000,2000000000,2000000000],"data":[1])"), {"too many elements"}},
      {one_input(R"("datatype":"FP32","shape":[2],"data":[1])"), {"[2] needs 2 elements, got 1"}},
      {one_input(R"("datatype":"FP32","shape":[1])"), {"\"data\" is missing"}},
      {one_input(R"("datatype":"FP32","shape":[1],"data":5)"), {"\"data\" is missing, a list"}},
      {one_input(R"("datatype":"FP32","shape":[1],"data":["1"])"), {"expects numbers, got a string"}},
      {one_input(R"("datatype":"FP32","shape":[1],"data":[null])"), {"null", "NaN"}},
      {one_input(R"("datatype":"FP32","shape":[1],"data":[true])"), {"true and false"}},
      {one_input(R"("datatype":"FP32","shape":[1],"data":[{"a":1}])"), {"object"}},
      {one_input(R"("datatype":"FP32","shape":[1],"data":[NaN])"), {"not valid JSON"}},
      {one_input(R"("datatype":"FP32","shape":[1],"data":[1e39])"), {"element 0 is inf"}},
      {one_input(R"("datatype":"FP32","shape":[2,2],"data":[[1,2,3,4]])"), {"nested as [1,4]", "[2,2]", "flat"}},
      {one_input(R"("datatype":"FP32","shape":[4],"data":[[1,2],[3,4]])"), {"nested as [2,2]", "[4]"}},
      {one_input(R"("datatype":"FP32","shape":[2,2],"data":[[1,2,3],[4]])"), {"differ in length or depth"}},
      {one_input(R"("datatype":"FP32","shape":[2,2],"data":[[1,2],3,4])"), {"differ in length or depth"}},
      {one_input(R"("datatype":"FP32","shape":[2,2],"data":[1,2,3,4,[]])"), {"differ in length or depth"}},
      {one_input(R"("datatype":"FP32","shape":[2],"data":[[],1,2])"), {"differ in length or depth"}},
      {one_input(R"("datatype":"BYTES","shape":[2],"data":[["a"],["b"]])"), {"nested as [2,1]", "[2]"}},
      {one_input(R"("datatype":"FP32","shape":[1],"data":[1],"data":[1])"), {"twice"}},
      {one_input(R"("datatype":"FP32","datatype":"FP32","shape":[1],"data":[1])"), {"twice"}},
      {one_input(R"("datatype":"UINT8","shape":[1],"data":[256])"), {"element 0 is 256", "0 to 255"}},
      {one_input(R"("datatype":"UINT8","shape":[1],"data":[0.5])"), {"0.5"}},
      {one_input(R"("datatype":"INT32","shape":[1],"data":[4294967296])"), {"32 bits"}},
      {one_input(R"("datatype":"INT32","shape":[1],"data":[2147483648])"), {"32 bits"}},
      {one_input(R"("datatype":"INT32","shape":[1],"data":[-2147483649])"), {"32 bits"}},
      {one_input(R"("datatype":"INT64","shape":[2],"data":[1,9223372036854775808])"), {"element 1", "64 bits"}},
      {one_input(R"("datatype":"INT64","shape":[1],"data":[-9223372036854775809])"), {"element 0", "64 bits"}},
      {one_input(R"("datatype":"INT64","shape":[1],"data":[1.5])"), {"1.5", "64 bits"}},
      {one_input(R"("datatype":"INT64","shape":[1],"data":[9007199254740993.0])"), {"64 bits"}},
      {one_input(R"("datatype":"BYTES","shape":[1],"data":[1])"), {"expected strings for BYTES"}},
      {one_input(R"("datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4})"), {"0 bytes are left"}},
      {one_input(R"("datatype":"FP32","shape":[1],"parameters":{"binary_data_size":-4})"), {"count of bytes"}},
      {one_input(R"("datatype":"FP32","shape":[1],"parameters":{"shared_memory_region":"x"})"), {"shared memory"}},
      {R"({"inputs":[{"name":"a","datatype":"FP32","shape":[1],"data":[1]}],"outputs":[{"parameters":{}}]})",
       {"\"name\" is missing"}},
      {R"({"inputs":[{"name":"a","datatype":"FP32","shape":[1],"data":[1]}],"outputs":[{"name":"y"},{"name":"y"}]})",
       {"output \"y\" is named twice"}},
      {deep, {"nested deeper"}},
      {one_input(R"("datatype":"FP32","shape":[)" + std::string(1'000'000, '9') + "],\"data\":[1]"), {"overflow"}},
      {one_input(R"("datatype":"FP32","shape":[1],"data":)" + deep), {"nested deeper"}},
  };
  for (const Refused& c : kCases) {
    SCOPED_TRACE(c.body.substr(0, 200));
    std::vector<std::string> says = c.says;
    says.insert(says.begin(), "infer: ");
    expect_error(ErrorKind::usage, says, [&] { parse(c.body); });
  }
}

TEST(Protocol, MessagesRepeatALineOfARequestAtMost) {
  const std::string x(100'000, 'x');
  const auto input = [](const std::string& name, const std::string& rest) {
    return cat(R"({"inputs":[{"name":")", name, "\",", rest, "}]}");
  };
  const std::string fp32 = R"("datatype":"FP32","shape":[1],"data":[1])";
  const std::string kBodies[] = {
      input(x, R"("datatype":"FP32","shape":[],"data":[1])"),
      input(x, R"("datatype":"FP32","shape":[2],"data":[1])"),
      input(x, R"("datatype":"FP32","shape":[1],"data":["a"])"),
      input(x, R"("datatype":"UINT8","shape":[1],"data":[300])"),
      input(x, R"("datatype":"BYTES","shape":[1],"data":[1])"),
      input(x, R"("datatype":"FP32","shape":[2,1],"data":[[1,2]])"),
      input(x, R"("datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4})"),
      input("a", cat(R"("datatype":")", x, R"(","shape":[1],"data":[1])")),
      input("a", cat(R"("datatype":"FP32","shape":[")", x, R"("],"data":[1])")),
      input("a", cat(fp32, ",\"", x, "\":1,\"", x, "\":1")),
      cat(R"({"inputs":[{"name":"a",)", fp32, R"(}],"outputs":[{"name":")", x, R"("},{"name":")", x, R"("}]})"),
  };
  for (const std::string& body : kBodies) {
    const std::string message = message_of([&] { parse(body); });
    EXPECT_NE(message.find("infer: "), message.npos) << message.substr(0, 200);
    EXPECT_LT(message.size(), 400u) << message.substr(0, 200);
  }
}

// A body of 2 MB must not become 100 MB of JSON values.
TEST(Protocol, WideDocumentsAreRefusedEarly) {
  std::string wide = R"({"inputs":[)";
  for (int i = 0; i < 700'000; ++i) wide += "[],";
  expect_error(ErrorKind::usage, {"10000 JSON values"}, [&] { parse(wide); });
  std::string texts;
  for (int i = 0; i < 70'000; ++i) texts += "\"\",";
  expect_error(ErrorKind::usage, {"65536 texts"},
               [&] { parse(one_input(R"("datatype":"BYTES","shape":[70000],"data":[)" + texts + "\"\"]")); });
}

// Below each limit, at it, and one above.
TEST(Protocol, ValuesLevelsAndTextsAreTakenUpToTheirLimits) {
  const auto texts = [](int64_t n) {
    std::string list;
    for (int64_t i = 0; i < n; ++i) list += i ? ",\"\"" : "\"\"";
    return one_input(cat(R"("datatype":"BYTES","shape":[)", n, R"(],"data":[)", list, "]"));
  };
  EXPECT_EQ(parse(texts(65'535)).inputs[0].texts.size(), 65'535u);
  EXPECT_EQ(parse(texts(65'536)).inputs[0].texts.size(), 65'536u);
  expect_error(ErrorKind::usage, {"65536 texts"}, [&] { parse(texts(65'537)); });
  // Extents count as values, and so do names, types and the lists around them.
  const auto refused = [](int64_t outputs) {
    std::string list;
    for (int64_t i = 0; i < outputs; ++i) list += cat(i ? "," : "", R"({"name":"o)", i, "\"}");
    const std::string text =
        cat(R"({"inputs":[{"name":"a","datatype":"FP32","shape":[1],"data":[1]}],"outputs":[)", list, "]}");
    return message_of([&] { parse(text); }).find("10000 JSON values") != std::string::npos;
  };
  int64_t low = 1, high = 10'000;  // values of an output are two: the limit lies between
  ASSERT_FALSE(refused(low));
  ASSERT_TRUE(refused(high));
  while (high - low > 1) (refused((low + high) / 2) ? high : low) = (low + high) / 2;
  EXPECT_GE(low, 4'900);
  EXPECT_LE(high, 5'000);
  const auto deep = [](int64_t levels) {
    return one_input(cat(R"("datatype":"FP32","shape":[1],"data":)", std::string(static_cast<size_t>(levels), '['), "1",
                         std::string(static_cast<size_t>(levels), ']')));
  };
  const auto too_deep = [&](int64_t levels) {
    return message_of([&] { parse(deep(levels)); }).find("16") != std::string::npos;
  };
  EXPECT_FALSE(too_deep(8));
  EXPECT_TRUE(too_deep(17));
}

TEST(Protocol, FaultsOfBinaryPartsAreNamed) {
  const auto binary = [](const std::string& type, int64_t count, const std::string& bytes, int64_t said) {
    const std::string json = one_input(
        cat(R"("datatype":")", type, R"(","shape":[)", count, R"(],"parameters":{"binary_data_size":)", said, "}"));
    return parse(json + bytes, json.size());
  };
  const auto refused = [&](const std::vector<std::string>& says, const std::string& type, int64_t count,
                           const std::string& bytes, int64_t said) {
    expect_error(ErrorKind::usage, says, [&] { binary(type, count, bytes, said); });
  };
  refused({"binary_data_size is 8", "4 bytes are left"}, "FP32", 2, le(0, 4), 8);
  refused({"4 bytes follow"}, "FP32", 1, le(0, 8), 4);
  refused({"3 bytes", "whole number of FP32"}, "FP32", 1, "abc", 3);
  refused({"needs 2 elements, got 1"}, "FP32", 2, le(0, 4), 4);
  refused({"element 1 is nan"}, "FP32", 2, le(0, 4) + le(0x7fc00000, 4), 8);
  refused({"element 0 is inf"}, "FP64", 1, le(0x7ff0000000000000, 8), 8);
  refused({"12 bytes", "whole number of INT64"}, "INT64", 1, le(0, 8) + le(0, 4), 12);
  refused({"length of BYTES is truncated"}, "BYTES", 1, "ab", 2);
  refused({"a text of 9 bytes, but 1 are left"}, "BYTES", 1, le(9, 4) + "a", 5);
  expect_error(ErrorKind::usage, {"Inference-Header-Content-Length is 9", "2 bytes"}, [] { parse("{}", 9); });
}

TEST(Protocol, AnswersAreJsonOrBinaryPerOutput) {
  NamedTensor y{.name = "y", .shape = {1, 2}, .values = Array::of<float>({0.1f, 2.5f}, {1, 2})};
  NamedTensor t{.name = "t", .type = DataType::bytes, .shape = {1, 1}, .texts = {"0.5:1:a \"b\""}};
  const InferResponse plain = write_infer("m", "x\"", {{y, false}, {t, false}});
  EXPECT_FALSE(plain.json_size);
  const Json j = Json::parse(plain.body);
  EXPECT_EQ(j.at("model_name"), "m");
  EXPECT_EQ(j.at("id"), "x\"");
  EXPECT_EQ(j.at("outputs")[0].at("shape"), Json({1, 2}));
  EXPECT_EQ(j.at("outputs")[0].at("data")[0], 0.1);
  EXPECT_EQ(j.at("outputs")[1].at("datatype"), "BYTES");
  EXPECT_EQ(j.at("outputs")[1].at("data")[0], "0.5:1:a \"b\"");
  const InferResponse binary = write_infer("m", "", {{y, true}, {t, true}});
  ASSERT_TRUE(binary.json_size);
  const Json head = Json::parse(binary.body.substr(0, *binary.json_size));
  EXPECT_FALSE(head.contains("id"));
  EXPECT_EQ(head.at("outputs")[0].at("parameters").at("binary_data_size"), 8);
  EXPECT_EQ(head.at("outputs")[1].at("parameters").at("binary_data_size"), 15);
  EXPECT_EQ(binary.body.substr(*binary.json_size + 8), le(11, 4) + "0.5:1:a \"b\"");
  EXPECT_EQ(Json::parse(error_json("a \"b\" \xff")).at("error"), "a \"b\" \xef\xbf\xbd");
}

}  // namespace
}  // namespace freight::serve
