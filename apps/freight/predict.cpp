// `freight predict`: the classes of pictures or texts by a stored model; one line per sample on stdout.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include <nlohmann/json.hpp>

#include "command.h"
#include "freight/base/error.h"
#include "freight/deploy/predictor.h"
#include "freight/train/signals.h"
#include "options.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWidest = 80;  // of the first column

struct Prediction {
  std::string path;                  // of a text: the text
  std::vector<float> probabilities;  // by class number
  std::vector<int64_t> order;        // class numbers, the likeliest first; ties by number
};

// "path" or, in listings of texts, "text".
const char* key_of(const train::Bundle& bundle) { return bundle.preprocessing.text() ? "text" : "path"; }

void print_json(const train::Bundle& bundle, const Prediction& p) {
  Json all = Json::object();
  for (size_t i = 0; i < p.probabilities.size(); ++i) {
    all[deploy::class_name(bundle, static_cast<int64_t>(i))] = p.probabilities[i];
  }
  const Json j = {{key_of(bundle), p.path},
                  {"class", deploy::class_name(bundle, p.order[0])},
                  {"index", p.order[0]},
                  {"probability", p.probabilities[static_cast<size_t>(p.order[0])]},
                  {"probabilities", all}};
  std::printf("%s\n", j.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

// RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

void print_csv(const train::Bundle& bundle, const Prediction& p, size_t top) {
  for (size_t i = 0; i < top; ++i) {
    std::printf("%s,%s,%.6f\n", csv_field(p.path).c_str(), csv_field(deploy::class_name(bundle, p.order[i])).c_str(),
                static_cast<double>(p.probabilities[static_cast<size_t>(p.order[i])]));
  }
}

// "a.png  7  0.9981   (1 0.0012, 9 0.0004)".
void print_line(const train::Bundle& bundle, const Prediction& p, size_t top, size_t width) {
  const auto probability = [&](size_t i) { return fixed(p.probabilities[static_cast<size_t>(p.order[i])], 4); };
  std::string path = p.path;
  path.resize(std::max(width, path.size()), ' ');
  std::vector<std::string> others;
  for (size_t i = 1; i < top; ++i) others.push_back(cat(deploy::class_name(bundle, p.order[i]), " ", probability(i)));
  std::printf("%s  %s  %s%s\n", path.c_str(), deploy::class_name(bundle, p.order[0]).c_str(), probability(0).c_str(),
              others.empty() ? "" : cat("  (", join(others, ", "), ")").c_str());
}

// The values of a model that regresses: "a.npy  1.25 -0.5", or a JSON document, or path,output,value lines.
void print_values(const std::string& path, const std::vector<float>& values, size_t width, bool json, bool csv) {
  if (json) {
    const Json j = {{"path", path}, {"values", values}};
    std::printf("%s\n", j.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  for (size_t i = 0; csv && i < values.size(); ++i) {
    std::printf("%s,%zu,%s\n", csv_field(path).c_str(), i, cat(values[i]).c_str());
  }
  if (csv) return;
  std::string line = path;
  line.resize(std::max(width, path.size()) + 1, ' ');
  for (const float v : values) line += cat(" ", v);
  std::printf("%s\n", line.c_str());
}

// Every line of a file ("-": standard input) that is not blank.
void read_lines(const std::string& file, std::vector<std::string>& texts) {
  std::string all;
  if (file == "-") {
    char buffer[1 << 16];
    for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) all.append(buffer, n);
  } else {
    const io::Bytes bytes = io::read_file_gunzip(file);
    all.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  int64_t number = 0;
  for (std::string& line : split(all, '\n')) {
    ++number;
    if (ends_with(line, "\r")) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string fault = data::document_fault(line);
    if (!fault.empty()) fail(ErrorKind::data, cat(file, ":", number), fault);
    texts.push_back(std::move(line));
  }
}

}  // namespace

int predict_command(const Args& args) {
  std::string model, device = "auto";
  std::vector<std::string> files, texts;
  int64_t top_k = 3, batch_size = 64;
  bool json = false, csv = false;
  Options o("predict", "Predicts the classes of pictures or texts with a stored model.",
            "MODEL.safetensors FILE ... [options]",
            "Pictures are PNG, JPEG, WebP, BMP, PPM or npy; they are made grey or RGB, resized and cut as in\n"
            "evaluation. For a model of texts every line of a file is one; - is standard input.\n"
            "  freight predict runs/convnet-digits/model.safetensors a.png b.jpg --top-k 1\n"
            "  freight predict runs/textcnn-sst2/model.safetensors --text \"a film to remember\"");
  o.positional("model", &model, "the stored model", true);
  o.positional("files", &files, "pictures, or files with a text per line", false);
  o.add("--text", &texts, "a text; may be repeated", {.value = "TEXT"});
  o.add("--top-k", &top_k, "classes shown per sample", {.min = 1});
  o.add("-b,--batch-size", &batch_size, "samples per step", {.min = 1});
  o.add("--device", &device, "auto, cpu, ref or opencl:N");
  o.add("--json", &json, "print one JSON document per sample, with all probabilities");
  o.add("--csv", &csv, "print path (or text),class,probability lines under a header, top-k lines per sample");
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (files.empty() && texts.empty()) {
    fail(ErrorKind::usage, "files", "are missing (of texts, --text too); see freight predict --help");
  }
  if (json && csv) fail(ErrorKind::usage, "--csv", "does not go with --json");
  if (csv && !o.given("--top-k")) top_k = 1;
  signals::install();
  deploy::Predictor predictor(train::load_bundle(model), {.backend = device, .batch_size = batch_size});
  const train::Bundle& bundle = predictor.bundle();
  std::vector<std::string> names = texts;
  std::vector<Array> samples;
  for (const std::string& text : texts) samples.push_back(predictor.sample_of_text(text, "--text"));
  for (const std::string& file : files) {
    if (signals::stop_requested()) return signals::exit_code();
    if (!bundle.preprocessing.text()) {
      names.push_back(file);
      samples.push_back(predictor.sample_of_file(file));
      continue;
    }
    const size_t first = names.size();
    read_lines(file, names);
    for (size_t i = first; i < names.size(); ++i) samples.push_back(predictor.sample_of_text(names[i], file));
  }
  const Array all = predictor.run(samples);
  size_t width = 0;
  for (const std::string& name : names) width = std::max(width, std::min(name.size(), kWidest));
  const int64_t classes = all.shape()[1];
  const auto top = static_cast<size_t>(std::min(top_k, classes));
  const bool values = !predictor.probabilities();
  if (csv) std::printf("%s,%s\n", key_of(bundle), values ? "output,value" : "class,probability");
  for (size_t i = 0; i < names.size(); ++i) {
    Prediction p{names[i], {}, std::vector<int64_t>(static_cast<size_t>(classes))};
    const float* row = all.data<float>() + static_cast<int64_t>(i) * classes;
    if (values) {
      print_values(names[i], {row, row + classes}, width, json, csv);
      continue;
    }
    p.probabilities.assign(row, row + classes);
    std::iota(p.order.begin(), p.order.end(), 0);
    std::stable_sort(p.order.begin(), p.order.end(), [&](int64_t a, int64_t b) { return row[a] > row[b]; });
    if (json) {
      print_json(bundle, p);
    } else if (csv) {
      print_csv(bundle, p, top);
    } else {
      print_line(bundle, p, top, width);
    }
  }
  return 0;
}

}  // namespace freight::app
