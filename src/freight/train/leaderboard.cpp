// See leaderboard.h.
#include "freight/train/leaderboard.h"

#include <algorithm>
#include <cmath>

#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::train {

namespace {

std::string four_digits(double v) { return significant(v, 4); }
// The mean, with as many digits as its deviation gives a sense to.
std::string mean_text(double mean, double deviation) {
  const double step = deviation > 0 ? deviation : std::max(std::fabs(mean), 1e-12) * 1e-2;
  const int decimals = std::clamp(2 - static_cast<int>(std::floor(std::log10(step))), 0, 8);
  return cat(fixed(mean, decimals), deviation > 0 ? cat(" +- ", fixed(deviation, decimals)) : std::string());
}
std::string time_text(double seconds) {
  if (seconds >= 1) return cat(four_digits(seconds), " s");
  return seconds >= 1e-3 ? cat(four_digits(seconds * 1e3), " ms") : cat(four_digits(seconds * 1e6), " us");
}

// Members of JSON that may be missing or of another type.
std::string text_at(const nlohmann::json& j, const char* key) {
  const auto at = j.find(key);
  return at == j.end() || !at->is_string() ? std::string() : at->get<std::string>();
}
double number_at(const nlohmann::json& j, const char* key) {
  const auto at = j.find(key);
  return at == j.end() || !at->is_number() ? 0 : at->get<double>();
}
int64_t whole_at(const nlohmann::json& j, const char* key) {
  const double v = number_at(j, key);
  return std::fabs(v) < 9e15 ? static_cast<int64_t>(v) : 0;
}
bool flag_at(const nlohmann::json& j, const char* key, bool missing) {
  const auto at = j.find(key);
  return at == j.end() || !at->is_boolean() ? missing : at->get<bool>();
}
nlohmann::json list_at(const nlohmann::json& j, const char* key) {
  const auto at = j.find(key);
  return at == j.end() || !at->is_array() ? nlohmann::json::array() : *at;
}

}  // namespace

std::string Leaderboard::best() const {
  if (standings.empty()) return {};
  const ModelScore& first = standings.front();
  return cat(first.learner, first.settings.empty() ? "" : " ", first.settings);
}

std::vector<std::string> lines_of(const Leaderboard& board) {
  std::vector<std::vector<std::string>> table = {{"model", board.metric, "folds", "rows", "fit", "a row", "size", ""}};
  for (const ModelScore& s : board.standings) {
    table.push_back({s.learner, mean_text(s.mean, s.deviation), cat(s.folds), with_commas(s.rows),
                     time_text(s.fit_seconds), time_text(s.row_seconds), human_bytes(s.bytes), s.settings});
  }
  std::vector<size_t> widths(table[0].size());
  for (const auto& row : table) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::vector<std::string> lines;
  for (const auto& row : table) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - row[c].size(), ' ');
      const bool words = c == 0 || c + 1 == row.size();
      line += cat(c == 0 ? "" : "  ", words ? row[c] : gap, words ? gap : row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  for (const std::string& reason : board.left_out) lines.push_back(cat("skipped   ", reason));
  return lines;
}

std::string to_json(const Leaderboard& board) {
  nlohmann::ordered_json j = {{"metric", board.metric},
                              {"higher_is_better", board.higher},
                              {"folds", board.folds},
                              {"seconds", board.seconds},
                              {"standings", nlohmann::ordered_json::array()},
                              {"left_out", board.left_out}};
  for (const ModelScore& s : board.standings) {
    j["standings"].push_back({{"learner", s.learner},
                              {"settings", s.settings},
                              {"mean", s.mean},
                              {"deviation", s.deviation},
                              {"folds", s.folds},
                              {"rows", s.rows},
                              {"whole", s.whole},
                              {"fit_seconds", s.fit_seconds},
                              {"row_seconds", s.row_seconds},
                              {"bytes", s.bytes}});
  }
  return j.dump();
}

Leaderboard leaderboard_in(const std::string& text) {
  const auto j = io::parse_json<nlohmann::json>(text, "leaderboard");
  Leaderboard board;
  board.metric = text_at(j, "metric");
  board.higher = flag_at(j, "higher_is_better", false);
  board.folds = whole_at(j, "folds");
  board.seconds = number_at(j, "seconds");
  for (const nlohmann::json& s : list_at(j, "standings")) {
    if (!s.is_object()) continue;
    board.standings.push_back({.learner = text_at(s, "learner"),
                               .settings = text_at(s, "settings"),
                               .mean = number_at(s, "mean"),
                               .deviation = number_at(s, "deviation"),
                               .folds = whole_at(s, "folds"),
                               .rows = whole_at(s, "rows"),
                               .whole = flag_at(s, "whole", true),
                               .fit_seconds = number_at(s, "fit_seconds"),
                               .row_seconds = number_at(s, "row_seconds"),
                               .bytes = number_at(s, "bytes")});
  }
  for (const nlohmann::json& why : list_at(j, "left_out")) {
    if (why.is_string()) board.left_out.push_back(why.get<std::string>());
  }
  return board;
}

}  // namespace freight::train
