// A learner that is no net, by the commands that every model has: train, eval, predict, report, models show; and what
// is for nets alone refuses it by name.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/io/npy.h"
#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

void expect_refused(const Ran& r, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(r.code, code) << r.out << r.err;
  for (const std::string& part : parts) EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
}

TEST(TablesCommand, ATableIsTrainedMeasuredPredictedAndShown) {
  const std::string dir = scratch_dir(), csv = dir + "/flowers.csv";
  std::string rows = "length,colour,species\n";
  for (int i = 0; i < 60; ++i) {
    rows += cat(i % 3 ? 3 : 1, ",", i % 2 ? "red" : "blue", ",", i % 3 ? "rose" : "daisy", "\n");
  }
  write_file(csv, rows);
  const Ran dry = run_freight({"train", csv, "--model", "baseline", "-o", dir + "/run", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.err.find("model   baseline: planned"), std::string::npos) << dry.err;
  const Ran trained = run_freight({"train", csv, "--model", "baseline", "-o", dir + "/run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("target species: 2 classes on 2 features"), std::string::npos) << trained.err;
  const std::string model = dir + "/run/model.safetensors";
  EXPECT_NE(trained.out.find(cat("freight predict ", model, " ", csv)), std::string::npos) << trained.out;

  const Ran eval = run_freight({"eval", model, "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(Json::parse(eval.out).at("count"), 12);
  EXPECT_NE(trained.out.find(cat("accuracy ", fixed(Json::parse(eval.out).at("top1").get<double>(), 2))),
            std::string::npos)
      << trained.out << eval.out;

  write_file(dir + "/new.csv", "colour,length\nred,1\ngreen,\n");
  const Ran predicted = run_freight({"predict", model, dir + "/new.csv", "--csv"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_NE(predicted.out.find("new.csv:2,rose,0.333333,0.666667"), std::string::npos) << predicted.out;
  EXPECT_NE(predicted.out.find("new.csv:3,rose,0.333333,0.666667"), std::string::npos) << predicted.out;
  EXPECT_NE(predicted.err.find("2 rows"), std::string::npos) << predicted.err;
  write_file(dir + "/gaps.csv", "colour,length\nred,1\n,\nred,2\n");
  const Ran gaps = run_freight({"predict", model, dir + "/gaps.csv", "--csv"});
  EXPECT_NE(gaps.err.find("warning: 1 row without any value skipped"), std::string::npos) << gaps.err;
  write_file(dir + "/far.csv", "colour,length\nred,2\nred,9\nred,10\n");
  const Ran far = run_freight({"predict", model, dir + "/far.csv", "--csv"});
  EXPECT_NE(far.err.find("far.csv:3: length is 9, in training 1 to 3"), std::string::npos) << far.err;
  EXPECT_EQ(far.err.find("length is 10"), std::string::npos) << "a column is told once\n" << far.err;
  write_file(dir + "/bad.csv", "colour,length\nred,long\n");
  expect_refused(run_freight({"predict", model, dir + "/bad.csv"}), 3, {"bad.csv:2", "column length", "'long'"});
  write_file(dir + "/less.csv", "colour,lenght\nred,1\n");
  expect_refused(run_freight({"predict", model, dir + "/less.csv"}), 3,
                 {"less.csv", "no column length", "did you mean lenght"});
  expect_refused(run_freight({"predict", model, "--text", "red"}), 2, {"--text", "baseline", "reads no texts"});

  const Ran shown = run_freight({"models", "show", model, "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(Json::parse(shown.out).at("learner"), "baseline");
  EXPECT_EQ(Json::parse(shown.out).at("columns")[1].at("levels"), Json({"blue", "red"}));
  EXPECT_NE(run_freight({"models", "list"}).out.find("baseline"), std::string::npos);
  const Ran report = run_freight({"report", dir + "/run"});
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_EQ(report.err.find("was not run"), std::string::npos) << report.err;

  expect_refused(run_freight({"export", model, "--output", dir + "/m.onnx"}), 2, {"baseline", "no form"});
  expect_refused(run_freight({"export", model, "--output", dir + "/m.ubj", "--format", "xgboost"}), 2,
                 {"--format", "baseline", "was not fitted by it"});
  const Ran verified = run_freight({"verify", model});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_NE(verified.out.find("PASS         replay"), std::string::npos) << verified.out;
  expect_refused(run_freight({"verify", model, "--data", csv}), 2, {"--data", "baseline", "saved in it"});
  expect_refused(run_freight({"verify", model, "--label-column", "species"}), 2, {"--label-column", "baseline"});
  const std::vector<std::string> for_nets[] = {
      {"generate", model, "--prompt", "a"}, {"profile", "--model", model}, {"models", "show", model, "--spec"}};
  for (const std::vector<std::string>& args : for_nets) {
    expect_refused(run_freight(args), 2, {"fitted by baseline", "for networks only"});
  }
  for (const char* command : {"plan", "explain", "advise", "profile"}) {
    expect_refused(run_freight({command, "--model", "baseline"}), 2, {"baseline is not a network"});
  }
  expect_refused(run_freight({"train", csv, "--model", "baseline", "--lr", "0.5", "-o", dir + "/b"}), 2,
                 {"--lr is a flag of networks"});
  const std::vector<std::string> usual[] = {{"--lr", "0.001"}, {"--epochs", "3"}, {"--optimizer", "adam"}};
  for (const std::vector<std::string>& flag : usual) {
    expect_refused(run_freight({"train", csv, "--model", "baseline", flag[0], flag[1], "-o", dir + "/b"}), 2,
                   {flag[0] + " is a flag of networks"});
  }
  expect_refused(run_freight({"train", csv, "--model", "baseline", "--label-column", "species", "-o", dir + "/b"}), 2,
                 {"--label-column is a flag of networks", "--target"});
  expect_refused(run_freight({"train", csv, "--model", "baseline", "--target", "spices", "-o", dir + "/b"}), 2,
                 {"--target", "no column spices", "did you mean species?"});
  expect_refused(run_freight({"train", "digits", "--model", "lenet", "--target", "1", "-o", dir + "/b"}), 2,
                 {"--target is a flag of table models", "trains a network"});
  expect_refused(run_freight({"eval", model, "--label-column", "colour"}), 2, {"--label-column", "--target"});
  expect_refused(run_freight({"train", csv, "--model", "baseline", "-b", "auto", "-o", dir + "/b"}), 2,
                 {"--batch-size", "is a flag of networks"});
  expect_refused(run_freight({"train", csv, "--model", "baseline", "-o", dir + "/run"}), 2, {"--overwrite"});
  expect_refused(run_freight({"train", csv, "--model", "baseline", "--resume", dir + "/run"}), 2,
                 {"no checkpoint to resume from"});
}

TEST(TablesCommand, ARunTellsWhatPeopleKnowOfTheirKindOfTarget) {
  const std::string dir = scratch_dir(), csv = dir + "/part.csv", test = dir + "/test.csv", values = dir + "/rent.csv";
  std::string rows = "x,y,side\n", rents = "x,rent\n";
  for (int i = 0; i < 80; ++i) {
    rows += cat(i % 7, ",", i % 5, ",", (i % 7) + (i % 5) > 4 ? "above" : "below", "\n");
    rents += cat(i, ",", 100.5 + 3 * i, "\n");
  }
  write_file(csv, rows);
  write_file(test, rows);
  write_file(values, rents);
  const auto has = [](const std::string& text, const char* what) {
    EXPECT_NE(text.find(what), std::string::npos) << what << "\n" << text;
  };
  const Ran two =
      run_freight({"train", csv, "--target", "side", "--test", test, "--model", "logistic", "-o", dir + "/two"});
  ASSERT_EQ(two.code, 0) << two.err;
  has(two.err, "  val loss ");  // the figures of rounds are not those of the test part
  EXPECT_EQ(two.err.find("test loss"), std::string::npos) << two.err;
  for (const char* of_steps : {"data 0%", "  lr ", "1/1", "eta"}) {
    EXPECT_EQ(two.err.find(of_steps), std::string::npos) << of_steps << "\n" << two.err;
  }
  has(two.out, "test auc ");
  has(two.err, " rows/s  ");
  has(two.out, ", accuracy ");
  has(two.out, " rounds in ");
  const Ran rent = run_freight({"train", values, "--model", "linear", "--target", "rent", "-o", dir + "/rent"});
  ASSERT_EQ(rent.code, 0) << rent.err;
  has(rent.out, "test rmse ");
  has(rent.err, "1/1  rmse ");  // with the unit of the target, unlike the mean squared error
  has(rent.err, "  test rmse ");
  EXPECT_EQ(rent.err.find(" loss "), std::string::npos) << rent.err;
  std::string dear = "x,price\n";
  for (int i = 0; i < 80; ++i) dear += cat(i, ",", 250000.5 + 1e9 * (i * i % 9), "\n");
  write_file(values, dear);
  const Ran price = run_freight({"train", values, "--model", "baseline", "--target", "price", "-o", dir + "/price"});
  ASSERT_EQ(price.code, 0) << price.err;
  has(price.err, "e+09  ");  // six digits of a large error
}

TEST(TablesCommand, JsonLinesAreTheTableThatTheirCsvIs) {
  const std::string dir = scratch_dir();
  // Whole numbers and a code that identifies each row, which is not learnt from and passed through.
  std::string csv = "code,size,town,rent\n", json;
  for (int i = 0; i < 60; ++i) {
    const std::string code = cat("0", i, "-\u00e9"), town = i % 2 ? "north, \\\"n\\\"" : "south";
    const int rent = 100 + 10 * i + (i % 2 ? 50 : 0);
    csv += cat(code, ",", 20 + i, ",", i % 2 ? "\"north, \"\"n\"\"\"" : "south", ",", rent, "\n");
    json += i % 3
                ? cat("{\"code\": \"", code, "\", \"size\": ", 20 + i, ", \"town\": \"", town, "\", \"rent\": ", rent,
                      "}\n")
                : cat("{\"rent\":", rent, ",\"town\":\"", town, "\",\"size\":", 20 + i, ",\"code\":\"", code, "\"}\n");
  }
  // The first line of the JSON gives the order of its columns.
  json = "{\"code\": null, \"size\": null, \"town\": null, \"rent\": 90}\n" + json;
  csv.insert(csv.find('\n') + 1, ",,,90\n");
  write_file(dir + "/rent.csv", csv);
  write_file(dir + "/rent.jsonl", json);
  for (const char* name : {"rent.csv", "rent.jsonl"}) {
    const Ran trained = run_freight(
        {"train", dir + "/" + name, "--model", "ridge", "--target", "rent", "-o", dir + "/" + name + ".run"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_NE(trained.err.find("ignored columns: code (identifier"), std::string::npos) << trained.err;
  }
  const auto predicted = [&](const std::string& model, const std::string& data, const char* block = "1000") {
    const Ran r =
        run_freight({"predict", dir + "/" + model + ".run/model.safetensors", dir + "/" + data, "--csv", "-b", block});
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const std::string whole = predicted("rent.csv", "rent.csv");
  EXPECT_EQ(whole.substr(0, whole.find('\n')), "code,rent") << "the identifier, and the target";
  EXPECT_NE(whole.find("\n07-\u00e9,"), std::string::npos) << whole;
  EXPECT_EQ(predicted("rent.csv", "rent.csv", "7"), whole) << "blocks that several threads answer";
  EXPECT_EQ(predicted("rent.csv", "rent.jsonl"), whole);
  EXPECT_EQ(predicted("rent.jsonl", "rent.csv"), whole);
  EXPECT_EQ(predicted("rent.jsonl", "rent.jsonl"), whole);
  write_file(dir + "/few.csv", "town,size\nsouth,30\n");
  EXPECT_NE(predicted("rent.csv", "few.csv").find("\n,"), std::string::npos)
      << "a file without the code has no cell of it";
  const Ran eval =
      run_freight({"eval", dir + "/rent.csv.run/model.safetensors", "--data", dir + "/rent.jsonl", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  const Ran info = run_freight({"data", "info", dir + "/rent.jsonl", "--target", "rent", "--json"});
  ASSERT_EQ(info.code, 0) << info.err;
  EXPECT_EQ(
      Json::parse(info.out).at("columns"),
      Json::parse(run_freight({"data", "info", dir + "/rent.csv", "--target", "rent", "--json"}).out).at("columns"));
  write_file(dir + "/nested.jsonl", "{\"size\": 1, \"town\": \"south\"}\n{\"size\": [2], \"town\": \"south\"}\n");
  expect_refused(run_freight({"predict", dir + "/rent.csv.run/model.safetensors", dir + "/nested.jsonl"}), 3,
                 {"nested.jsonl:2", "key size holds an array"});
}

TEST(TablesCommand, AnArchiveOfArraysIsATable) {
  const std::string dir = scratch_dir();
  io::NamedArrays arrays = {{"size", Array(DType::f32, {60, 1})}, {"rent", Array(DType::i64, {60})}};
  for (int i = 0; i < 60; ++i) {
    arrays.at("size").data<float>()[i] = static_cast<float>(20 + i);
    arrays.at("rent").data<int64_t>()[i] = 100 + 10 * i + i % 7;
  }
  io::save_npz(dir + "/rent.npz", arrays);
  const Ran trained =
      run_freight({"train", dir + "/rent.npz", "--model", "linear", "--target", "rent", "-o", dir + "/npz"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Ran answers = run_freight({"predict", dir + "/npz/model.safetensors", dir + "/rent.npz", "--csv"});
  ASSERT_EQ(answers.code, 0) << answers.err;
  EXPECT_NE(answers.out.find("rent.npz:60,"), std::string::npos) << answers.out;
  const Ran columns = run_freight({"data", "info", dir + "/rent.npz", "--target", "rent"});
  EXPECT_NE(columns.out.find("60 rows, 2 columns"), std::string::npos) << columns.out << columns.err;
  EXPECT_EQ(run_freight({"data", "info", dir + "/rent.npz"}).out, columns.out) << "arrays without x and y are a table";
}

// Several blocks are answered at the same time: what is written does not tell.
TEST(TablesCommand, BlocksOfRowsAreWrittenInTheirOrderWhateverTheirSize) {
  const std::string dir = scratch_dir(), csv = dir + "/line.csv";
  std::string rows = "x,y\n", asked = "x\n";
  for (int i = 0; i < 100; ++i) rows += cat(i, ".5,", 2 * i + 1, "\n");
  write_file(csv, rows);
  const Ran trained = run_freight({"train", csv, "--model", "linear", "--target", "y", "-o", dir + "/run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string model = dir + "/run/model.safetensors", file = dir + "/asked.csv";
  for (int i = 0; i < 1000; ++i) asked += i == 700 ? "many\n" : i == 300 || i == 800 ? "200\n" : cat(i % 90, ".5\n");
  write_file(file, asked);
  const std::vector<std::string> skip = {"predict", model, file, "--on-bad-sample", "skip"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), skip.begin(), skip.end());
    return run_freight(flags);
  };
  for (const std::vector<std::string>& form : std::vector<std::vector<std::string>>{{"--csv"}, {"--json"}, {}}) {
    const Ran whole = with(form);
    ASSERT_EQ(whole.code, 0) << whole.err;
    EXPECT_EQ(std::count(whole.out.begin(), whole.out.end(), '\n'),
              form == std::vector<std::string>{"--csv"} ? 1000 : 999);
    for (const char* size : {"1", "7", "256"}) {
      std::vector<std::string> flags = form;
      flags.insert(flags.end(), {"-b", size});
      if (form.empty()) flags.insert(flags.end(), {"--npy", dir + "/" + size + ".npy", "-o", dir + "/lines.txt"});
      const Ran blocks = with(flags);
      ASSERT_EQ(blocks.code, 0) << blocks.err;
      if (!form.empty()) {
        EXPECT_EQ(blocks.out, whole.out) << size;
      }
      EXPECT_NE(blocks.err.find("asked.csv:702"), std::string::npos) << "the row that is left out\n" << blocks.err;
      EXPECT_NE(blocks.err.find("asked.csv:302: x is 200"), std::string::npos) << blocks.err;
      EXPECT_EQ(blocks.err.find("asked.csv:802"), std::string::npos) << "a column is told once\n" << blocks.err;
      EXPECT_NE(blocks.err.find("999 rows"), std::string::npos) << blocks.err;
    }
  }
  EXPECT_EQ(read_file(dir + "/1.npy"), read_file(dir + "/256.npy"));
  EXPECT_EQ(read_file(dir + "/1.npy").size(), 128 + 999 * sizeof(float));
  // A row that stops the run stands behind the answers to all rows before it.
  const Ran stopped = run_freight({"predict", model, file, "--csv", "-b", "16"});
  expect_refused(stopped, 3, {"asked.csv:702", "column x", "'many'"});
  EXPECT_EQ(std::count(stopped.out.begin(), stopped.out.end(), '\n'), 701);
}

TEST(TablesCommand, BenchCompareTimesFitsOfTreesOverRows) {
  const std::string dir = scratch_dir(), csv = dir + "/flowers.csv";
  std::string rows = "length,width,species\n";
  for (int i = 0; i < 2500; ++i) rows += cat(i * 37 % 101, ",", i * 53 % 89, ",", i % 3 ? "rose" : "daisy", "\n");
  write_file(csv, rows);
  const auto compared = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"bench", "compare", csv, "--target", "species", "--seconds", "0.01"});
    return run_freight(flags);
  };
  const Ran ran = compared({"--devices", "cpu", "--json", "--hourly", "cpu=0.36"});
  if (ran.code == 4) GTEST_SKIP() << ran.err;
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json said = Json::parse(ran.out);
  EXPECT_EQ(said.at("model"), "gbdt");
  EXPECT_EQ(said.at("columns"), 2);
  std::vector<int64_t> fitted;
  for (const Json& fit : said.at("fits")) {
    fitted.push_back(fit.at("rows"));
    EXPECT_EQ(fit.at("device"), "cpu");
    EXPECT_EQ(fit.at("times"), 1);
    EXPECT_GT(fit.at("seconds").get<double>(), 0);
    EXPECT_DOUBLE_EQ(fit.at("dollars").get<double>(), fit.at("seconds").get<double>() * 1e-4);
  }
  EXPECT_EQ(fitted, (std::vector<int64_t>{125, 500, 2000})) << "a sixteenth, a quarter and all of four fifths";
  const Ran text = compared({"--model", "forest", "--rows", "50,100"});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part : {"forest on ", "rows x rounds/s", "\ncpu     50 ", "\ncpu     100 "}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  expect_refused(compared({"--rows", "2001"}), 2, {"--rows", "2001", "2000 rows"});
  expect_refused(compared({"--batches", "1,2"}), 2, {"--batches is a flag of networks"});
  expect_refused(compared({"--devices", "opencl:0"}), 2, {"--devices", "opencl:0"});
  expect_refused(run_freight({"bench", "compare", "--model", "mlp", "--rows", "5"}), 2, {"--rows is a flag of trees"});
}

TEST(TablesCommand, PlanSaysWhetherAGpuPaysForTheTable) {
  const std::string dir = scratch_dir(), csv = dir + "/flowers.csv";
  std::string rows = "length,width,species\n";
  for (int i = 0; i < 1000; ++i) rows += cat(i * 37 % 101, ",", i * 53 % 89, ",", i % 3 ? "rose" : "daisy", "\n");
  write_file(csv, rows);
  // Without XGBoost the times are those of another machine's cores: the same on every one.
  const std::vector<std::string> without = {"FREIGHT_XGBOOST=none", "OMP_NUM_THREADS=2"};
  const auto planned = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"plan", csv, "--target", "species"});
    return run_freight(flags, {}, without);
  };
  expect_refused(planned({"--xgboost", dir + "/none.so"}), 4, {"--xgboost", "none.so"});
  const Ran text = planned({"--rounds", "50"});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part :
       {"gbdt: 50 rounds at most, 6 levels", "800 rows to fit, 2 features, 2 classes", "gpu       does not pay",
        "below about 300,000 rows", "H100", "ms/round", "XGBoost is not available"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  const Ran small = planned({"--rounds", "50", "--json"});
  const Ran large = planned({"--rounds", "50", "--json", "--samples", "10000000"});
  ASSERT_EQ(large.code, 0) << large.err;
  const Json few = Json::parse(small.out), many = Json::parse(large.out);
  EXPECT_EQ(few.at("gpu").at("pays"), "no");
  EXPECT_EQ(few.at("rows"), 800);
  EXPECT_EQ(many.at("rows"), 8000000);
  EXPECT_EQ(many.at("gpu").at("pays"), "yes");
  EXPECT_DOUBLE_EQ(many.at("total_bytes").get<double>(), 10000 * few.at("total_bytes").get<double>());
  // 8 million rows of 2 columns on 6 levels of 50 trees, at 0.8 ns on two cores; half to twice of it.
  EXPECT_NEAR(many.at("gpu").at("seconds_here").get<double>(), 3.84, 0.01);
  EXPECT_GT(many.at("devices").size(), 20u);
  EXPECT_EQ(many.at("levels"), 6);
  const auto v100 = std::find_if(many.at("devices").begin(), many.at("devices").end(),
                                 [](const Json& d) { return d.at("device") == "Tesla V100 SXM2 16GB"; });
  ASSERT_NE(v100, many.at("devices").end());
  // Levels and cells as published: 50 x 6 x (0.00089 s + 8e6 x 2 x 5.1e-11 s).
  EXPECT_NEAR(v100->at("run_hours").at("low").get<double>() * 3600 / 0.6, 0.513, 0.01);
  EXPECT_GT(v100->at("dollars").at("high"), 0);
  // The file's first rows stand for the others of a large one.
  const std::string big = dir + "/big.csv";
  std::string more = "length,width,species\n";
  while (more.size() < (size_t{20} << 20)) more += rows.substr(rows.find('\n') + 1);
  write_file(big, more);
  const Ran part = run_freight({"plan", big, "--target", "species", "--rounds", "50", "--json"}, {}, without);
  ASSERT_EQ(part.code, 0) << part.err;
  const auto lines = static_cast<double>(std::count(more.begin(), more.end(), '\n'));
  EXPECT_TRUE(Json::parse(part.out).at("rows_estimated").get<bool>());
  EXPECT_NEAR(Json::parse(part.out).at("rows").get<double>(), 0.8 * lines, 0.001 * lines);

  const Ran forest = planned({"--model", "forest", "--trees", "30"});
  EXPECT_NE(forest.out.find("forest: 30 trees, 12 levels"), std::string::npos) << forest.out << forest.err;
  EXPECT_NE(planned({"--csv"}).out.find("device,fits"), std::string::npos);
  expect_refused(planned({"--world", "1,2"}), 2, {"--world is a flag of networks"});
  expect_refused(planned({"--model", "linear"}), 2, {"linear is not a network"});
  const Ran here = run_freight({"plan", csv, "--target", "species"});
  EXPECT_EQ(here.code, 0) << here.err;
  EXPECT_NE(here.out.find("this machine"), std::string::npos) << here.out;
}

TEST(TablesCommand, AdviceSaysOnWhichHardwareTreesAreFitted) {
  const std::string dir = scratch_dir(), csv = dir + "/flowers.csv";
  std::string rows = "length,width,species\n";
  for (int i = 0; i < 1000; ++i) rows += cat(i * 37 % 101, ",", i * 53 % 89, ",", i % 3 ? "rose" : "daisy", "\n");
  write_file(csv, rows);
  const std::vector<std::string> without = {"FREIGHT_XGBOOST=none", "OMP_NUM_THREADS=2"};
  const auto advised = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"advise", csv, "--target", "species", "--rounds", "50"});
    return run_freight(flags, {}, without);
  };
  const Ran advice = advised({});
  EXPECT_EQ(advice.code, 0) << advice.err;
  for (const char* expected : {"run       gbdt on ", "800 rows to fit", "50 rounds at most, 6 levels",
                               "result    stay on the CPU: this machine", "A GPU does not pay"}) {
    EXPECT_NE(advice.out.find(expected), std::string::npos) << expected << "\n" << advice.out;
  }
  const Ran in_time = advised({"--samples", "1000000000", "--deadline", "3m", "--json"});
  const Json chosen = Json::parse(in_time.out);
  EXPECT_EQ(in_time.code, 0) << in_time.err;
  EXPECT_GT(chosen.at("answer").at("dollars").at("high"), 0);
  EXPECT_LE(chosen.at("answer").at("run_hours").at("high").get<double>(), 0.05);
  EXPECT_EQ(advised({"--samples", "1000000000", "--deadline", "1s"}).code, 5);
  expect_refused(advised({"--input-shape", "3x4x4"}), 2, {"--input-shape is a flag of networks"});
}

// The columns and rows of this table take 66 MB each while it is read: 8.2 million cells in f64.
TEST(TablesCommand, ATableLargerThanTheMemoryIsFittedFromTheDisk) {
  const std::string dir = scratch_dir(), csv = dir + "/large.csv", out = dir + "/run";
  std::string rows;
  for (int c = 0; c < 40; ++c) rows += cat("x", c, ",");
  rows += "y\n";
  for (int64_t i = 0; i < 200000; ++i) {
    for (int64_t c = 0; c < 40; ++c) rows += cat((i * 7919 + c * 104729) % 997, ",");
    rows += cat(i * 7919 % 997 + i % 3, "\n");
  }
  write_file(csv, rows);
  rows = {};
  const auto trained = [&](const char* memory) {
    Running command({"train", csv, "--target", "y", "--model", "gbdt", "--rounds", "3", "--early-stop", "0",
                     "--max-depth", "3", "--external-memory", memory, "-o", out, "--overwrite", "--json"},
                    {}, {"TMPDIR=" + dir, "OMP_NUM_THREADS=2"}, [] {
                      const rlimit stacks{1 << 20, 1 << 20}, memory_of_its_own{130'000'000, 130'000'000};
                      setrlimit(RLIMIT_STACK, &stacks);
                      setrlimit(RLIMIT_DATA, &memory_of_its_own);
                    });
    return command.finish();
  };
  const Ran large = trained("off");
  if (large.err.find("apt-get install libxgboost0") != std::string::npos) GTEST_SKIP() << large.err;
  EXPECT_EQ(large.code, 5) << large.out;
  EXPECT_NE(large.err.find("memory"), std::string::npos) << large.err;
  const Ran paged = trained("on");
  ASSERT_EQ(paged.code, 0) << paged.err;
  EXPECT_NE(paged.err.find("instead of memory"), std::string::npos) << paged.err;
  EXPECT_LT(Json::parse(paged.out).at("test_rmse").get<double>(), 250) << "287 is the standard deviation of the target";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 2) << "the table and the run alone are left";
  expect_refused(
      run_freight({"train", csv, "--target", "y", "--external-memory", "on", "--folds", "3", "-o", out, "--overwrite"}),
      2, {"--external-memory", "--folds"});
}

TEST(TablesCommand, PlanReadsRankingsAndJsonLinesAsTrainingDoes) {
  const std::string dir = scratch_dir(), csv = dir + "/search.csv", json = dir + "/rent.jsonl";
  const auto planned = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), "plan");
    return run_freight(flags, {}, {"FREIGHT_XGBOOST=none", "OMP_NUM_THREADS=2"});
  };
  std::string rows = "query,match,age,relevance\n";
  for (int i = 0; i < 400; ++i) rows += cat(i / 10, ",", i * 37 % 101, ",", i * 53 % 89, ",", i % 4, "\n");
  write_file(csv, rows);
  const Ran ranked =
      planned({csv, "--target", "relevance", "--objective", "ndcg", "--group-column", "query", "--json"});
  ASSERT_EQ(ranked.code, 0) << ranked.err;
  EXPECT_EQ(Json::parse(ranked.out).at("classes"), 0) << "four relevances are no classes";
  EXPECT_EQ(Json::parse(ranked.out).at("columns"), 2);
  expect_refused(planned({csv, "--target", "relevance", "--task", "ranking"}), 2, {"ranking needs --group-column"});
  // A quote within a string is none of CSV: where it stands, the first lines of a large file are still told apart.
  std::string lines = "{\"size\": 1, \"town\": \"a\\\"b\", \"rent\": 1.5}\n";
  while (lines.size() < (size_t{20} << 20)) {
    lines += cat("{\"size\": ", lines.size() % 997, ", \"town\": \"", lines.size() % 3 ? "north" : "south",
                 "\", \"rent\": ", lines.size() % 1009, ".5}\n");
  }
  write_file(json, lines);
  const Ran large = planned({json, "--target", "rent", "--json"});
  ASSERT_EQ(large.code, 0) << large.err;
  EXPECT_TRUE(Json::parse(large.out).at("rows_estimated").get<bool>());
  const auto count = static_cast<double>(std::count(lines.begin(), lines.end(), '\n'));
  EXPECT_NEAR(Json::parse(large.out).at("rows").get<double>(), 0.8 * count, 0.002 * count);
}

TEST(TablesCommand, WhatEachColumnAddsStandsBesideTheAnswer) {
  const std::string dir = scratch_dir(), csv = dir + "/rent.csv", model = dir + "/run/model.safetensors";
  std::string rows = "size,\"the, town\",rent\n";
  for (int i = 0; i < 60; ++i)
    rows += cat(20 + i, ",", i % 2 ? "north" : "south", ",", 100 + 10 * i + (i % 2 ? 50 : 0), "\n");
  write_file(csv, rows);
  const Ran trained = run_freight({"train", csv, "--model", "linear", "-o", dir + "/run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  write_file(dir + "/new.csv", "size,\"the, town\"\n30,north\n50,south\n,west\nlarge,north\n70,north\n");
  const std::vector<std::string> ask = {"predict", model, dir + "/new.csv", "--explain", "--on-bad-sample", "skip"};
  const Ran r = run_freight(ask);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("skipped: "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("4 rows"), std::string::npos) << r.err;
  const std::vector<std::string> lines = split(r.out, '\n');
  ASSERT_EQ(lines.size(), 6u) << r.out;
  EXPECT_EQ(lines[0], "path,rent,shap:size,\"shap:the, town\",shap:base");
  for (size_t i = 1; i < 5; ++i) {
    const std::vector<std::string> cells = split(lines[i], ',');
    ASSERT_EQ(cells.size(), 5u) << lines[i];
    EXPECT_NE(cells[0].find(cat("new.csv:", i < 4 ? i + 1 : 6)), std::string::npos) << lines[i];
    const double sum = std::stod(cells[2]) + std::stod(cells[3]) + std::stod(cells[4]);
    EXPECT_NEAR(sum, std::stod(cells[1]), 1e-4) << lines[i];
  }
  EXPECT_NEAR(std::stod(split(lines[2], ',')[2]) - std::stod(split(lines[1], ',')[2]), 200, 1e-6) << "20 times 10";
  EXPECT_EQ(std::stod(split(lines[3], ',')[2]), 0) << "a missing cell is the mean";
  // One row at a time, a block says the same as all at once.
  std::vector<std::string> singly = ask;
  singly.insert(singly.end(), {"-b", "1"});
  EXPECT_EQ(run_freight(singly).out, r.out);
  std::vector<std::string> as_json = ask;
  as_json.push_back("--json");
  const Json first = Json::parse(split(run_freight(as_json).out, '\n')[0]);
  EXPECT_NEAR(first.at("shap").at("size").get<double>() + first.at("shap").at("the, town").get<double>() +
                  first.at("base").get<double>(),
              first.at("values")[0].get<double>(), 1e-4);

  // A row that cannot be read ends the command behind the answers before it.
  const Ran stopped = run_freight({"predict", model, dir + "/new.csv", "--csv"});
  expect_refused(stopped, 3, {"new.csv:5", "column size", "'large'"});
  EXPECT_EQ(split(stopped.out, '\n').size(), 5u) << stopped.out;
  ASSERT_EQ(run_freight({"train", csv, "--model", "baseline", "-o", dir + "/mean"}).code, 0);
  expect_refused(run_freight({"predict", dir + "/mean/model.safetensors", dir + "/new.csv", "--explain"}), 2,
                 {"--explain", "baseline", "does not attribute predictions to columns"});
  expect_refused(
      run_freight({"predict", model, dir + "/new.csv", "--explain", "--npy", dir + "/p.npy", "-o", dir + "/new.csv"}),
      2, {"-o"});
}

TEST(TablesCommand, AutoComparesWhatIsThereStoresTheBestAndTellsByAThreshold) {
  const std::string dir = scratch_dir(), csv = dir + "/flowers.csv", model = dir + "/auto/model.safetensors";
  std::string rows = "length,colour,species\n";
  for (int i = 0; i < 90; ++i) {
    rows += cat(i % 3 ? 3 : 1, ",", i % 2 ? "red" : "blue", ",", i % 3 ? "rose" : "daisy", "\n");
  }
  write_file(csv, rows);
  const std::vector<std::string> train = {"train", csv, "--model", "auto", "--folds", "3"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), train.begin(), train.end());
    return run_freight(more, {}, {"FREIGHT_XGBOOST=none"});
  };
  expect_refused(with({"--xgboost", dir + "/none.so", "-o", dir + "/none"}), 4, {"--xgboost", "none.so"});
  const Ran trained = with({"--metric", "auc", "-o", dir + "/auto"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  for (const char* part :
       {"model ", "auc  folds", "\nlogistic ", "skipped   gbdt: ", "FREIGHT_XGBOOST=none", "round 1  "}) {
    EXPECT_NE(trained.err.find(part), std::string::npos) << part << "\n" << trained.err;
  }
  EXPECT_EQ(trained.err.find("epoch"), std::string::npos) << trained.err;
  EXPECT_NE(trained.out.find("test auc 1.0000, accuracy 100.00 %"), std::string::npos) << trained.out;
  EXPECT_NE(trained.out.find("\nbest    logistic\n"), std::string::npos) << trained.out;
  ASSERT_EQ(run_freight({"report", dir + "/auto", "-o", dir + "/auto.html"}).code, 0);
  EXPECT_NE(read_file(dir + "/auto.html").find("<title>auto (logistic) - Freight report</title>"), std::string::npos);
  EXPECT_NE(read_file(dir + "/auto.html").find("<h1>Training run: logistic</h1>"), std::string::npos);
  EXPECT_EQ(Json::parse(run_freight({"models", "show", model, "--json"}).out).at("learner"), "logistic");
  const Ran eval = run_freight({"eval", model});
  EXPECT_NE(eval.out.find("\nauc "), std::string::npos) << eval.out;
  EXPECT_LT(eval.out.find("\nauc "), eval.out.find("\nlog_loss ")) << eval.out;

  const Ran said = with({"--metric", "auc", "--threshold", "0.9999", "-o", dir + "/said", "--json"});
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(Json::parse(said.out).at("leaderboard").at("standings")[0].at("learner"), "logistic");
  write_file(dir + "/new.csv", "length,colour\n3,red\n");
  const auto told = [&](const std::string& by) {
    return Json::parse(run_freight({"predict", by, dir + "/new.csv", "--json"}).out);
  };
  EXPECT_EQ(told(model).at("class"), "rose");
  const Json daisy = told(dir + "/said/model.safetensors");
  EXPECT_EQ(daisy.at("class"), "daisy") << "roses are told above 0.9999 alone";
  EXPECT_LT(daisy.at("probability").get<double>(), 0.5);
  expect_refused(with({"--metric", "rmse", "-o", dir + "/b"}), 2, {"--metric", "rmse is for values"});
  expect_refused(with({"--time-budget", "soon", "-o", dir + "/b"}), 2, {"--time-budget", "'soon'", "like 60s"});
}

TEST(TablesCommand, ColumnsAreListedAndReadAsTheFlagsSay) {
  const std::string dir = scratch_dir(), csv = dir + "/sales.csv";
  std::string rows = "sale_id,day,shop,open,spent\n", test = rows;
  for (int i = 0; i < 60; ++i) {
    const std::string row = cat(900 - 7 * i, ",2024-0", 1 + i % 9, "-15,shop ", i % 5, ",", i % 3 ? "yes" : "no", ",",
                                i * 37 % 60 * 0.5, "\n");
    (i < 50 ? rows : test) += row;
  }
  write_file(csv, rows);
  write_file(dir + "/test.csv", test);
  const Ran info = run_freight({"data", "info", csv, "--target", "spent", "--json"});
  ASSERT_EQ(info.code, 0) << info.err;
  std::string kinds;
  const Json listed = Json::parse(info.out);
  for (const Json& column : listed.at("columns")) kinds += column.at("kind").get<std::string>() + " ";
  EXPECT_EQ(kinds, "identifier datetime category yesno number ");
  EXPECT_NE(run_freight({"data", "info", csv, "--target", "spent"}).out.find("2024-01-15 to 2024-09-15"),
            std::string::npos);

  expect_refused(run_freight({"data", "info", csv, "--target", "spend"}), 2, {"--target", "did you mean spent?"});
  const Ran trained = run_freight({"train", csv, "--model", "linear", "--target", "spent", "--test", dir + "/test.csv",
                                   "--drop", "shop", "-o", dir + "/run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("10 test"), std::string::npos) << trained.err;
  EXPECT_NE(trained.err.find("ignored columns: sale_id (identifier"), std::string::npos) << trained.err;
  const std::string model = dir + "/run/model.safetensors";
  const Ran own = run_freight({"eval", model, "--json"});
  ASSERT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(Json::parse(own.out).at("count"), 10);
  EXPECT_EQ(Json::parse(run_freight({"eval", model, "--split", "val", "--json"}).out).at("count"), 10);
  const Json shown = Json::parse(run_freight({"models", "show", model, "--json"}).out);
  EXPECT_EQ(shown.at("ignored_columns"), Json::parse(R"([{"name": "sale_id", "kind": "identifier"},
                                                   {"name": "shop", "kind": "dropped"}])"));
  EXPECT_EQ(shown.at("columns")[0].at("source"), "day");
  write_file(dir + "/new.csv", "open,day\nNo,2024-03-01\n");
  EXPECT_EQ(run_freight({"predict", model, dir + "/new.csv"}).code, 0);
  write_file(dir + "/late.csv", "open,day\nno,soon\n");
  expect_refused(run_freight({"predict", model, dir + "/late.csv"}), 3,
                 {"late.csv:2", "column day", "expected a date"});
  write_file(dir + "/less.csv", "open\nno\n");
  expect_refused(run_freight({"predict", model, dir + "/less.csv"}), 3, {"less.csv", "no column day"});
  expect_refused(
      run_freight({"train", csv, "--model", "linear", "--target", "spent", "--types", "shop=colour", "-o", dir + "/b"}),
      2, {"--types", "shop=colour", "identifier"});
}

TEST(TablesCommand, FilesThatCannotBeReadAreRefusedBeforeAnythingIsWritten) {
  const std::string dir = scratch_dir();
  write_file(dir + "/latin.csv", "a,label\n1,s\xfc\xdf\n2,salty\n3,s\xfc\xdf\n4,salty\n");
  expect_refused(run_freight({"train", dir + "/latin.csv", "--model", "baseline", "-o", dir + "/run"}), 3,
                 {"latin.csv:2", "not UTF-8"});
  EXPECT_NE(run_freight({"report", dir + "/run"}).code, 0) << "there is a run";
  std::string rows = "colour,species\n";
  for (int i = 0; i < 20; ++i) rows += i % 2 ? "red,rose\n" : "white,daisy\n";
  write_file(dir + "/words.csv", rows);
  const Ran trained = run_freight({"train", dir + "/words.csv", "--model", "baseline", "-o", dir + "/words"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string model = dir + "/words/model.safetensors";
  write_file(dir + "/header.csv", "colour\n");
  expect_refused(run_freight({"predict", model, dir + "/header.csv"}), 3, {"header.csv", "a header and no rows"});
  write_file(dir + "/one.csv", "red\n");  // a row, without a header
  EXPECT_EQ(run_freight({"predict", model, dir + "/one.csv"}).code, 0);
  write_file(dir + "/damaged.safetensors", std::string(100, '\0'));
  const std::vector<std::string> readers[] = {
      {"models", "show", dir + "/damaged.safetensors"},
      {"plan", "--model", dir + "/damaged.safetensors"},
      {"explain", "--model", dir + "/damaged.safetensors"},
      {"train", "digits", "--dry-run", "--model", dir + "/damaged.safetensors"}};
  for (const std::vector<std::string>& args : readers) {
    expect_refused(run_freight(args), 8, {"damaged.safetensors", "not a safetensors file"});
  }
  expect_refused(run_freight({"plan", "--model", model}), 2, {"is a saved model", "--spec"});
}

TEST(TablesCommand, TreesAreFittedByALibraryThatIsAskedForWhereItIsMissing) {
  const std::string dir = scratch_dir(), csv = dir + "/flowers.csv", model = dir + "/run/model.safetensors";
  std::string rows = "length,colour,species\n";
  for (int i = 0; i < 100; ++i) {
    rows += cat(i % 4 ? 3 + i % 7 : 1, ",", i % 2 ? "red" : "blue", ",", i % 4 ? "rose" : "daisy", "\n");
  }
  write_file(csv, rows);
  const std::vector<std::string> train = {"train", csv, "--model", "gbdt", "-o", dir + "/run", "--rounds", "20"};
  const std::vector<std::string> none = {"FREIGHT_XGBOOST=" + dir + "/none.so"};
  expect_refused(run_freight(train, {}, none), 4, {"FREIGHT_XGBOOST", "none.so", "no library can be loaded there"});
  expect_refused(run_freight({"train", csv, "--model", "forest", "--xgboost", csv, "-o", dir + "/run"}), 4,
                 {"--xgboost", "flowers.csv", "the loader refuses"});
  EXPECT_NE(run_freight({"report", dir + "/run"}).code, 0) << "there is a run";

  // The name of the told column alone makes it a table, and trees its model.
  const Ran trained = run_freight({"train", csv, "--target", "species", "-o", dir + "/run", "--rounds", "20"});
  if (trained.code == 4) {
    EXPECT_NE(trained.err.find("apt-get install libxgboost0"), std::string::npos) << trained.err;
    GTEST_SKIP() << trained.err;
  }
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Ran eval = run_freight({"eval", model, "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(Json::parse(eval.out).at("top1"), 100.0);
  expect_refused(run_freight({"eval", model}, {}, none), 4, {"FREIGHT_XGBOOST", "none.so"});
  write_file(dir + "/new.csv", "colour,length\nred,1\ngreen,4\n,\n");
  const Ran predicted = run_freight({"predict", model, dir + "/new.csv", "--csv"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_NE(predicted.out.find("new.csv:2,daisy"), std::string::npos) << predicted.out;
  EXPECT_NE(predicted.out.find("new.csv:3,rose"), std::string::npos) << predicted.out;
  for (const char* form : {"json", "ubj"}) {
    const std::string own = cat(dir, "/trees.", form);
    const Ran exported = run_freight({"export", model, "--format", "xgboost", "-o", own});
    EXPECT_EQ(exported.code, 0) << exported.err;
    EXPECT_NE(exported.out.find("for the columns length, colour"), std::string::npos) << exported.out;
    EXPECT_NE(read_file(own).find("binary:logistic"), std::string::npos);
  }
  expect_refused(run_freight({"export", model, "--format", "xgboost", "-o", dir + "/trees.bin"}), 2,
                 {"-o", ".json or .ubj"});
  expect_refused(run_freight({"export", model, "--format", "xgboost", "-o", dir + "/t.ubj", "--no-softmax"}), 2,
                 {"--softmax", "of ONNX files"});
  const Ran shown = run_freight({"models", "show", model});
  EXPECT_NE(shown.out.find("20 trees of XGBoost"), std::string::npos) << shown.out;
}

}  // namespace
}  // namespace freight::test
