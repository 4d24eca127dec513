// Downloads from a server on the loopback interface that can break off, ignore Range and answer with errors.
#include "freight/io/fetch.h"

#include <gtest/gtest.h>

#include <thread>

#include "freight/io/digest.h"
#include "tests/support/files.h"
#include "tests/support/loopback_server.h"

namespace freight::io {
namespace {
using namespace freight::testing;

std::string fetch_body() {
  std::string out;
  for (int i = 0; i < 20000; ++i) out += cat(i, " ");
  return out;
}
ExpectedFile expected(const std::string& content) {
  return {.sha256 = sha256(bytes_of(content)), .bytes = static_cast<int64_t>(content.size())};
}
const FetchOptions kFast{.tries = 2, .retry_seconds = 0.01};

TEST(Fetch, Sha256OfAFileIsRight) {
  const TemporaryDir dir;
  put(dir / "abc", "abc");
  EXPECT_EQ(sha256_of(dir / "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string large(3 << 20, 'x');  // more than one piece
  put(dir / "large", large);
  EXPECT_EQ(sha256_of(dir / "large"), sha256(bytes_of(large)));
  expect_error(ErrorKind::data, {dir / "none"}, [&] { sha256_of(dir / "none"); });
}

TEST(Fetch, DownloadsChecksAndReportsProgress) {
  const TemporaryDir dir;
  LoopbackServer server({{"/file.bin", {.body = fetch_body()}}});
  FetchOptions o = kFast;
  int64_t last = 0;
  o.progress = [&](const Progress& p) {
    last = p.done;
    EXPECT_EQ(p.file, "file.bin");
  };
  fetch_file({server.url("/file.bin")}, dir / "file.bin", expected(fetch_body()), o);
  EXPECT_EQ(read_text(dir / "file.bin"), fetch_body());
  EXPECT_FALSE(file_exists(dir / "file.bin.part"));
  EXPECT_EQ(last, static_cast<int64_t>(fetch_body().size()));
  // A file that is there already is not fetched again.
  fetch_file({server.url("/file.bin")}, dir / "file.bin", expected(fetch_body()), o);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(Fetch, ContinuesAfterABreak) {
  const TemporaryDir dir;
  LoopbackServer server({{"/file.bin", {.body = fetch_body(), .break_after = 30000}}});
  fetch_file({server.url("/file.bin")}, dir / "file.bin", expected(fetch_body()), kFast);
  EXPECT_EQ(read_text(dir / "file.bin"), fetch_body());
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_NE(server.requests()[1].find("Range: bytes=30000-"), std::string::npos);
}

TEST(Fetch, StartsOverWhereTheServerCannotContinue) {
  const TemporaryDir dir;
  LoopbackServer server({{"/file.bin", {.body = fetch_body(), .break_after = 30000}}});
  server.honours_range = false;
  FetchOptions o = kFast;
  o.tries = 3;
  fetch_file({server.url("/file.bin")}, dir / "file.bin", expected(fetch_body()), o);
  EXPECT_EQ(read_text(dir / "file.bin"), fetch_body());
}

TEST(Fetch, APartOfAnOlderFileIsReplaced) {
  const TemporaryDir dir;
  put(dir / "file.bin.part", "what another version began with");
  LoopbackServer server({{"/file.bin", {.body = fetch_body()}}});
  fetch_file({server.url("/file.bin")}, dir / "file.bin", expected(fetch_body()), kFast);
  EXPECT_EQ(read_text(dir / "file.bin"), fetch_body());
}

TEST(Fetch, AWrongHashIsRefusedAndNothingIsLeft) {
  const TemporaryDir dir;
  LoopbackServer server({{"/file.bin", {.body = fetch_body()}}});
  ExpectedFile wrong = expected(fetch_body());
  wrong.sha256[0] = wrong.sha256[0] == '0' ? '1' : '0';
  expect_error(ErrorKind::data, {"file.bin", "SHA-256 differs", server.url("/file.bin")},
               [&] { fetch_file({server.url("/file.bin")}, dir / "file.bin", wrong, kFast); });
  EXPECT_FALSE(file_exists(dir / "file.bin"));
  EXPECT_FALSE(file_exists(dir / "file.bin.part"));
}

TEST(Fetch, TheFirstDigitsOfAHashAreChecked) {
  const TemporaryDir dir;
  LoopbackServer server({{"/file.bin", {.body = fetch_body()}}});
  const std::string hash = sha256(bytes_of(fetch_body()));
  fetch_file({server.url("/file.bin")}, dir / "good", {.sha256 = hash.substr(0, 8)}, kFast);
  std::string other = hash.substr(0, 8);
  other[7] = other[7] == '0' ? '1' : '0';
  expect_error(ErrorKind::data, {"SHA-256 differs: expected " + other},
               [&] { fetch_file({server.url("/file.bin")}, dir / "bad", {.sha256 = other}, kFast); });
}

TEST(Fetch, TriesTheNextMirrorAfterA404) {
  const TemporaryDir dir;
  LoopbackServer missing, good({{"/file.bin", {.body = fetch_body()}}});
  fetch_file({missing.url("/file.bin"), good.url("/file.bin")}, dir / "file.bin", expected(fetch_body()), kFast);
  EXPECT_EQ(read_text(dir / "file.bin"), fetch_body());
  EXPECT_EQ(missing.requests().size(), 1u);
  FetchOptions o = kFast;
  o.advice = "try elsewhere";
  expect_error(ErrorKind::data, {"404", "try elsewhere"},
               [&] { fetch_file({missing.url("/other")}, dir / "other", {}, o); });
  o.meaning = [](long status) { return status == 404 ? "there is no such thing" : ""; };
  expect_error(ErrorKind::data, {"HTTP 404: there is no such thing"},
               [&] { fetch_file({missing.url("/other")}, dir / "other", {}, o); });
}

TEST(Fetch, OfflineIsSaidClearly) {
  const TemporaryDir dir;
  expect_error(ErrorKind::data, {"offline?", "127.0.0.1:9"},
               [&] { fetch_file({"http://127.0.0.1:9/f"}, dir / "f", {}, kFast); });
  const Document document = fetch_document("http://127.0.0.1:9/f", kFast);
  EXPECT_EQ(document.status, 0);
  EXPECT_NE(document.fault.find("offline?"), std::string::npos) << document.fault;
}

TEST(Fetch, HeadersAreNotSentToTheServerOfARedirect) {
  const TemporaryDir dir;
  LoopbackServer files({{"/file.bin", {.body = fetch_body()}}});
  LoopbackServer hub({{"/resolve", {.status = 302, .location = files.url("/file.bin")}}});
  FetchOptions o = kFast;
  o.headers = {"Authorization: Bearer secret"};
  fetch_file({hub.url("/resolve")}, dir / "file.bin", expected(fetch_body()), o);
  EXPECT_NE(hub.requests().at(0).find("Authorization: Bearer secret"), std::string::npos);
  EXPECT_EQ(files.requests().at(0).find("secret"), std::string::npos) << files.requests()[0];
}

TEST(Fetch, ADocumentIsItsBodyOrTheReason) {
  LoopbackServer server({{"/good", {.body = "{}"}}, {"/bad", {.status = 403}}});
  EXPECT_EQ(fetch_document(server.url("/good"), kFast).body, "{}");
  const Document bad = fetch_document(server.url("/bad"), kFast);
  EXPECT_EQ(bad.status, 403);
  EXPECT_NE(bad.fault.find("403"), std::string::npos);
  EXPECT_EQ(server.requests("/bad").size(), 1u);  // another try would not help
}

TEST(Fetch, TwoDownloadsOfAFileAtTheSameTimeTakeTurns) {
  const TemporaryDir dir;
  LoopbackServer server({{"/file.bin", {.body = fetch_body()}}});
  const auto fetch = [&] { fetch_file({server.url("/file.bin")}, dir / "file.bin", expected(fetch_body()), kFast); };
  std::thread other(fetch);
  fetch();
  other.join();
  EXPECT_EQ(read_text(dir / "file.bin"), fetch_body());
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(dir.entries(), 1u);
}

}  // namespace
}  // namespace freight::io
