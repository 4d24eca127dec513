// A table with a column of each sort that a stored model of rows must answer: numbers with gaps, times that f32 does
// not tell apart, a few words, many words of which some are rare. Its target is what the test asks for.
#pragma once
#include <string>
#include <string_view>

#include "freight/base/strings.h"
#include "freight/io/file.h"
#include "freight/store/bundle.h"
#include "freight/tables/learners.h"
#include "freight/train/trainer.h"

namespace freight::testing {

enum class Told { two, three, value, count };

inline void write_mixed_table(const std::string& path, Told told, int rows = 600) {
  std::string csv = "x,time,colour,street,y\n";
  for (int i = 0; i < rows; ++i) {
    const double x = i * 37 % 101 * 0.1;
    const int time = i * 53 % 89, colour = i * 7 % 5;
    const int street = i % 50 == 49 ? 60 + i / 50 : i * 11 % 60;  // those from 60 on have a row each
    const double y =
        x + 0.05 * time + (colour == 1 || colour == 3 ? 4 : 0) + (street % 7 == 2 ? 3 : 0) + i * 29 % 41 * 0.02;
    csv += cat(i % 23 == 3 ? std::string() : cat(x), ",", 1700000000 + time, ",",
               i % 31 == 5 ? std::string("NA") : std::string(1, static_cast<char>('a' + colour)), ",s", street, ",");
    switch (told) {
      case Told::two: csv += y > 11 ? "rose" : "daisy"; break;
      case Told::three: csv += y > 13 ? "rose" : y > 9 ? "daisy" : "aster"; break;
      case Told::value: csv += cat(1000 + 10 * y + 0.125); break;
      case Told::count: csv += cat(static_cast<int>(y)); break;
    }
    csv += '\n';
  }
  io::write_file_atomic(path, std::string_view(csv));
}

// Trains on a table and gives the path of the stored model. `settle` changes the configuration.
template <class F>
std::string trained_on_table(const std::string& csv, const std::string& model, const std::string& directory,
                             F&& settle) {
  tables::register_learners();
  train::Config config;
  train::set_model(config, model);
  config.data = csv;
  config.output_dir = directory;
  settle(config);
  train::Observer silent;
  return train::train(config, silent, {}, {"train"}).model_path;
}
inline std::string trained_on_table(const std::string& csv, const std::string& model, const std::string& directory) {
  return trained_on_table(csv, model, directory, [](train::Config&) {});
}

}  // namespace freight::testing
