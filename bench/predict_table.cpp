// Measures the two halves of `freight predict` on a table, each alone: prints as JSON the rows per second of reading
// it, on one thread as the command reads, and of answering rows that lie in memory, on all threads.
// bench/compare_predict.py runs it beside the whole command and XGBoost.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/data/cells.h"
#include "freight/store/bundle.h"
#include "freight/store/table_rows.h"
#include "freight/tables/learners.h"

using namespace freight;

namespace {

constexpr int64_t kBlock = 8192, kKept = 1'000'000;  // rows

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_predict_table MODEL TABLE\n");
    return 2;
  }
  try {
    tables::register_learners();
    const store::Bundle bundle = store::load_bundle(argv[1]);
    std::vector<size_t> places;
    data::CellsAsked asked;
    asked.kinds = [&](const data::TableHead& head) {
      places = store::places_of(bundle.columns, head.names, argv[2]);
      return store::kinds_of(bundle.columns, places, head.names.size());
    };
    const auto width = static_cast<int64_t>(bundle.columns.size());
    Array kept(DType::f64, {kKept, width});
    int64_t rows = 0;
    const auto began = std::chrono::steady_clock::now();
    data::CellReader reader({std::string(argv[2])}, asked);
    for (data::Cells cells = reader.next(kBlock); cells.rows() > 0; cells = reader.next(kBlock)) {
      std::vector<uint32_t> all(static_cast<size_t>(cells.rows()));
      std::iota(all.begin(), all.end(), 0);
      const Array values = store::TableRows(bundle.columns, cells, places).values(all);
      const int64_t more = std::min(cells.rows(), kKept - std::min(rows, kKept));
      std::copy_n(values.data<double>(), more * width, kept.data<double>() + (rows < kKept ? rows : 0) * width);
      rows += cells.rows();
    }
    const double reading = static_cast<double>(rows) / seconds_since(began);
    double answering = 0;
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      bundle.rows->run(kept);
      answering = std::max(answering, static_cast<double>(kKept) / seconds_since(start));
    }
    std::printf("{\"rows\": %lld, \"reading_rows_per_s\": %.0f, \"answering_rows_per_s\": %.0f}\n",
                static_cast<long long>(rows), reading, answering);
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.exit_code();
  }
}
