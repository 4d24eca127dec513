// See plan_table.h.
#include "plan_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/data/dataset.h"
#include "freight/data/table_set.h"
#include "freight/io/byte_stream.h"
#include "freight/io/file.h"
#include "freight/io/json_library.h"
#include "freight/plan/trees.h"
#include "plan_text.h"
#include "table.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;
using plan::Estimate;
using plan::GpuWorth;

constexpr size_t kReadBytes = size_t{16} << 20;  // of a larger file, for its columns and the rounds that are measured
constexpr double kUsualRate = 1.6e-9;            // seconds of a cell on a level, of one core, where nothing is measured
constexpr double kShortFit = 0.3, kLongFit = 1.3;  // seconds of the fits that are measured
constexpr int64_t kRoundsMeasured = 1000;          // at most
// Peak memory, while the table is read: a cell of the file's columns and of the rows made of them, both f64. Then the
// former make room for its bin.
constexpr double kBytesOfCell = 8 + 8;

// The first lines of a file, as many as `most` bytes hold, and how many lines the file has.
struct FirstLines {
  std::string text;
  double of_lines = 0, all_lines = 0, all_bytes = 0;
};
FirstLines first_lines(const std::string& path, size_t most) {
  FirstLines out;
  io::ByteStream stream(path);
  std::vector<uint8_t> piece(size_t{1} << 20);
  for (size_t got = 0; (got = stream.read(piece.data(), piece.size())) > 0;) {
    const char* const from = reinterpret_cast<const char*>(piece.data());
    if (out.text.size() < most) out.text.append(from, got);
    out.all_lines += static_cast<double>(std::count(from, from + got, '\n'));
    out.all_bytes += static_cast<double>(got);
  }
  if (out.all_bytes <= static_cast<double>(most)) return out;
  if (out.text.starts_with("PK\x03\x04")) return out;  // an archive of arrays has no lines
  // The text ends where a line does, outside of quotes. Those of JSON lines end within theirs.
  const bool json = out.text.starts_with('{');
  bool quoted = false;
  size_t end = 0;
  for (size_t i = 0; i < out.text.size(); ++i) {
    if (out.text[i] == '"' && !json) quoted = !quoted;
    if (out.text[i] == '\n' && !quoted) end = i + 1;
  }
  out.text.resize(end);
  out.of_lines = static_cast<double>(std::count(out.text.begin(), out.text.end(), '\n'));
  return out;
}

struct Sampled {
  train::RowData data;
  double rows = 0;  // that are fitted, of all
  bool part = false;
  double bytes = 0;  // of the files
};

train::RowData read(const train::Config& c, const train::RowLearner& learner, const std::string& path) {
  train::RowSource source = train::row_source(c, path);
  source.bad = {.on_bad = data::OnBad::skip, .report = [](const data::BadSample&) {}};
  return learner.read(source);
}

// A large table is read as far as its columns and a few rounds need.
Sampled sample(const train::Config& c, const train::RowLearner& learner, int64_t rows_said) {
  const std::string path = data::find(c.data, {.data_dir = c.data_dir});
  const data::TableSet set = data::table_at(path);
  Sampled s;
  double times = 1;
  if (set.train.files.size() == 1 && set.train.files[0] == path) {
    const FirstLines first = first_lines(path, kReadBytes);
    s.bytes = first.all_bytes;
    s.part = first.of_lines > 0;
    if (s.part) {
      const io::ScratchDir dir;
      const std::string file = dir.path() + "/" + path.substr(path.rfind('/') + 1);
      io::write_file_atomic(file.ends_with(".gz") ? file.substr(0, file.size() - 3) : file,
                            std::string_view(first.text));
      s.data = read(c, learner, file.ends_with(".gz") ? file.substr(0, file.size() - 3) : file);
      times = first.all_lines / first.of_lines;
    }
  }
  if (!s.part) s.data = read(c, learner, path);
  s.rows = times * static_cast<double>(s.data.train.count());
  if (rows_said > 0) {
    const double held = static_cast<double>(s.data.test.count());
    const double share = static_cast<double>(s.data.train.count()) / (static_cast<double>(s.data.train.count()) + held);
    s.rows = share * static_cast<double>(rows_said);
  }
  return s;
}

// Trees that a fit of so many seconds comes to, and how long it took.
struct Fitted {
  double trees = 0, seconds = 0;
};
Fitted fit_for(double seconds, const train::RowLearner& learner, train::Config c, const train::RowData& data,
               const train::TreeFitWork& work) {
  c.early_stop = 0;
  c.fit_seconds = seconds;
  const auto start = std::chrono::steady_clock::now();
  double rounds = 0;
  learner.fit(c, data, [&](const train::Round& round) {
    rounds = static_cast<double>(round.number);
    return true;
  });
  return {rounds * static_cast<double>(work.trees_of_round), seconds_since(start)};
}

// A forest is one round: it is measured by its number of trees.
plan::TreeRate measured_rate(const train::Config& config, const train::RowLearner& learner, const train::RowData& data,
                             const train::TreeFitWork& work) {
  plan::TreeRate rate{.seconds_of_cell = kUsualRate / thread_count(), .spread = {0.5, 2}, .from = {}};
  const double cells = static_cast<double>(data.train.count()) * static_cast<double>(data.shape.columns.size());
  Fitted small, large;
  try {
    train::Config c = config;
    if (work.rounds > 1 || work.trees_of_round == 1) {
      c.rounds = kRoundsMeasured;
      small = fit_for(kShortFit, learner, c, data, work);
      large = fit_for(kLongFit, learner, c, data, work);
    } else {
      train::TreeFitWork some = work;
      some.trees_of_round = c.trees = 1;
      small = fit_for(0, learner, c, data, some);
      some.trees_of_round = c.trees = static_cast<int64_t>(std::clamp(kLongFit / small.seconds, 2.0, 100.0));
      large = fit_for(0, learner, c, data, some);
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::device) throw;
    rate.from = "XGBoost is not here: times are those of another machine's cores (1.6 ns for a cell on a level)";
    return rate;
  }
  const double trees = large.trees - small.trees, seconds = large.seconds - small.seconds;
  if (trees > 0 && seconds > 0 && cells > 0) {
    rate.seconds_of_cell = seconds / trees / cells / static_cast<double>(work.levels);
    rate.spread = {0.7, 1.4};
    rate.from =
        cat(fixed(large.trees, 0), " trees of ", with_commas(data.train.count()),
            " rows were fitted; other numbers of rows and the last rounds take 0.7 to 1.4 times as long a cell");
  } else {
    rate.from = "too few rows to measure: times are those of another machine's cores";
  }
  return rate;
}

std::string seconds_text(double s) {
  return s < 100 ? cat(number(s), " s") : s < 6000 ? cat(number(s / 60), " min") : cat(number(s / 3600), " h");
}

std::string verdict(const GpuWorth& worth) {
  const auto rows = [](double n) {
    const double unit = std::pow(10.0, std::max(0.0, std::floor(std::log10(n)) - 1));
    return with_commas(static_cast<int64_t>(std::round(n / unit) * unit));
  };
  const std::string from =
      worth.rows_here > 0 ? cat("; with these columns from about ", rows(worth.rows_here), " rows on") : std::string();
  if (worth.gpu.empty()) return "does not pay: no GPU of the catalogue holds this table";
  const std::string times = cat("about ", seconds_text(worth.seconds_on_gpu), " on ", worth.gpu, ", ",
                                seconds_text(worth.seconds_here), " here");
  switch (worth.verdict) {
    case GpuWorth::Verdict::pays: return cat("pays: ", times, from);
    case GpuWorth::Verdict::even: return cat("is about as fast: ", times, from);
    case GpuWorth::Verdict::loses: break;
  }
  return cat("does not pay: ", times, from);
}

const char* name_of(GpuWorth::Verdict v) {
  return v == GpuWorth::Verdict::pays ? "yes" : v == GpuWorth::Verdict::even ? "even" : "no";
}

// A plan, before it is printed.
struct TablePlan {
  std::string model, data;
  double rows = 0;  // to fit
  bool rows_estimated = false;
  size_t columns = 0, classes = 0;
  train::TreeFitWork fit;
  double bytes = 0;
  GpuWorth worth;
  std::vector<Estimate> estimates;  // of this machine, then of the devices

  bool forest() const { return fit.rounds == 1 && fit.trees_of_round > 1; }
};

TablePlan planned(const train::Config& c, const train::RowLearner& learner, const plan::Catalog& catalog, int64_t rows,
                  const std::string& sort) {
  const Sampled s = sample(c, learner, rows);
  TablePlan p{.model = learner.name(),
              .data = c.data,
              .rows = s.rows,
              .rows_estimated = s.part,
              .columns = s.data.shape.columns.size(),
              .classes = s.data.shape.classes.size(),
              .fit = *learner.tree_work(c, s.data),
              .bytes = 0,
              .worth = {},
              .estimates = {}};
  const auto rounds = static_cast<double>(p.fit.rounds);
  const plan::TreeWork work{.rows = s.rows,
                            .columns = static_cast<double>(p.columns),
                            .trees = rounds * static_cast<double>(p.fit.trees_of_round),
                            .levels = static_cast<double>(p.fit.levels)};
  const double fitted = std::max(1.0, static_cast<double>(s.data.train.count()));
  p.bytes = kBytesOfCell * work.cells() * (1 + static_cast<double>(s.data.test.count()) / fitted);
  const plan::TreeRate rate = measured_rate(c, learner, s.data, p.fit);
  const Estimate here = plan::trees_here(work, rounds, p.bytes, rate);
  std::vector<Estimate> devices;
  for (const plan::Device& d : catalog.devices) {
    Estimate e = plan::trees_on(d, catalog, work, rounds);
    if (e.timed) devices.push_back(std::move(e));
  }
  p.worth = plan::worth_of_gpu(work, rate, here, devices);
  sort_estimates(devices, sort);
  p.estimates = {here};
  p.estimates.insert(p.estimates.end(), devices.begin(), devices.end());
  return p;
}

Json json_of(const TablePlan& p, const plan::Catalog& catalog) {
  const GpuWorth& w = p.worth;
  Json j = {{"model", p.model},           {"data", p.data},
            {"rows", std::round(p.rows)}, {"rows_estimated", p.rows_estimated},
            {"columns", p.columns},       {"classes", p.classes},
            {"rounds", p.fit.rounds},     {"trees_per_round", p.fit.trees_of_round},
            {"levels", p.fit.levels},     {"total_bytes", p.bytes}};
  j["gpu"] = {{"pays", name_of(w.verdict)},
              {"rows_from", w.rows_here > 0 ? Json(w.rows_here) : Json(nullptr)},
              {"seconds_here", w.seconds_here},
              {"seconds_on_gpu", w.gpu.empty() ? Json(nullptr) : Json(w.seconds_on_gpu)},
              {"device", w.gpu.empty() ? Json(nullptr) : Json(w.gpu)},
              {"published", plan::published_crossing()}};
  for (const Estimate& e : p.estimates) j["devices"].push_back(freight::app::json_of(e, catalog));
  return j;
}

void print_head(const TablePlan& p) {
  std::string size = cat(with_commas(p.fit.trees_of_round), " trees");
  if (!p.forest()) {
    size = cat(with_commas(p.fit.rounds), p.fit.rounds == 1 ? " round" : " rounds", " at most",
               p.fit.trees_of_round > 1 ? cat(" of ", p.fit.trees_of_round, " trees") : std::string());
  }
  std::printf("model     %s: %s, %lld levels\n", p.model.c_str(), size.c_str(), static_cast<long long>(p.fit.levels));
  std::printf("data      %s: %s%s rows to fit, %zu columns learnt from, %s\n", p.data.c_str(),
              p.rows_estimated ? "about " : "", with_commas(static_cast<int64_t>(std::round(p.rows))).c_str(),
              p.columns, p.classes == 0 ? "values" : cat(p.classes, " classes").c_str());
  std::printf("memory    %s on this machine, the table included\n", human_bytes(p.bytes).c_str());
  std::printf("gpu       %s\n          %s\n\n", verdict(p.worth).c_str(), plan::published_crossing());
}

void print(const TablePlan& p, int64_t top) {
  print_head(p);
  const std::vector<Estimate>& all = p.estimates;
  std::vector<std::vector<std::string>> lines;
  const size_t shown = top == 0 ? all.size() : std::min(all.size(), static_cast<size_t>(top) + 1);
  for (size_t i = 0; i < shown; ++i) {
    const Estimate& e = all[i];
    lines.push_back({e.device, fits_text(e), range(e.step_seconds * 1e3), range(e.run_hours * 3600),
                     e.dollars ? range(*e.dollars) : "-", e.watt_hours ? range(*e.watt_hours) : "-"});
  }
  const char* const of = p.forest() ? "ms/forest" : "ms/round";
  std::fputs(table({"device", "fits", of, "s/run", "$/run", "Wh/run"}, lines).c_str(), stdout);
  if (all.size() > shown) std::printf("%zu more: --top 0\n", all.size() - shown);
  std::printf(
      "\nthis machine: %s\n"
      "devices: predicted from published runs of XGBoost by rows, columns, levels and trees; without reading the "
      "table\n",
      all[0].assumed.c_str());
  for (size_t i = 1; i < std::min<size_t>(shown, 4); ++i) {
    std::printf("  %s: %s%s\n", all[i].device.c_str(), all[i].assumed.c_str(),
                all[i].offer ? cat("; ", text_of(*all[i].offer)).c_str() : "");
  }
}

}  // namespace

const train::RowLearner* planned_trees(const train::Config& config) {
  const auto* const learner = dynamic_cast<const train::RowLearner*>(train::named_learner(config));
  return learner && learner->tree_work(config, {}) ? learner : nullptr;
}

void plan_table(const train::Config& config, const train::RowLearner& learner, const plan::Catalog& catalog,
                int64_t rows, const TablePlanFlags& flags) {
  train::Config c = config;
  if (c.lr == train::kAutomaticRate) learner.choose(c);
  train::settle_ranking(c, learner);
  const TablePlan p = planned(c, learner, catalog, rows, flags.sort);
  if (flags.csv) {
    print_csv(p.estimates);
  } else if (flags.json) {
    std::printf("%s\n", json_of(p, catalog).dump(2).c_str());
  } else {
    print(p, flags.top);
  }
}

}  // namespace freight::app
