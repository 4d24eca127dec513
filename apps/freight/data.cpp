// `freight data list|info|verify|check|preview|get|sample`: the built-in data sets, and the user's own data (check:
// data_check.cpp; preview: data_preview.cpp).
#include <algorithm>
#include <cstdio>

#include "command.h"
#include "data_text.h"
#include "fetch_progress.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/catalog.h"
#include "freight/data/download.h"
#include "freight/data/image_folder.h"
#include "freight/data/sample_files.h"
#include "freight/data/source.h"
#include "freight/data/table_set.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/tables/description.h"
#include "freight/tables/target.h"
#include "freight/train/progress.h"
#include "freight/train/trained_on.h"
#include "options.h"
#include "text_table.h"

namespace freight::app {

namespace {

using Json = nlohmann::ordered_json;

void print_json(const Json& json) {
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

// The options that all of them share.
struct Common {
  data::LoadOptions load;
  bool as_json = false;

  void add_to(Options& options) {
    options.add("--data-dir", &load.data_dir, "directory that is searched for built-in datasets, before $FREIGHT_DATA",
                {.value = "DIR", .aliases = {"--data-path"}});
    options.add("--json", &as_json, "print JSON");
  }
};

// The folder of the data set; "" if it is not on this machine.
std::string place_of(const data::CatalogEntry& entry, const data::LoadOptions& load) {
  try {
    return entry.builtin() ? "built in" : data::Source(entry.name, load).path();
  } catch (const Error&) {
    return "";
  }
}

int list_command(const Args& args) {
  Common common;
  Options options("data list", "Lists the built-in datasets and where they are on this machine.");
  common.add_to(options);
  if (options.parse(args) == Options::Outcome::done) return 0;

  Json list = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const data::CatalogEntry& e : data::catalog()) {
    const std::string place = place_of(e, common.load);
    list.push_back({{"name", e.name},
                    {"description", e.description},
                    {"train", e.train},
                    {"test", e.test},
                    {"classes", e.classes},
                    {"shape", e.shape},
                    {"builtin", e.builtin()},
                    {"path", e.builtin() || place.empty() ? Json(nullptr) : Json(place)}});
    rows.push_back({e.name, with_commas(e.train), with_commas(e.test), std::to_string(e.classes), e.shape,
                    place.empty() ? cat("not here; freight data get ", e.name) : place, e.description});
  }
  if (common.as_json) {
    print_json(list);
  } else {
    std::fputs(text_table({"name", "train", "test", "classes", "sample", "where", "what"}, rows).c_str(), stdout);
  }
  return 0;
}

Json describe_json(const data::Dataset& set) {
  Json j;
  j["count"] = set.count();
  j["shape"] = set.sample_shape().vector();
  j["dtype"] = set.files ? "pictures" : to_string(set.images.dtype());
  j["fingerprint"] = set.fingerprint();
  if (set.classification()) {
    std::vector<int64_t> per_class(set.classes.size(), 0);
    for (const int64_t label : set.labels.to_vector<int64_t>()) ++per_class[static_cast<size_t>(label)];
    j["per_class"] = per_class;
  }
  return j;
}

// "0.1307, 0.2859"; "-" if there are none.
std::string figures(const std::vector<float>& values) {
  std::vector<std::string> texts;
  for (const float v : values) texts.push_back(fixed(v, 4));
  return texts.empty() ? "-" : join(texts, ", ");
}

// True for a file of a table, unless a flag says that it contains texts.
bool could_be_table(const std::string& path, const data::TextOptions& text) {
  const std::string name = ends_with(path, ".gz") ? path.substr(0, path.size() - 3) : path;
  constexpr const char* kEndings[] = {".csv", ".tsv", ".jsonl", ".ndjson", ".npz"};
  return text.text_column.empty() && text.label_column.empty() &&
         std::any_of(std::begin(kEndings), std::end(kEndings), [&](const char* e) { return ends_with(name, e); });
}

// The values of these flags.
struct TableFlags {
  std::string names = {}, types = {}, target = {}, header = {};
};

// Prints a line for each column.
int print_table(const std::string& path, const TableFlags& flags, bool as_json) {
  const tables::TableDescription described = tables::describe_table(path, flags.names, flags.types, flags.header);
  std::vector<std::string> all;
  for (const tables::ColumnDescription& c : described.columns) all.push_back(c.name);
  if (!flags.target.empty()) tables::column_at(all, flags.target, "--target", path);
  if (as_json) {
    Json j = {{"path", path},
              {"rows", described.rows},
              {"header", described.header},
              {"note", described.note},
              {"columns", Json::array()}};
    for (const tables::ColumnDescription& c : described.columns) {
      j["columns"].push_back({{"name", c.name},
                              {"kind", c.kind},
                              {"missing", c.missing},
                              {"different", c.different},
                              {"values", c.values},
                              {"mean", c.mean ? Json(*c.mean) : Json(nullptr)},
                              {"note", c.note}});
    }
    print_json(j);
    return 0;
  }
  std::printf("where    %s\n", path.c_str());
  std::printf("table    %s rows, %zu columns%s\n", with_commas(described.rows).c_str(), described.columns.size(),
              described.header ? "" : ", no header (--columns names them)");
  std::vector<std::vector<std::string>> rows;
  for (const tables::ColumnDescription& c : described.columns) {
    rows.push_back({c.name, c.kind, with_commas(c.missing), with_commas(c.different), printable(c.values)});
  }
  std::fputs(text_table({"column", "kind", "missing", "different", "values"}, rows).c_str(), stdout);
  if (!described.note.empty()) std::printf("note     %s\n", printable(described.note).c_str());
  for (const tables::ColumnDescription& c : described.columns) {
    if (!c.note.empty()) std::printf("note     column %s: %s\n", c.name.c_str(), printable(c.note).c_str());
  }
  return 0;
}

int info_command(const Args& args) {
  Common common;
  std::string name = "digits", on_bad_sample = "error";
  Options options("data info", "Reads a dataset and describes it.", "[NAME or PATH] [options]");
  options.positional("NAME or PATH", &name, "a set of `freight data list`, a directory or a file (default digits)",
                     false);
  options.add("--text-column", &common.load.text.text_column, "text column of a text file, by name or number",
              {.value = "NAME|N"});
  options.add("--label-column", &common.load.text.label_column,
              "label column of a list of images or a text file, by name or number", {.value = "NAME|N"});
  options.add("--on-bad-sample", &on_bad_sample, "unreadable documents: error stops, skip ignores them",
              {.one_of = {"error", "skip", "report"}});
  std::string layout = "auto", range;
  options.add("--layout", &layout, "layout of arrays (auto: inferred from the shape)",
              {.one_of = {"auto", "nchw", "nhwc", "nhw", "features"}});
  options.add("--value-range", &range, "value range of arrays, black to white", {.value = "LOW:HIGH"});
  std::string columns, types, target, header = "auto";
  options.add("--target", &target, "target column: reads the file as a table", {.value = "COL"});
  options.add("--columns", &columns, "column names of a table without a header, or a file with one in each line",
              {.value = "NAMES|FILE"});
  options.add("--header", &header, "whether the first row of a table has the column names (auto: inferred)",
              {.one_of = {"auto", "yes", "no"}});
  options.add("--types", &types, "column types of a table that differ from the inferred ones",
              {.value = "COL=KIND,..."});
  common.add_to(options);
  if (options.parse(args) == Options::Outcome::done) return 0;
  train::set_label_column(common.load, common.load.text.label_column);
  data::parse_layout(layout, common.load.arrays.asked.layout);
  if (!range.empty()) common.load.arrays.asked.range = data::parse_range(range, "--value-range");

  const data::Source source(name, common.load);
  const std::string& path = source.path();
  // The file is read as a table if one of these flags is given, or if it cannot be read as texts or arrays.
  const bool said = !columns.empty() || !types.empty() || !target.empty() || header != "auto";
  if (!path.empty() && (said || !data::table_at(path).target.empty())) {
    return print_table(path, {.names = columns, .types = types, .target = target, .header = header}, common.as_json);
  }
  const data::Content content = source.content();
  if (content == data::Content::documents || content == data::Content::corpus) {
    int64_t left_out = 0;
    common.load.text.bad = {.on_bad = on_bad_sample == "error" ? data::OnBad::error : data::OnBad::skip,
                            .report = [&](const data::BadSample& bad) {
                              ++left_out;
                              std::fprintf(stderr, "warning: skipped: %s: %s\n", bad.path.c_str(), bad.reason.c_str());
                            }};
    data::TextSet set;
    try {
      set = source.load_text(common.load);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::data || !could_be_table(path, common.load.text)) throw;
      return print_table(path, {}, common.as_json);
    }
    if (common.as_json) {
      Json j = text_json(set, path);
      j["bad_samples"] = left_out;
      print_json(j);
    } else {
      print_text(set, path);
    }
    return 0;
  }
  data::TrainTest sets;
  try {
    sets = source.load(common.load);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data || !could_be_table(path, common.load.text)) throw;
    return print_table(path, {}, common.as_json);
  }
  // A data set of image files has the constants by which networks for photographs normalize, not its own statistics.
  const data::ImageFiles* const files = sets.train.files.get();
  constexpr int64_t kMostDecoded = 2000;
  const data::PixelStatistics own =
      files ? data::pixel_statistics(files->paths, files->geometry.orientation, kMostDecoded)
            : data::PixelStatistics{.mean = sets.train.mean, .std = sets.train.std, .pictures = 0};
  if (common.as_json) {
    Json j;
    j["name"] = sets.train.name;
    j["path"] = path.empty() ? Json(nullptr) : Json(path);
    j["classes"] = sets.train.classes;
    j["mean"] = own.mean;
    j["std"] = own.std;
    if (files) {
      j["statistics_of"] = own.pictures;
      j["normalized_by"] = {{"mean", sets.train.mean}, {"std", sets.train.std}};
    }
    j["train"] = describe_json(sets.train);
    j["test"] = describe_json(sets.test);
    print_json(j);
    return 0;
  }
  std::printf("name     %s\n", sets.train.name.c_str());
  std::printf("where    %s\n", path.empty() ? "built in" : path.c_str());
  for (const data::Dataset* set : {&sets.train, &sets.test}) {
    std::printf("%-8s %s\n", set->split.c_str(), data::describe(*set).substr(set->split.size() + 1).c_str());
  }
  for (const data::Dataset* set : {&sets.train, &sets.test}) {
    if (!set->note.empty()) std::printf("note     %s\n", set->note.c_str());
  }
  if (sets.train.classification()) std::printf("classes  %s\n", join(sets.train.classes, ", ").c_str());
  if (const data::ArrayMeaning& m = sets.train.meaning; m.values != data::Values::unstated) {
    std::printf("arrays   %s, %s values from %s\n", data::to_string(m.layout), data::to_string(m.values),
                data::to_string(m.range).c_str());
  }
  const std::string of =
      !files ? ""
             : cat("  (of ", own.pictures == sets.train.count() ? "all " : "", with_commas(own.pictures),
                   own.pictures == sets.train.count() ? "" : cat(" of the ", with_commas(sets.train.count())),
                   " training images)");
  std::printf("mean     %s%s\n", figures(own.mean).c_str(), of.c_str());
  std::printf("std      %s\n", figures(own.std).c_str());
  if (files) {
    std::printf("note     training normalizes by ImageNet's mean %s and std %s, as networks for photographs expect\n",
                figures(sets.train.mean).c_str(), figures(sets.train.std).c_str());
  }
  return 0;
}

const char* state_name(data::Verification::File::State state) {
  switch (state) {
    case data::Verification::File::State::matches: return "ok";
    case data::Verification::File::State::differs: return "differs";
    case data::Verification::File::State::unknown: break;
  }
  return "unknown";
}

int verify_data_command(const Args& args) {
  Common common;
  std::string name;
  Options options("data verify",
                  "Reads every file of a dataset, decodes every image, and compares known files with their SHA-256.",
                  "NAME or PATH [options]");
  options.positional("NAME or PATH", &name, "a set of `freight data list`, a directory or a file", true);
  common.add_to(options);
  if (options.parse(args) == Options::Outcome::done) return 0;

  signals::install();
  Progress progress(options.quiet() ? Progress::Mode::off : Progress::Mode::automatic);
  data::Verification v;
  try {
    v = data::verify(name, common.load, [&](int64_t done, int64_t total) {
      if (progress.due()) progress.update(cat("reading  ", with_commas(done), "/", with_commas(total)));
      return !signals::stop_requested();
    });
  } catch (const Error&) {
    if (signals::stop_requested()) return signals::exit_code();
    throw;
  }
  progress.clear();
  const int code = v.ok() ? 0 : static_cast<int>(ErrorKind::data);
  if (common.as_json) {
    Json j;
    j["name"] = name;
    j["ok"] = v.ok();
    j["path"] = v.where.empty() ? Json(nullptr) : Json(v.where);
    j["files"] = Json::array();
    for (const auto& f : v.files) {
      j["files"].push_back({{"path", f.path}, {"sha256", f.sha256}, {"state", state_name(f.state)}});
    }
    j["pictures"] = v.images;
    j["documents"] = v.documents;
    j["bad"] = Json::array();
    for (const data::BadSample& bad : v.bad) j["bad"].push_back({{"path", bad.path}, {"reason", bad.reason}});
    j["train"] = {{"text", v.train}, {"fingerprint", v.train_fingerprint}};
    j["test"] = {{"text", v.test}, {"fingerprint", v.test_fingerprint}};
    print_json(j);
    return code;
  }
  for (const auto& f : v.files) std::printf("%-8s %s  %s\n", state_name(f.state), f.sha256.c_str(), f.path.c_str());
  for (const data::BadSample& bad : v.bad) std::printf("bad      %s: %s\n", bad.path.c_str(), bad.reason.c_str());
  std::printf("%s\n%s\n", v.train.c_str(), v.test.c_str());
  if (v.images > 0) {
    const auto bad = static_cast<int64_t>(v.bad.size());
    std::printf("%s of %s images decode, %s do not\n", with_commas(v.images - bad).c_str(),
                with_commas(v.images).c_str(), with_commas(bad).c_str());
    return code;
  }
  if (!v.bad.empty()) {
    std::printf("%s documents can be read, %zu cannot\n", with_commas(v.documents).c_str(), v.bad.size());
    return code;
  }
  std::printf(v.ok() ? "everything parses, no known file differs\n"
                     : "some files differ from the known ones; freight data get replaces them\n");
  return code;
}

int get_command(const Args& args) {
  Common common;
  std::string name;
  std::vector<std::string> urls;
  bool progress_wanted = true;
  Options options("data get", "Downloads a dataset, resumes partial downloads, checks SHA-256.", "NAME [options]");
  options.positional("NAME", &name, "a set of `freight data list`", true);
  options.add("--url", &urls, "base URL: BASE/FILE is fetched; may be repeated", {.value = "BASE"});
  options.add("--progress", &progress_wanted, "a progress line on stderr");
  common.add_to(options);
  if (options.parse(args) == Options::Outcome::done) return 0;

  const data::CatalogEntry* entry = data::find_entry(name);
  std::string where;
  if (!entry || !entry->builtin()) {
    signals::install();
    Progress progress(progress_wanted ? Progress::Mode::automatic : Progress::Mode::off);
    where = data::download_set(
        name, {.base_urls = urls, .data_dir = common.load.data_dir, .fetch = fetch_with_progress(progress)});
  }
  if (common.as_json) {
    print_json({{"name", name}, {"path", where.empty() ? Json(nullptr) : Json(where)}});
  } else if (where.empty()) {
    std::printf("%s is built in, there is nothing to get\n", name.c_str());
  } else {
    std::printf("%s is in %s\n", name.c_str(), where.c_str());
  }
  return 0;
}

int sample_command(const Args& args) {
  std::string name, folder = ".";
  bool as_json = false;
  Options options("data sample", "Writes small sample files for trying out commands; without NAME it lists them.",
                  "[NAME|all] [options]");
  options.positional("NAME", &name, "photos, digits, housing, reviews, or all of them", false);
  options.add("-o,--output", &folder, "the folder to write to, by default the current one", {.value = "DIR"});
  options.add("--json", &as_json, "print JSON");
  if (options.parse(args) == Options::Outcome::done) return 0;
  if (name.empty()) {
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows;
    for (const data::SampleSet& set : data::sample_sets()) {
      list.push_back({{"name", set.name}, {"description", set.description}});
      rows.push_back({set.name, set.description});
    }
    if (as_json) {
      print_json(list);
    } else {
      std::fputs(text_table({"name", "files"}, rows).c_str(), stdout);
    }
    return 0;
  }
  const int64_t files = data::write_sample_files(name, folder);
  if (as_json) {
    print_json({{"name", name}, {"folder", folder}, {"files", files}});
    return 0;
  }
  for (const data::SampleSet& set : data::sample_sets()) {
    if (name == "all" || name == set.name) std::printf("%s\n", set.description.c_str());
  }
  return 0;
}

}  // namespace

int data_command(const Args& args) {
  return dispatch({"freight data",
                   "Datasets: list, describe, verify and download them.",
                   {
                       {"list", "the built-in datasets, and where they are", list_command},
                       {"info", "counts, shape, classes and statistics of one set", info_command},
                       {"verify", "read everything and compare with the known hashes", verify_data_command},
                       {"check", "look for leaks between splits, wrong labels, unreadable files", data_check_command},
                       {"preview", "an HTML page of training samples as a run sees them", data_preview_command},
                       {"get", "download a set", get_command},
                       {"sample", "write small sample files for trying out commands", sample_command},
                   }},
                  args);
}

}  // namespace freight::app
