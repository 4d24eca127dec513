// See model.h.
#include "freight/serve/model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/data/cells.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/store/column_gaps.h"
#include "freight/store/table_rows.h"

namespace freight::serve {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostLevels = 200;  // of a column, offered by the page

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

// The double with the same shortest decimal form as the float.
double as_printed(float v) { return parse_number<double>(cat(v)).value_or(v); }

std::string checked_name(std::string name, const store::Bundle& bundle) {
  if (name.empty()) name = bundle.name();
  const bool sound = name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
                         std::string::npos &&
                     !name.empty() && name[0] != '.';
  if (!sound) {
    fail(ErrorKind::usage, name, "is not a name for a served model: expected letters, digits, '_', '-' and '.'; ",
         "give another as NAME=FILE");
  }
  return name;
}

Json shape_json(const Shape& sample) {
  Json j = Json::array({-1});
  for (const int64_t extent : sample) j.push_back(extent);
  return j;
}

// Sample `i` along the first axis.
Array cut(const Array& all, int64_t i) {
  Shape shape = all.shape();
  shape.erase(0);
  Array out(all.dtype(), shape);
  std::memcpy(out.raw(), static_cast<const char*>(all.raw()) + static_cast<size_t>(i) * out.bytes(), out.bytes());
  return out;
}

// Table models compute in doubles: an integer that is not a double would silently become its neighbor.
void need_doubles(const NamedTensor& t, const std::string& name) {
  if (t.type != DataType::int64) return;
  for (int64_t i = 0; i < t.values.numel(); ++i) {
    const int64_t v = t.values.data<int64_t>()[i];
    if (std::holds_alternative<double>(store::cell_of(v))) continue;
    fail(ErrorKind::usage, name, "input \"", excerpt(t.name), "\": element ", i, " is ", v,
         ", which no double equals, and the model computes in doubles: send the nearest FP64 value");
  }
}

// Element i of an input as a cell. A float becomes the number with its shortest digits: 0.1 is the double that a file
// with 0.1 contains, and not the double next to the float.
store::Cell cell_in(const NamedTensor& t, size_t i) {
  switch (t.type) {
    case DataType::fp32: return as_printed(t.values.data<float>()[i]);
    case DataType::fp64: return t.values.data<double>()[i];
    case DataType::uint8: return static_cast<double>(t.values.data<uint8_t>()[i]);
    case DataType::int32: return static_cast<double>(t.values.data<int32_t>()[i]);
    case DataType::int64: return store::cell_of(t.values.data<int64_t>()[i]);
    case DataType::bytes: break;
  }
  return t.texts[i];
}

// A member of a JSON object as a cell; its numbers are doubles, or integers that doubles may not represent.
store::Cell cell_in(const Json& value) {
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return value.get<double>();
  const bool larger = value.is_number_unsigned() && value.get<uint64_t>() > std::numeric_limits<int64_t>::max();
  return value.is_number() && !larger ? store::cell_of(value.get<int64_t>()) : value.dump();
}

// The kind of a column's field on the page's form.
const char* kind_of(const store::Column& column) {
  if (column.words) return "categories";
  if (column.date()) return "date";
  return column.takes_texts() ? "yes or no" : "numbers";
}

}  // namespace

ServedModel::ServedModel(std::string name, store::Bundle bundle, const deploy::PredictorOptions& options,
                         int64_t max_samples)
    : name_(checked_name(std::move(name), bundle)),
      predictor_(std::move(bundle), options),
      max_samples_(std::max(max_samples, options.batch_size)) {
  describe();
}

// Limits the samples of a request. A row of a table may be one byte of the body, which compresses to a thousandth, but
// needs hundreds of bytes of memory; and all other requests wait while the rows are computed.
void ServedModel::check_count(int64_t samples, const std::string& name) const {
  if (samples <= max_samples_) return;
  fail(ErrorKind::usage, name, "expected at most ", max_samples_, ", got ", samples,
       " samples in one request: send them in several, or start the server with a larger --max-samples");
}

void ServedModel::describe() {
  const store::Bundle& b = predictor_.bundle();
  const Shape& input = b.preprocessing.input;
  Json ins = Json::array(), config_ins = Json::array(), columns = Json::array(), fields = Json::array();
  const auto take = [&](const std::string& name, const std::string& type, const Json& shape, const Json& dims) {
    ins.push_back({{"name", name}, {"datatype", type}, {"shape", shape}});
    config_ins.push_back(
        {{"name", name}, {"data_type", type == "BYTES" ? "TYPE_STRING" : "TYPE_" + type}, {"dims", dims}});
  };
  for (const store::Column& c : b.columns) {
    const std::string& source = c.source_name();
    // Another part of the same date.
    if (std::find(columns.begin(), columns.end(), source) != columns.end()) continue;
    columns.push_back(source);
    Json levels = Json::array();
    for (size_t i = 0; i < std::min(c.levels.size(), kMostLevels); ++i) levels.push_back(c.levels[i]);
    fields.push_back({{"name", source}, {"kind", kind_of(c)}, {"categories", c.levels.size()}, {"levels", levels}});
    take(source, c.takes_texts() ? "BYTES" : "FP64", {-1}, {1});  // table models compute in doubles
  }
  if (!reads_rows()) {
    const Json shape = text() ? Json::array({-1}) : shape_json(input);
    take(text() ? "text" : "input", text() ? "BYTES" : "FP32", shape, text() ? Json::array({1}) : Json(input.vector()));
  }
  const Json out = {{"name", output_name()}, {"datatype", "FP32"}, {"shape", {-1, predictor_.outputs()}}};
  metadata_ = dump({{"name", name_},
                    {"versions", {"1"}},
                    {"platform", "freight"},
                    {"inputs", ins},
                    {"outputs", Json::array({out})}});
  config_ =
      dump({{"name", name_},
            {"platform", "freight"},
            {"backend", "freight"},
            {"max_batch_size", predictor_.options().batch_size},
            {"input", config_ins},
            {"output",
             Json::array({{{"name", output_name()}, {"data_type", "TYPE_FP32"}, {"dims", {predictor_.outputs()}}}})}});
  Json classes = Json::array();
  if (predictor_.probabilities()) {
    for (int64_t i = 0; i < predictor_.outputs(); ++i) classes.push_back(deploy::class_name(b, i));
  }
  const bool image = input.rank() == 3 && (input[0] == 1 || input[0] == 3);
  Json card = {{"name", name_},
               {"architecture", b.name()},
               {"kind", reads_rows() ? "rows"
                        : text()     ? "text"
                        : image      ? "picture"
                                     : "array"},
               {reads_rows() ? "columns" : "input", reads_rows() ? columns : Json(input.vector())},
               {"outputs", predictor_.outputs()},
               {"probabilities", predictor_.probabilities()},
               {"parameters", b.parameters()},
               {"classes", classes},
               {"provenance", b.provenance}};
  if (reads_rows()) card["fields"] = fields;
  if (!b.targets.empty()) card["targets"] = b.targets;
  if (b.multilabel()) card["multilabel"] = true;
  page_json_ = dump(card);
}

Array ServedModel::sample_of_table(const std::string& text, const std::string& name) const {
  const std::vector<store::Column>& columns = predictor_.bundle().columns;
  std::vector<size_t> places;
  data::CellsAsked asked{.header = true, .forms = data::CellForms::delimited};  // as the request declares it
  asked.kinds = [&](const data::TableHead& head) {
    places = store::places_of(columns, head.names, name);
    return store::kinds_of(columns, places, head.names.size());
  };
  data::CellReader reader({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, name, asked);
  const data::Cells cells = reader.next(2);  // further rows are not read
  if (cells.rows() != 1) {
    fail(ErrorKind::usage, name, "expected the names of the columns and one row, got ",
         cells.rows() > 1 ? "several" : "no", " rows");
  }
  const store::TableRows rows(columns, cells, places);
  if (!rows.faults().empty()) fail(ErrorKind::data, name, rows.faults()[0].reason);
  return rows.row(0);
}

Array ServedModel::sample_of_json(const std::string& text, const std::string& name) const {
  const Json j = io::parse_json<Json>(text, name);
  if (!j.is_object()) {
    fail(ErrorKind::usage, name, "the JSON must be an object {\"column\": number, text or null, ...}");
  }
  const std::vector<store::Column>& columns = predictor_.bundle().columns;
  std::vector<std::string> names;
  std::vector<store::Cell> cells, row;
  for (const auto& [column, value] : j.items()) {
    if (value.is_structured()) {
      fail(ErrorKind::usage, name, "column ", excerpt(column), ": expected a number, a text, true, false or null, got ",
           excerpt(value.dump()));
    }
    names.push_back(column);
    cells.push_back(cell_in(value));
  }
  for (const size_t place : store::places_of(columns, names, name)) row.push_back(cells[place]);
  return predictor_.sample_of_row(row, name);
}

std::vector<std::string> ServedModel::row_warnings(const Array& sample) const {
  const std::vector<store::Column>& columns = predictor_.bundle().columns;
  store::ColumnGaps gaps;
  gaps.add(columns, sample.reshaped({1, sample.numel()}));
  std::vector<std::string> found = gaps.warnings(columns);
  for (const store::Beyond& beyond : store::beyond_training(columns, sample.data<double>()))
    found.push_back(beyond.text);
  return found;
}

// Converts inputs with N values per column to N rows.
std::vector<Array> ServedModel::rows(const InferRequest& request, const std::string& name) const {
  const std::vector<store::Column>& columns = predictor_.bundle().columns;
  std::vector<std::string> names;
  for (const NamedTensor& t : request.inputs) names.push_back(t.name);
  const std::vector<size_t> places = store::places_of(columns, names, name);
  const int64_t n = request.inputs[places[0]].shape[0];
  // Checked before anything of N elements is allocated: a shape [N,0] with any N needs no bytes in the body.
  for (const size_t place : places) {
    const NamedTensor& t = request.inputs[place];
    const bool flat = t.shape.rank() == 1 || (t.shape.rank() == 2 && t.shape[1] == 1);
    if (!flat || t.shape[0] != n || n < 1) {
      fail(ErrorKind::usage, name, "input \"", excerpt(t.name),
           "\": expected [N] or [N,1] of one N in all inputs, got shape ", t.shape);
    }
  }
  check_count(n, name);
  for (size_t k = 0; k < columns.size(); ++k) {
    if (!columns[k].takes_texts()) need_doubles(request.inputs[places[k]], name);
  }
  std::vector<Array> out;
  store::ColumnGaps gaps;
  std::vector<store::Cell> cells(places.size());
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    for (size_t k = 0; k < places.size(); ++k) cells[k] = cell_in(request.inputs[places[k]], i);
    out.push_back(predictor_.sample_of_row(cells, cat(name, ": row ", i)));
    if (const std::string odd = predictor_.range_warning(out.back()); !odd.empty()) {
      logging::warn(cat(name_, ": row ", i, ": ", odd));
    }
    gaps.add(columns, out.back().reshaped({1, out.back().numel()}));
  }
  for (const std::string& gap : gaps.warnings(columns)) logging::warn(cat(name_, ": ", gap));
  return out;
}

std::vector<Array> ServedModel::samples(InferRequest& request, const std::string& name) const {
  if (reads_rows()) return rows(request, name);
  const std::string takes = text() ? "\"text\" (BYTES [-1]) or \"tokens\" (INT32 [-1,-1])" : "\"input\"";
  NamedTensor& t = request.inputs[0];
  const auto refuse = [&](const auto&... parts) { fail(ErrorKind::usage, name, parts...); };
  if (request.inputs.size() != 1) refuse("expected one input, ", takes, ", got ", request.inputs.size());
  if (t.shape[0] == 0) refuse("input \"", excerpt(t.name), "\": shape ", t.shape, " contains no sample");
  check_count(t.shape[0], name);
  std::vector<Array> out;
  if (!text()) {
    const Shape& input = predictor_.bundle().preprocessing.input;
    if (t.name != "input") refuse("expected ", takes, ", got input \"", excerpt(t.name), "\"");
    if (t.type != DataType::fp32 && t.type != DataType::uint8) {
      refuse("input \"input\": expected FP32 (0 to 1) or UINT8 (0 to 255), got ", to_string(t.type));
    }
    Shape need = input;
    need.insert(0, t.shape[0]);
    if (t.shape != need)
      refuse("input \"input\": expected samples of shape ", input, " behind a batch axis, got shape ", t.shape);
    for (int64_t i = 0; i < t.shape[0]; ++i) {
      const std::string what = cat(name, ": input \"input\": sample ", i);
      // The request determines the type: for a model of bytes, FP32 means 0 to 1, even if all its values are whole
      // numbers. Each sample is checked here, once and by itself, since batches are shared between requests.
      Array one = cut(t.values, i);
      if (predictor_.bundle().preprocessing.arrays.values != data::Values::bytes) {
        one = predictor_.sample_of_values(one, what);
      } else {
        predictor_.check_values(one, what);
      }
      out.push_back(std::move(one));
      if (const std::string odd = predictor_.range_warning(out.back()); !odd.empty()) {
        logging::warn(cat(name_, ": input \"input\": sample ", i, ": got ", odd));
      }
    }
    return out;
  }
  if (t.name == "text" && t.type == DataType::bytes) {
    if (t.shape.rank() > 2 || (t.shape.rank() == 2 && t.shape[1] != 1)) {
      refuse("input \"text\": expected [N] or [N,1], got shape ", t.shape);
    }
    for (const std::string& one : t.texts) out.push_back(predictor_.sample_of_text(one, name));
    return out;
  }
  if (t.name != "tokens" || t.type != DataType::int32) {
    refuse("expected ", takes, ", got input \"", excerpt(t.name), "\" of type ", to_string(t.type));
  }
  const int64_t longest = predictor_.bundle().preprocessing.input[0];
  const int64_t known = predictor_.bundle().preprocessing.tokenizer->size();
  if (t.shape.rank() != 2 || t.shape[1] < 1 || t.shape[1] > longest) {
    refuse("input \"tokens\": expected [N,T] with T from 1 to ", longest, ", got shape ", t.shape);
  }
  for (int64_t i = 0; i < t.shape[0]; ++i) {
    const int32_t* row = t.values.data<int32_t>() + i * t.shape[1];
    int64_t length = t.shape[1];
    while (length > 1 && row[length - 1] == 0) --length;
    for (int64_t k = 0; k < length; ++k) {
      if (row[k] < 0 || row[k] >= known) {
        refuse("input \"tokens\": sample ", i, ": expected tokens from 0 to ", known - 1, ", got ", row[k]);
      }
    }
    Array sample(DType::i32, {length});
    std::copy_n(row, length, sample.data<int32_t>());
    out.push_back(sample);
  }
  return out;
}

void ServedModel::check_outputs(const InferRequest& request, const std::string& name) const {
  for (const WantedOutput& wanted : request.outputs) {
    if (wanted.name != output_name()) {
      fail(ErrorKind::usage, name, "there is no output \"", excerpt(wanted.name), "\"; model ", name_, " gives \"",
           output_name(), "\"");
    }
    if (wanted.classification > 0 && !predictor_.probabilities()) {
      fail(ErrorKind::usage, name, "output \"", wanted.name,
           "\": \"classification\" requests the top classes, and model ", name_, " is a regression model: remove it");
    }
  }
}

// The column that contributes most to the prediction, or the one with the largest number if the model does not provide
// contributions: "a is 1e308".
std::string ServedModel::largest_part(const Array& sample) const {
  const store::Bundle& b = predictor_.bundle();
  const auto width = static_cast<int64_t>(b.columns.size());
  const Array added = b.rows->explains() ? b.rows->contributions(sample.reshaped({1, width})) : Array();
  int64_t most = 0;
  double largest = -1;
  for (int64_t c = 0; c < width; ++c) {
    double size = std::fabs(sample.data<double>()[c]);
    if (std::isnan(size)) size = 0;  // a missing value
    if (added.numel() > 0) size = 0;
    for (int64_t at = c; at < added.numel(); at += width + 1) {
      const double part = std::fabs(added.data<double>()[at]);
      size = std::isnan(part) ? std::numeric_limits<double>::infinity() : std::max(size, part);
    }
    if (size > largest) {
      largest = size;
      most = c;
    }
  }
  return cat(excerpt(b.columns[static_cast<size_t>(most)].source_name()), " is ", sample.data<double>()[most]);
}

void ServedModel::check_results(const Array& results, const std::vector<Array>& samples) const {
  for (int64_t i = 0; i < results.numel(); ++i) {
    const float result = results.data<float>()[i];
    if (std::isfinite(result)) continue;
    if (!reads_rows()) fail(ErrorKind::diverged, name_, "the model gives ", result, " for this input");
    const int64_t row = i / results.shape()[1];
    fail(ErrorKind::data, name_, "the model gives ", result, " for row ", row, ": ",
         largest_part(samples[static_cast<size_t>(row)]), ", which is too large for it");
  }
}

std::vector<Output> ServedModel::outputs(const InferRequest& request, const Array& results) const {
  const WantedOutput usual{output_name(), request.binary_outputs, 0};
  std::vector<Output> out;
  const int64_t n = results.shape()[0], all = results.shape()[1];
  for (const WantedOutput& wanted : request.outputs.empty() ? std::vector{usual} : request.outputs) {
    NamedTensor t{.name = wanted.name, .shape = results.shape(), .values = results};
    if (wanted.classification > 0) {
      const int64_t k = std::min(wanted.classification, all);
      t = {.name = wanted.name, .type = DataType::bytes, .shape = {n, k}};
      for (int64_t i = 0; i < n; ++i) {
        const float* row = results.data<float>() + i * all;
        for (const int64_t c : best(row, k)) {
          t.texts.push_back(cat(row[c], ":", c, ":", deploy::class_name(predictor_.bundle(), c)));
        }
      }
    }
    out.push_back({std::move(t), wanted.binary});
  }
  return out;
}

// The predicted class and then the most probable others, k in all; ties are ordered by number.
std::vector<int64_t> ServedModel::best(const float* row, int64_t k) const {
  std::vector<int64_t> order(static_cast<size_t>(predictor_.outputs()));
  std::iota(order.begin(), order.end(), 0);
  const int64_t predicted = predictor_.bundle().predicted(row, predictor_.outputs());
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
    if ((a == predicted) != (b == predicted)) return a == predicted;
    return row[a] != row[b] ? row[a] > row[b] : a < b;
  });
  order.resize(static_cast<size_t>(k));
  return order;
}

std::string ServedModel::prediction(const float* row, int64_t top, double seconds,
                                    const std::vector<std::string>& warnings) const {
  Json j = {{"model", name_}};
  if (!warnings.empty()) j["warnings"] = warnings;
  if (predictor_.probabilities()) {
    const auto entry = [&](int64_t c) {
      return Json{
          {"class", deploy::class_name(predictor_.bundle(), c)}, {"index", c}, {"probability", as_printed(row[c])}};
    };
    const std::vector<int64_t> order = best(row, std::min(top, predictor_.outputs()));
    if (predictor_.bundle().multilabel()) {
      j["labels"] = Json::array();
      for (const int64_t c : predictor_.bundle().labels_in(row, predictor_.outputs())) j["labels"].push_back(entry(c));
    } else {
      j.update(entry(order[0]));
    }
    if (const auto& threshold = predictor_.bundle().threshold) j["threshold"] = *threshold;
    j["top"] = Json::array();
    for (const int64_t c : order) j["top"].push_back(entry(c));
  } else {
    j["values"] = Json::array();
    for (int64_t c = 0; c < predictor_.outputs(); ++c) j["values"].push_back(as_printed(row[c]));
    if (const auto& names = predictor_.bundle().targets; !names.empty()) j["targets"] = names;
  }
  j["milliseconds"] = std::round(seconds * 1e6) / 1e3;
  return dump(j);
}

}  // namespace freight::serve
