// See shared_rows.h.
#include "freight/tables/shared_rows.h"

#include <algorithm>
#include <numeric>

#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/tables/row_parts.h"
#include "freight/train/config_fields.h"

namespace freight::tables {

namespace {

using Json = nlohmann::json;

Json described(const store::Rows& rows) {
  return {{"rows", rows.count()},
          {"columns", rows.values.width()},
          {"classes", rows.classification()},
          {"weights", rows.weights.has_value()},
          {"groups", rows.groups.has_value()},
          {"ranked", rows.ranked}};
}

store::Rows room_for(const Json& j) {
  const auto n = j.at("rows").get<int64_t>();
  store::Rows rows{Array(DType::f64, {n, j.at("columns").get<int64_t>()}),
                   Array(j.at("classes").get<bool>() ? DType::i64 : DType::f32, {n})};
  if (j.at("weights").get<bool>()) rows.weights = Array(DType::f32, {n});
  if (j.at("groups").get<bool>()) rows.groups = Array(DType::i64, {n});
  rows.ranked = j.at("ranked").get<bool>();
  return rows;
}

void broadcast(job::Ranks& ranks, const store::Rows& rows) {
  const auto one = [&](const Array& a) { ranks.broadcast(a.raw(), a.bytes()); };
  one(rows.values.array());  // the room of those that receive it
  one(rows.labels);
  if (rows.weights) one(*rows.weights);
  if (rows.groups) one(*rows.groups);
}

}  // namespace

void send_fit(job::Ranks& ranks, const train::Config& config, const RowData& data) {
  Json j = {{"config", to_json(config)}, {"target", data.target},          {"classes", data.shape.classes},
            {"columns", Json::array()},  {"train", described(data.train)}, {"held_out", described(data.held_out)}};
  for (const store::Column& c : data.shape.columns) {
    j["columns"].push_back({{"name", c.name}, {"categories", c.words}, {"levels", c.levels}});
  }
  ranks.from_first(j.dump(-1, ' ', false, Json::error_handler_t::replace));
  broadcast(ranks, data.train);
  broadcast(ranks, data.held_out);
}

SharedFit receive_fit(job::Ranks& ranks, const train::Config& config) {
  const auto j = io::parse_json<Json>(ranks.from_first({}), "rank 0");
  SharedFit out{.config = {}, .data = {}};
  train::set_from_json(out.config, j.at("config").get<std::string>(), "rank 0");
  out.config.backend = config.backend;
  out.config.xgboost = config.xgboost;
  out.config.data_dir = config.data_dir;
  out.data.target = j.at("target").get<std::string>();
  out.data.shape.classes = j.at("classes").get<std::vector<std::string>>();
  for (const Json& c : j.at("columns")) {
    out.data.shape.columns.push_back({.name = c.at("name").get<std::string>(),
                                      .words = c.at("categories").get<bool>(),
                                      .levels = c.at("levels").get<std::vector<std::string>>()});
  }
  out.data.train = room_for(j.at("train"));
  out.data.held_out = room_for(j.at("held_out"));
  broadcast(ranks, out.data.train);
  broadcast(ranks, out.data.held_out);
  return out;
}

std::vector<int64_t> shares_of(const store::Rows& rows, int world) {
  std::vector<int64_t> units;  // where one begins, and the end: rows, or groups of a ranking
  if (rows.ranked) {
    units = rows.group_begins();
  } else {
    units.resize(static_cast<size_t>(rows.count()));
    std::iota(units.begin(), units.end(), int64_t{0});
  }
  const auto count = static_cast<int64_t>(units.size());
  units.push_back(rows.count());
  std::vector<int64_t> borders = {0};
  int64_t last = 0;  // the unit of the last border
  for (int64_t r = 1; r < world; ++r) {
    const int64_t row = rows.count() * r / world;
    const auto at = std::lower_bound(units.begin(), units.end() - 1, row) - units.begin();
    const int64_t most = std::max<int64_t>(count - (world - r), 0);  // each of the others has one, too
    last = std::min(std::max<int64_t>(at, last + 1), most);
    borders.push_back(units[static_cast<size_t>(last)]);
  }
  borders.push_back(rows.count());
  return borders;
}

store::Rows rows_between(const store::Rows& rows, int64_t begin, int64_t end) {
  std::vector<int64_t> numbers(static_cast<size_t>(end - begin));
  std::iota(numbers.begin(), numbers.end(), begin);
  return rows_at(rows, numbers);
}

}  // namespace freight::tables
