// What tests of learners of tables share: small tables, a run on one of them, and stored models that are damaged.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "freight/io/safetensors.h"
#include "freight/store/bundle.h"
#include "freight/tables/learners.h"
#include "freight/tables/xgboost_library.h"
#include "freight/train/learner.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"

namespace freight::tables {

// Why XGBoost cannot be loaded; empty where it can.
inline std::string no_xgboost() {
  try {
    xgboost();
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

class TableRuns : public ::testing::Test {
 protected:
  TableRuns() {
    register_learners();
    // 60 flowers of two species, a third of which is daisies; the color is words, one cell is missing.
    std::string csv = "length,width,colour,species\n";
    for (int i = 0; i < 60; ++i) {
      const bool daisy = i % 3 == 0;
      csv +=
          cat(i == 7 ? std::string() : cat((daisy ? 1.0 : 3.0) + 0.01 * i), ",", (daisy ? 0.5 : 2.0) + 0.02 * (i % 5),
              ",", i % 2 ? "red" : "blue", ",", daisy ? "daisy" : "rose", "\n");
    }
    io::write_file_atomic(dir_ / "flowers.csv", std::string_view(csv));
    std::string values = "a;b;y\n";
    for (int i = 0; i < 50; ++i) values += cat(i, ";", 2 * i + 0.5, ";", 0.25 * i, "\n");
    io::write_file_atomic(dir_ / "values.csv", std::string_view(values));
    config_.data = dir_ / "flowers.csv";
    config_.model = "baseline";
    config_.output_dir = dir_ / "run";
  }
  train::Result run() {
    train::Observer silent;
    return train::train(config_, silent, {}, {"train"});
  }
  // Changes a stored model, and expects that it is refused by a message that has these parts.
  void expect_damaged(const std::string& model, const std::function<void(io::SafeTensors&)>& change,
                      const std::vector<std::string>& parts) {
    io::SafeTensors file = io::load_safetensors(model);
    file.metadata.erase("xxh3_128");  // the sum over the file, which would be the only thing that is found
    change(file);
    io::save_safetensors(dir_ / "damaged.safetensors", file);
    testing::expect_error(ErrorKind::checkpoint, parts, [&] { store::load_bundle(dir_ / "damaged.safetensors"); });
  }

  testing::TemporaryDir dir_;
  train::Config config_;
};

}  // namespace freight::tables
