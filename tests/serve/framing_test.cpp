// Where heads and chunked bodies end, without a socket.
#include "freight/serve/framing_internal.h"

#include <gtest/gtest.h>

#include "freight/base/strings.h"

namespace freight::serve {
namespace {

using State = ChunkDecoder::State;

// What a body decodes to; "BROKEN" where it is none, "MORE" where it has not ended. `rest`: bytes behind it.
std::string decode(const std::string& bytes, size_t* rest = nullptr) {
  ChunkDecoder d;
  std::string out;
  size_t i = 0;
  for (; i < bytes.size() && d.state() != State::done && d.state() != State::broken; ++i) {
    if (d.state() == State::data) {
      out += bytes[i];
      d.taken(1);
    } else {
      d.step(bytes[i]);
    }
  }
  if (rest) *rest = bytes.size() - i;
  return d.state() == State::done ? out : d.state() == State::broken ? "BROKEN" : "MORE";
}

TEST(Framing, ChunksAreTakenApart) {
  EXPECT_EQ(decode("0\r\n\r\n"), "");
  EXPECT_EQ(decode("1\r\na\r\nB\r\n01234567890\r\n0\r\n\r\n"), "a01234567890");
  EXPECT_EQ(decode("2\r\n\r\n\r\n0\r\n\r\n"), "\r\n");
  size_t rest = 0;
  EXPECT_EQ(decode("1\r\na\r\n0\r\nA: b\r\n\r\nGET", &rest), "a");
  EXPECT_EQ(rest, 3u);
}

TEST(Framing, EveryPrefixOfABodyWaitsForMore) {
  const std::string body = "3;x=\"y\"\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nT: v\r\n\r\n";
  for (size_t n = 0; n < body.size(); ++n) EXPECT_EQ(decode(body.substr(0, n)), "MORE") << n;
  EXPECT_EQ(decode(body), "abc0123456789abcdef");
}

TEST(Framing, AByteThatIsChangedInAFrameIsNoticed) {
  const std::string body = "3\r\nabc\r\n0\r\n\r\n";
  for (const size_t at : {size_t{1}, size_t{2}, size_t{6}, size_t{7}, size_t{9}, size_t{10}}) {
    for (const char c : {'x', ' ', '\0', '\n', '\r'}) {
      if (body[at] == c) continue;
      std::string changed = body;
      changed[at] = c;
      EXPECT_NE(decode(changed), "abc") << at << " " << static_cast<int>(c);
    }
  }
}

TEST(Framing, LongExtensionsAndTrailersAreRefused) {
  EXPECT_EQ(decode("1;" + std::string(256, 'x') + "\r\na\r\n0\r\n\r\n"), "a");
  EXPECT_EQ(decode("1;" + std::string(257, 'x') + "\r\na\r\n0\r\n\r\n"), "BROKEN");
  EXPECT_EQ(decode("0\r\nX: " + std::string(9000, 'x') + "\r\n\r\n"), "BROKEN");
  EXPECT_EQ(decode("FFFFFFFFFFFFFFFF\r\n"), "BROKEN");
}

TEST(Framing, AHeadKeepsItsFieldsAsTheyCame) {
  const Head h = parse_head("POST /a?b HTTP/1.1\r\nHost: x:1\r\nA:\t b%20c \r\nE:\r\nContent-Length: 12\r\n\r\n");
  EXPECT_EQ(h.fault, "");
  EXPECT_EQ(h.version, "HTTP/1.1");
  ASSERT_EQ(h.fields.size(), 4u);
  EXPECT_EQ(h.fields[1].second, "b%20c");
  EXPECT_EQ(h.fields[2].second, "");
  EXPECT_FALSE(h.chunked);
  EXPECT_TRUE(parse_head("POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: CHUNKED\r\n\r\n").chunked);
}

TEST(Framing, HostsAreComparedWhole) {
  EXPECT_EQ(host_of("Example.org:80"), "example.org");
  EXPECT_EQ(host_of("https://[::1]:80"), "::1");
  EXPECT_EQ(host_of("http://a/b"), "");
  EXPECT_EQ(host_of("null"), "null");
  EXPECT_TRUE(host_allowed("10.0.0.1", "0.0.0.0", {}));
  EXPECT_TRUE(host_allowed("box", "box", {}));
  EXPECT_TRUE(host_allowed("any.example", "box", {"*"}));
  EXPECT_FALSE(host_allowed("notlocalhost", "127.0.0.1", {}));
  EXPECT_FALSE(host_allowed("", "127.0.0.1", {"*"}));
}

}  // namespace
}  // namespace freight::serve
