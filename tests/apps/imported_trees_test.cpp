// Trees of other makers, by the command: `models convert` makes a stored model of which every command tells what
// LightGBM and scikit-learn told (tests/tables/other_makers/make.py).
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "run_command.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

// A CSV without quotes.
struct Sheet {
  Words names;
  std::vector<Words> rows;

  size_t place(const std::string& name) const {
    return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }
  double number(size_t row, const std::string& name) const {
    const size_t at = place(name);
    EXPECT_LT(at, names.size()) << "no column " << name;
    return at < names.size() ? std::atof(rows[row][at].c_str()) : 0;
  }
  // The number of columns that are named by `letter` and 0, 1, ...
  size_t count(char letter) const {
    size_t n = 0;
    while (place(cat(letter, n)) < names.size()) ++n;
    return n;
  }
};
Sheet sheet_of(const std::string& text) {
  Sheet out;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    (out.names.empty() ? out.names : out.rows.emplace_back()) = split(line, ',');
  }
  return out;
}

Ran freight_ok(const Words& args) {
  Ran r = run_freight(args);
  EXPECT_EQ(r.code, 0) << args[0] << ": " << r.err;
  return r;
}

struct Made {
  std::string file;  // in other_makers
  bool explained;    // its CSV says what each column adds
};
const Made kMade[] = {{"binary.txt", true},
                      {"multiclass.txt", true},
                      {"regression.txt", true},
                      {"poisson.txt", true},
                      {"no_missing.txt", true},
                      {"rf.txt", false},
                      {"lambdarank.txt", true},
                      {"forest_of_two.json", false},
                      {"forest_of_three.json", false},
                      {"forest_of_values.json", false},
                      {"boosted_of_two.json", false},
                      {"boosted_of_three.json", false}};

class ImportedTrees : public ::testing::Test {
 protected:
  ImportedTrees() : dir_(scratch_dir()) {}
  static std::string maker(const std::string& file) { return source_dir() + "/tests/tables/other_makers/" + file; }
  static Sheet shown(const std::string& file) { return sheet_of(read_file(csv_of(file))); }
  static std::string csv_of(const std::string& file) { return maker(file.substr(0, file.find('.')) + ".csv"); }
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::string converted(const std::string& file) const {
    const std::string to = path(file + ".safetensors");
    freight_ok({"models", "convert", maker(file), to});
    return to;
  }
  // The rows of the maker's CSV with a column `told`, and `query` of four rows each; the path.
  std::string with_told(const std::string& file, const std::vector<double>& told) const {
    const Sheet s = shown(file);
    std::string csv = join(s.names, ",") + ",told,query\n";
    for (size_t i = 0; i < s.rows.size(); ++i) {
      Words cells = s.rows[i];
      cells.resize(s.names.size());
      csv += cat(join(cells, ","), ",", told[i], ",", i / 4, "\n");
    }
    write_file(path("told.csv"), csv);
    return path("told.csv");
  }
  Json scores(const std::string& model, const std::string& csv, const Words& more = {}) const {
    Words args = {"eval", model, "--data", csv, "--target", "told", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return Json::parse(freight_ok(args).out);
  }

  const std::string dir_;
};

TEST_F(ImportedTrees, PredictTellsWhatTheirMakersTell) {
  for (const Made& made : kMade) {
    SCOPED_TRACE(made.file);
    const Sheet need = shown(made.file);
    const std::string model = converted(made.file);
    freight_ok({"predict", model, csv_of(made.file), "--csv", "--explain", "-q", "-o", path("got.csv")});
    const Sheet got = sheet_of(read_file(path("got.csv")));
    ASSERT_EQ(got.rows.size(), need.rows.size());
    const size_t answers = need.count('p'), columns = need.place("p0");
    const double unit = made.file == "binary.txt" ? 1.7 : 1;  // log odds are LightGBM's sums times its sigmoid
    for (size_t i = 0; i < need.rows.size(); ++i) {
      size_t told = 0;
      for (size_t k = 1; k < answers; ++k) {
        if (need.number(i, cat("p", k)) > need.number(i, cat("p", told))) told = k;
      }
      const double answer = need.number(i, cat("p", told));
      if (answers > 1) {
        EXPECT_EQ(got.rows[i][got.place("prediction")], cat(told));
        EXPECT_NEAR(got.number(i, cat(told)), answer, 1e-6);
      } else {
        EXPECT_NEAR(got.number(i, "prediction"), answer, 1e-6 * std::max(1.0, std::fabs(answer)));
      }
      if (!made.explained) continue;
      // The told class has them where there are more than two, else the second.
      const size_t from = answers > 2 ? told * (columns + 1) : 0;
      for (size_t c = 0; c <= columns; ++c) {
        const std::string name = c < columns ? "shap:" + need.names[c] : "shap:base";
        EXPECT_NEAR(got.number(i, name), unit * need.number(i, cat("s", from + c)), 1e-6) << name;
      }
    }
  }
}

TEST_F(ImportedTrees, EvalMeasuresThemOnATable) {
  for (const char* file : {"binary.txt", "forest_of_three.json"}) {
    const Sheet s = shown(file);
    std::vector<double> told;
    double right = 0, loss = 0;
    const size_t classes = s.count('p');
    for (size_t i = 0; i < s.rows.size(); ++i) {
      size_t best = 0;
      for (size_t k = 1; k < classes; ++k) {
        if (s.number(i, cat("p", k)) > s.number(i, cat("p", best))) best = k;
      }
      const size_t label = i % 4 == 0 ? (best + 1) % classes : best;
      told.push_back(static_cast<double>(label));
      right += label == best ? 1 : 0;
      loss -= std::log(s.number(i, cat("p", label)));
    }
    const Json got = scores(converted(file), with_told(file, told));
    const auto n = static_cast<double>(told.size());
    EXPECT_EQ(got["count"], told.size());
    EXPECT_NEAR(got["scores"]["accuracy"]["value"].get<double>(), right / n, 1e-12);
    EXPECT_NEAR(got["scores"]["log_loss"]["value"].get<double>(), loss / n, 1e-6);
  }
  for (const char* file : {"regression.txt", "forest_of_values.json"}) {
    const Sheet s = shown(file);
    std::vector<double> told;
    for (size_t i = 0; i < s.rows.size(); ++i) told.push_back(s.number(i, "p0") + 0.5 + 0.25 * (i % 2 ? 1 : -1));
    const Json got = scores(converted(file), with_told(file, told));
    EXPECT_NEAR(got["scores"]["mae"]["value"].get<double>(), 0.5, 1e-4);
    EXPECT_NEAR(got["scores"]["rmse"]["value"].get<double>(), std::sqrt(0.5 * (0.75 * 0.75 + 0.25 * 0.25)), 1e-4);
  }
}

// Without groups there is nothing to rank within: this ended by a segmentation fault.
TEST_F(ImportedTrees, EvalOfARankingAsksForTheColumnOfQueries) {
  const Sheet s = shown("lambdarank.txt");
  std::vector<double> told(s.rows.size());
  for (size_t q = 0; q < told.size() / 4; ++q) {  // the order of the answers is the best one within each query
    std::vector<size_t> order = {4 * q, 4 * q + 1, 4 * q + 2, 4 * q + 3};
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return s.number(a, "p0") < s.number(b, "p0"); });
    for (size_t place = 0; place < order.size(); ++place) told[order[place]] = static_cast<double>(place);
  }
  const std::string model = converted("lambdarank.txt"), csv = with_told("lambdarank.txt", told);
  const Ran r = run_freight({"eval", model, "--data", csv, "--target", "told"});
  EXPECT_EQ(r.code, 2) << r.err;
  EXPECT_NE(r.err.find("--group-column: is missing"), std::string::npos) << r.err;
  const Json got = scores(model, csv, {"--group-column", "query"});
  const double ndcg = got["scores"]["ndcg"]["value"].get<double>();
  EXPECT_GT(ndcg, 0.9);  // rows whose answers are equal count as their mean
  EXPECT_LE(ndcg, 1);
  std::vector<double> worst = told;
  for (double& relevance : worst) relevance = 3 - relevance;
  const Json turned = scores(model, with_told("lambdarank.txt", worst), {"--group-column", "query"});
  EXPECT_LT(turned["scores"]["ndcg"]["value"].get<double>(), ndcg - 0.2);
}

TEST_F(ImportedTrees, VerifyHoldsAndOnnxRuntimeAnswersTheSame) {
  const std::string python = testing::python_with("onnxruntime");
  for (const Made& made : kMade) {
    SCOPED_TRACE(made.file);
    const std::string model = converted(made.file);
    Words args = {"verify", model};
    if (!python.empty()) args.insert(args.end(), {"--onnx-runtime", python});
    const std::string out = freight_ok(args).out;
    for (const char* claim : {"PASS         replay", "PASS         batch", "PASS         cells", "PASS         file",
                              "PASS         shap"}) {
      EXPECT_NE(out.find(claim), std::string::npos) << out;
    }
    if (!python.empty()) {
      EXPECT_NE(out.find("PASS         onnx"), std::string::npos) << out;
    }
    freight_ok({"export", model, "-q", "-o", path("model.onnx")});
    EXPECT_GT(fs::file_size(path("model.onnx")), 100u);
  }
  const std::string zero = converted("zero_missing.txt");
  EXPECT_NE(freight_ok({"verify", zero}).out.find("that counts 0 as missing is not compared"), std::string::npos);
  EXPECT_EQ(run_freight({"export", zero, "-o", path("zero.onnx")}).code, 2);
}

TEST_F(ImportedTrees, ReportSaysThatItIsOfRuns) {
  const Ran r = run_freight({"report", converted("binary.txt")});
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_NE(r.err.find("expected the directory of a run"), std::string::npos) << r.err;
}

// The answer to a body, without its head; "" where nobody listens.
std::string posted(int port, const std::string& to, const std::string& type, const std::string& body) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = cat("POST ", to, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: ", type,
                                    "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n\r\n", body);
    char buffer[4096];
    if (::send(fd, request.data(), request.size(), 0) > 0) {
      for (ssize_t n = 0; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
        answer.append(buffer, static_cast<size_t>(n));
    }
  }
  ::close(fd);
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? answer : answer.substr(end + 4);
}

TEST_F(ImportedTrees, ServeAnswersARowAsTheirMakersDo) {
  for (const char* file : {"multiclass.txt", "forest_of_values.json"}) {
    SCOPED_TRACE(file);
    const Sheet s = shown(file);
    const size_t columns = s.place("p0"), row = 1;
    const int port = 20000 + static_cast<int>(::getpid()) % 20000 + (columns == 3 ? 1 : 0);
    Running server({"serve", "trees=" + converted(file), "--port", cat(port)});
    Words names(s.names.begin(), s.names.begin() + static_cast<std::ptrdiff_t>(columns));
    Words cells(s.rows[row].begin(), s.rows[row].begin() + static_cast<std::ptrdiff_t>(columns));
    const std::string body = join(names, ",") + "\n" + join(cells, ",") + "\n";
    std::string answer;
    for (int i = 0; i < 600 && answer.empty(); ++i) {
      answer = posted(port, "/predict", "text/csv", body);
      if (answer.empty()) ::usleep(50'000);
    }
    const Json j = Json::parse(answer, nullptr, false);
    ASSERT_FALSE(j.is_discarded()) << answer;
    if (s.count('p') > 1) {
      ASSERT_EQ(j["top"].size(), 3u) << answer;
      for (const Json& one : j["top"]) {
        const double need = s.number(row, cat("p", one["index"].get<int>()));
        EXPECT_NEAR(one["probability"].get<double>(), need, 1e-6);
      }
    } else {
      EXPECT_NEAR(j["values"][0].get<double>(), s.number(row, "p0"), 1e-6) << answer;
    }
    server.send(SIGTERM);
    const Ran r = server.finish();
    EXPECT_EQ(r.code, 143) << r.err;
  }
}

}  // namespace
}  // namespace freight::test
