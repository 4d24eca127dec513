// The tables of docs/train.md and docs/options.md are those of the program: exit codes; options and environment
// variables.
// FREIGHT_WRITE_DOCS=1 writes them anew.
#include <gtest/gtest.h>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/train/config_fields.h"
#include "tests/support/document.h"
#include "tests/support/folders.h"

namespace freight::train {
namespace {

const std::string kPage = source_dir() + "/docs/train.md";
const std::string kOptions = source_dir() + "/docs/options.md";

using freight::testing::cell;

std::string default_of(const Field& f) {
  const Config config;
  return std::visit(
      [&](auto member) -> std::string {
        const auto& value = config.*member;
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) return value;
        if constexpr (std::is_same_v<T, bool>) return value ? "on" : "off";
        if constexpr (!std::is_same_v<T, std::string> && !std::is_same_v<T, bool>) return cat(value);
      },
      f.member);
}

std::string options_table() {
  std::string out, group;
  for (const Field& f : config_fields()) {
    if (group != f.group) {
      group = f.group;
      out += cat(out.empty() ? "" : "\n", "### ", group, "\n\n| flag | key | default | meaning |\n|---|---|---|---|\n");
    }
    std::string flags = cat("`", f.names, "`");
    for (const std::string& alias : f.aliases) flags += cat(" (`", alias, "`)");
    const std::string shown = default_of(f), key = f.key;
    out += cat("| ", cell(flags), f.may_change ? " ↻" : "", " | ", key.empty() ? "" : cat("`", key, "`"), " | ", shown,
               " | ", cell(f.help), " |\n");
  }
  return out;
}

std::string variables_table() {
  std::string out = "| variable | meaning | flag |\n|---|---|---|\n";
  for (const env::Variable& v : env::variables()) {
    const std::string flag = v.flag;
    out += cat("| `", v.name, "` | ", cell(v.meaning), " | ", flag.empty() ? "" : cat("`", flag, "`"), " |\n");
  }
  return out;
}

std::string exit_codes_table() {
  const std::vector<std::pair<ErrorKind, const char*>> kinds = {
      {ErrorKind::runtime, "failure at run time: reading or writing a file, a full disk, a bug in Freight"},
      {ErrorKind::usage, "wrong arguments, a spec or shapes that do not fit"},
      {ErrorKind::data, "a data file is missing, damaged or inconsistent"},
      {ErrorKind::device, "the device is missing, or cannot do what was asked"},
      {ErrorKind::capacity, "does not fit into memory"},
      {ErrorKind::diverged, "a loss, weight or state is NaN or infinite"},
      {ErrorKind::peer_lost, "another process of the run was lost"},
      {ErrorKind::checkpoint, "a checkpoint or model file is damaged or does not fit"},
      {ErrorKind::verification, "`verify` found a difference"},
  };
  std::string out = "| exit code | meaning |\n|---|---|\n| 0 | success |\n";
  for (const auto& [kind, text] : kinds) out += cat("| ", static_cast<int>(kind), " | ", text, " |\n");
  return out;
}

TEST(TrainDocument, TablesAreThoseOfTheProgram) {
  freight::testing::expect_tables(kPage, {{"exit codes", exit_codes_table()}});
  freight::testing::expect_tables(kOptions, {{"options", options_table()}, {"variables", variables_table()}});
}

}  // namespace
}  // namespace freight::train
