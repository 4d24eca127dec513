// JSON from outside: what the limits let through, what they refuse, and that every refusal names the file.
#include "freight/io/json_internal.h"

#include <nlohmann/json.hpp>

#include "tests/support/files.h"

namespace freight::io {
namespace {
using namespace freight::testing;
using nlohmann::json;
using nlohmann::ordered_json;

std::string nested(size_t depth, char open = '[', char close = ']') {
  return std::string(depth, open) + std::string(depth, close);
}

TEST(Json, GivesWhatTheLibraryGives) {
  const std::string text =
      R"({"b": [1, -2, 2.5, 18446744073709551615, 1e-3], "a": {"x": null, "y": true}, "": "é\u00e9\n"})";
  EXPECT_EQ(parse_json<json>(text, "f"), json::parse(text));
  const auto ordered = parse_json<ordered_json>(text, "f");
  EXPECT_EQ(ordered, ordered_json::parse(text));
  EXPECT_EQ(ordered.dump(), ordered_json::parse(text).dump());
  EXPECT_EQ(parse_json<json>("7", "f"), 7);
}

TEST(Json, DepthIsTakenAtTheLimitAndRefusedOneAbove) {
  EXPECT_NO_THROW(parse_json<json>(nested(kMaxJsonDepth), "f"));
  const auto refused = [](const std::string& text) {
    expect_error(ErrorKind::checkpoint, {"f: ", "nested deeper than 200"},
                 [&] { parse_json<json>(text, "f", ErrorKind::checkpoint); });
    EXPECT_FALSE(try_parse_json<ordered_json>(text));
  };
  refused(nested(kMaxJsonDepth + 1));
  refused(nested(300'000));
  refused(std::string(300'000, '['));
  std::string objects;
  for (size_t i = 0; i <= kMaxJsonDepth; ++i) objects += "{\"a\":";
  refused(objects);
}

TEST(Json, SizeIsTakenAtTheLimitAndRefusedOneAbove) {
  const std::string full = "[" + std::string(kMaxJsonBytes - 2, ' ') + "]";
  EXPECT_NO_THROW(parse_json<json>(full, "f"));
  expect_error(ErrorKind::usage, {"f: JSON of 16777217 bytes, the limit is 16777216"},
               [&] { parse_json<json>(full + " ", "f"); });
}

TEST(Json, AKeyThatStandsTwiceIsNamed) {
  for (const char* text : {R"({"a":1,"a":2})", R"([{"b":{"a":1,"c":{"a":2},"a":{}}}])"}) {
    expect_error(ErrorKind::usage, {"f: the key \"a\" appears twice in one object"},
                 [&] { parse_json<json>(text, "f"); });
    EXPECT_THROW(parse_json<ordered_json>(text, "f"), Error);
  }
  EXPECT_NO_THROW(parse_json<json>(R"([{"a":1},{"a":{"a":2}}])", "f"));
}

// 200,000 keys were looked through for each other one by one: minutes.
TEST(Json, ManyKeysOfAnObjectThatKeepsTheirOrderTakeNoLongerThanOthers) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += cat(i ? "," : "", "\"", i, "\":0");
  EXPECT_EQ(parse_json<ordered_json>(text + "}", "f").size(), 200'000u);
}

TEST(Json, FaultsSayWhereAndRepeatAtMostALine) {
  const std::pair<std::string, std::string> kCases[] = {
      {"", "line 1, column 1: syntax error while parsing value - unexpected end of input"},
      {"{\n  \"a\": nul }", "line 2, column 11: "},
      {"[1,]", "line 1, column 4: "},
      {"{} {}", "line 1, column 4: "},
      {"[" + std::string(1'000'000, '9') + "]", "number overflow"},
      {"[\"" + std::string(1'000'000, 'x'), "line 1, column "},
      {"\xff", "invalid"},
      {std::string("[\0]", 3), "line 1, column 2"},
  };
  for (const auto& [text, part] : kCases) {
    SCOPED_TRACE(text.substr(0, 40));
    try {
      parse_json<json>(text, "f");
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).rfind("f: not valid JSON at ", 0), 0u) << e.what();
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
      EXPECT_LT(std::string(e.what()).size(), 200u);
    }
  }
  expect_error(ErrorKind::usage, {"the key \"" + std::string(77, 'k') + "...\" appears twice"}, [] {
    const std::string key = "\"" + std::string(1000, 'k') + "\":0";
    parse_json<json>("{" + key + "," + key + "}", "f");
  });
}

TEST(Json, AFileIsReadUnderItsName) {
  const TemporaryDir dir;
  write_file_atomic(dir / "a.json", std::string_view(R"({"a":1})"));
  EXPECT_EQ(read_json<json>(dir / "a.json")["a"], 1);
  write_file_atomic(dir / "b.json", std::string_view("{"));
  expect_error(ErrorKind::checkpoint, {dir / "b.json"},
               [&] { read_json<json>(dir / "b.json", ErrorKind::checkpoint); });
  expect_error(ErrorKind::data, {dir / "none"}, [&] { read_json<json>(dir / "none"); });
}

}  // namespace
}  // namespace freight::io
