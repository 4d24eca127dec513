// See bench_output.h.
#include "bench_output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "device_list.h"
#include "freight/backend/backend.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "lists.h"
#include "text_table.h"

namespace freight::app {

std::vector<std::string> parse_devices(const std::string& text) {
  const DeviceList list = parse_device_list("--devices", text.empty() ? "all" : text);
  std::vector<std::string> all = list.names;
  if (list.count) {
    all = devices_here();
    if (static_cast<size_t>(*list.count) > all.size()) {
      fail(ErrorKind::device, "--devices", "got ", *list.count, ", this machine has ", all.size(), ": ",
           join(all, ", "));
    }
    all.resize(static_cast<size_t>(*list.count));
  }
  for (const std::string& d : all) {
    if (std::count(all.begin(), all.end(), d) > 1) refuse_twice("--devices", "entries", d);
    backend(d);
  }
  return all;
}

std::map<std::string, double> parse_figures(const std::string& flag, const std::string& text,
                                            const std::vector<std::string>& devices) {
  std::map<std::string, double> all;
  if (text.empty()) return all;
  for (const std::string& part : parse_list(flag, text)) {
    const size_t at = part.rfind('=');
    const std::string device = part.substr(0, at), value = at == std::string::npos ? "" : part.substr(at + 1);
    const double v = parse_number<double>(value).value_or(0);
    if (!(std::isfinite(v) && v > 0)) {
      refuse_text(flag, "DEVICE=NUMBER with a number above 0, like cpu=0.5", part);
    }
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) {
      refuse_name(flag, device, devices);
    }
    all[device] = v;
  }
  return all;
}

void print(const bench::Listing& listing) {
  // Notes have their own line between the rows, whose columns stay aligned over the whole table.
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : listing.rows) {
    if (row.size() > 1) rows.push_back(row);
  }
  const std::vector<std::string> lines = split(text_table(listing.header, rows), '\n');
  std::printf("%s\n", lines[0].c_str());
  size_t next = 1;
  for (const auto& row : listing.rows) std::printf("%s\n", row.size() == 1 ? row[0].c_str() : lines[next++].c_str());
}

void need_writable(const std::string& path) {
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored);
  if (path.empty() || (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there) &&
                       !std::filesystem::is_directory(there))) {
    return;  // a pipe's reader sees the data itself
  }
  const io::AtomicFile opened(path);
}

void write_output(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  io::write_file_atomic(path, std::string_view(text));
  std::fprintf(stderr, "%s: %s\n", path.c_str(), human_bytes(static_cast<double>(text.size())).c_str());
}

}  // namespace freight::app
