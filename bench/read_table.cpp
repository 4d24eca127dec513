// Measures the reading of a table: prints as JSON the CPU seconds of one reading, the bytes of the columns and the most
// memory that the process had. bench/compare_pandas.py runs it beside pandas.
#include <sys/resource.h>

#include <cstdio>
#include <string>

#include "freight/base/error.h"
#include "freight/data/cells.h"

using namespace freight;

namespace {

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_read_table TABLE\n");
    return 2;
  }
  try {
    const double start = cpu_seconds();
    const data::Cells cells = data::read_cells(std::string(argv[1]));
    const double seconds = cpu_seconds() - start;
    double bytes = 0;
    const auto rows = static_cast<double>(cells.rows());
    for (const data::CellColumn& c : cells.columns) bytes += rows * (c.is_words() ? 4 : 8);
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    std::printf(
        "{\"rows\": %lld, \"columns\": %zu, \"cpu_seconds\": %.4f, "
        "\"table_bytes\": %.0f, \"peak_bytes\": %.0f}\n",
        static_cast<long long>(cells.rows()), cells.columns.size(), seconds, bytes,
        1024.0 * static_cast<double>(use.ru_maxrss));
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.exit_code();
  }
}
