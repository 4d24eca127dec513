// docs/limits.md says what the program does: the figures of headers, and the defaults of flags.
#include <gtest/gtest.h>

#include "freight/base/cache.h"
#include "freight/base/shape.h"
#include "freight/base/strings.h"
#include "freight/data/table_rows_internal.h"
#include "freight/data/text.h"
#include "freight/io/codecs_internal.h"
#include "freight/io/json_internal.h"
#include "freight/io/pickle_internal.h"
#include "freight/serve/server.h"
#include "freight/tables/ubjson_check.h"
#include "run_command.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

std::string mebibytes(size_t bytes) { return cat(bytes >> 20, " MiB"); }

// The row of the table that begins so.
std::string row_of(const std::string& what) {
  for (const std::string& line : split(read_file(source_dir() + "/docs/limits.md"), '\n')) {
    if (starts_with(line, "| " + what)) return line;
  }
  return "";
}

TEST(Limits, TheDocumentHasTheFiguresOfTheProgram) {
  const serve::ServerOptions server;
  const std::pair<const char*, std::vector<std::string>> kRows[] = {
      {"JSON: specs", {mebibytes(io::kMaxJsonBytes), cat(io::kMaxJsonDepth, " levels")}},
      {"pickle of a PyTorch file",
       {mebibytes(io::kMaxPickleBytes), with_commas(io::kMaxPickleValues), cat(" ", io::kMaxPickleDepth, " deep")}},
      {"an image ", {with_commas(io::kMaxPixels)}},
      {"columns of a table", {with_commas(static_cast<int64_t>(data::kMostTableColumns))}},
      {"a row of a table", {mebibytes(data::kLongestTableRow)}},
      {"lists within each other in stored trees", {cat(" ", tables::kMostUbjsonDepth, ",")}},
      {"a document", {with_commas(static_cast<int64_t>(data::kMaxDocumentBytes))}},
      {"a file of the cache", {mebibytes(kMaxCacheFile)}},
      {"axes of a tensor", {cat(" ", Shape::kMaxRank, " ")}},
      {"connections", {cat(server.max_connections)}},
      {"body of a request", {mebibytes(server.max_body_bytes)}},
      {"bodies of all", {mebibytes(server.max_held_bytes)}},
      {"head of a request", {cat(server.max_header_bytes >> 10, " KiB")}},
      {"a request to come in", {cat(server.timeout_seconds, " s")}},
      {"samples of one inference request", {with_commas(server.max_samples)}},
      {"samples that run together", {cat(" ", server.max_batch, " ")}},
  };
  for (const auto& [what, figures] : kRows) {
    const std::string row = row_of(what);
    EXPECT_FALSE(row.empty()) << what;
    for (const std::string& figure : figures) EXPECT_NE(row.find(figure), std::string::npos) << figure << "\n" << row;
  }
}

TEST(Limits, EveryFlagOfTheDocumentIsThereWithItsDefault) {
  const std::string help = run_freight({"serve", "--help", "all"}).out;
  const std::string train = run_freight({"train", "--help", "all"}).out;
  const std::pair<const char*, const char*> kDefaults[] = {
      {"--max-connections", "(default 256)"}, {"--max-body-mb", "(default 32)"},  {"--max-held-mb", "(default 256)"},
      {"--max-header-kb", "(default 16)"},    {"--timeout-s", "(default 30"},     {"--drain-s", "(default 30"},
      {"--max-batch", "(default 32)"},        {"--max-samples", "(default 8192)"}};
  for (const auto& [flag, text] : kDefaults) {
    const size_t at = help.find(flag);
    ASSERT_NE(at, std::string::npos) << flag;
    const size_t next = help.find("\n  ", help.find(text, at));
    EXPECT_LT(help.find(text, at), next) << flag << "\n" << help;
  }
  for (const char* flag : {"--device-memory", "--fit", "--batch-size", "--epochs"}) {
    EXPECT_NE(train.find(flag), std::string::npos) << flag;
  }
}

// Below each limit, at it, and one above.
TEST(Limits, CountsOfTheCommandLine) {
  const auto text = [](int64_t n) { return std::to_string(n); };
  const struct {
    std::vector<std::string> args;
    int code;
  } kCases[] = {
      {{"models", "show", "mlp", "-b", text((1 << 24) - 1)}, 0},
      {{"models", "show", "mlp", "-b", text(1 << 24)}, 0},
      {{"models", "show", "mlp", "-b", text((1 << 24) + 1)}, 2},
      {{"models", "show", "mlp", "-b", "9223372036854775807"}, 2},
      {{"train", "--epochs", "999999999", "--print-config"}, 0},
      {{"train", "--epochs", "1000000000", "--print-config"}, 0},
      {{"train", "--epochs", "1000000001", "--dry-run"}, 2},
      {{"train", "--epochs", "9223372036854775807", "--dry-run"}, 2},
      {{"plan", "--model", "mlp", "-b", "9223372036854775807"}, 2},
      {{"train", "--max-steps", text((int64_t{1} << 40) - 1), "--print-config"}, 0},
      {{"train", "--max-steps", text(int64_t{1} << 40), "--print-config"}, 0},
      {{"train", "--max-steps", text((int64_t{1} << 40) + 1), "--dry-run"}, 2},
      {{"train", "--devices", "63", "-b", "128", "--dry-run"}, 0},
      {{"train", "--devices", "64", "-b", "128", "--dry-run"}, 0},
      {{"train", "--devices", "65", "-b", "128", "--dry-run"}, 2},
      {{"plan", "--model", "mlp", "--per-device-batch-size", "1", "--on", "A100 SXM4 80GB", "--world", "1,999999"}, 0},
      {{"plan", "--model", "mlp", "--per-device-batch-size", "1", "--on", "A100 SXM4 80GB", "--world", "1,1000000"}, 0},
      {{"plan", "--model", "mlp", "--per-device-batch-size", "1", "--on", "A100 SXM4 80GB", "--world", "1,1000001"}, 2},
  };
  for (const auto& c : kCases) {
    const Ran r = run_freight(c.args);
    EXPECT_EQ(r.code, c.code) << join(c.args, " ") << "\n" << r.err;
  }
}

}  // namespace
}  // namespace freight::test
