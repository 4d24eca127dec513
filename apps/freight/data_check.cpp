// `freight data check`: what commonly goes wrong with data sets of images and texts.
#include <algorithm>
#include <cstdio>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/inspect/check.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/train/progress.h"
#include "freight/train/trained_on.h"
#include "options.h"
#include "text_table.h"

namespace freight::app {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const inspect::Leak& l) {
  return {
      {"part", l.part}, {"sample", l.sample},         {"other_part", l.other_part},  {"other_sample", l.other_sample},
      {"same", l.same}, {"similarity", l.similarity}, {"other_label", l.other_label}};
}

void print_check_json(const inspect::DataCheck& c) {
  Json j = {{"path", c.where}, {"ok", c.ok()}, {"classes", c.classes}, {"parts", Json::array()}};
  for (const inspect::CheckedPart& p : c.parts) {
    j["parts"].push_back({{"name", p.name}, {"count", p.count}, {"per_class", p.per_class}});
  }
  j["mean"] = c.mean;
  j["std"] = c.std;
  for (const char* key : {"bad", "leaks", "conflicts", "groups", "label_errors"}) j[key] = Json::array();
  for (const data::BadSample& b : c.bad) j["bad"].push_back({{"path", b.path}, {"reason", b.reason}});
  for (const inspect::Leak& l : c.leaks) j["leaks"].push_back(json_of(l));
  for (const inspect::Leak& l : c.conflicts) j["conflicts"].push_back(json_of(l));
  for (const inspect::CrossingGroup& g : c.groups)
    j["groups"].push_back({{"group", g.group}, {"per_part", g.per_part}});
  for (const inspect::LabelError& e : c.label_errors) {
    j["label_errors"].push_back({{"part", e.part},
                                 {"sample", e.sample},
                                 {"label", e.label},
                                 {"predicted", e.predicted},
                                 {"probability", e.probability},
                                 {"probability_of_label", e.of_label}});
  }
  j["repeated"] = c.repeated;
  j["predicted_right"] = c.predicted_right;
  j["notes"] = c.notes;
  j["warnings"] = c.warnings;
  std::printf("%s\n", j.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

// The path of an image, or the beginning of a text.
std::string sample_text(const std::string& text) {
  constexpr size_t kMost = 200;
  return truncated(printable(text), kMost);
}

std::string per_channel(const std::vector<float>& values) {
  std::vector<std::string> texts;
  for (const float v : values) texts.push_back(fixed(v, 4));
  return join(texts, ", ");
}

// Lines of a list, the first of them.
template <class T, class F>
void print_first(const char* what, const std::vector<T>& all, size_t most, const F& line) {
  for (size_t i = 0; i < std::min(all.size(), most); ++i) std::printf("%-8s %s\n", what, line(all[i]).c_str());
  if (all.size() > most) std::printf("%-8s ... and %zu more (--show, --json)\n", what, all.size() - most);
}

std::string pair_text(const inspect::Leak& l) {
  return cat(l.part, " ", sample_text(l.sample), l.same ? " is the same as " : " is nearly the same as ", l.other_part,
             " ", sample_text(l.other_sample), l.same ? "" : cat(" (similarity ", fixed(l.similarity, 3), ")"),
             l.other_label ? ", which has a different label" : "");
}

void print_check_text(const inspect::DataCheck& c, size_t most) {
  std::printf("where    %s\n", c.where.c_str());
  std::vector<std::string> head{"class"};
  for (const inspect::CheckedPart& p : c.parts) head.push_back(p.name);
  std::vector<std::vector<std::string>> rows;
  for (size_t k = 0; k <= c.classes.size(); ++k) {
    const bool all = k == c.classes.size();
    rows.push_back({all ? "all" : printable(c.classes[k])});
    for (const inspect::CheckedPart& p : c.parts) rows.back().push_back(with_commas(all ? p.count : p.per_class[k]));
  }
  std::fputs(text_table(head, rows).c_str(), stdout);
  if (!c.mean.empty())
    std::printf("mean     %s\nstd      %s\n", per_channel(c.mean).c_str(), per_channel(c.std).c_str());
  for (const std::string& note : c.notes) std::printf("note     %s\n", printable(note).c_str());
  for (const std::string& warning : c.warnings) std::printf("warning  %s\n", printable(warning).c_str());
  print_first("skipped", c.bad, most,
              [](const data::BadSample& b) { return cat(printable(b.path), ": ", printable(b.reason)); });
  print_first("leak", c.leaks, most, pair_text);
  print_first("group", c.groups, most, [&](const inspect::CrossingGroup& g) {
    std::string text = cat("'", sample_text(g.group), "' has");
    for (size_t p = 0; p < g.per_part.size(); ++p)
      text += cat(p == 0 ? " " : ", ", g.per_part[p], " in ", c.parts[p].name);
    return text;
  });
  print_first("conflict", c.conflicts, most, pair_text);
  print_first("label?", c.label_errors, most, [](const inspect::LabelError& e) {
    return cat(e.part, " ", sample_text(e.sample), ": labeled ", printable(e.label), ", predicted ",
               printable(e.predicted), " (", fixed(e.probability, 2), " against ", fixed(e.of_label, 2), ")");
  });
  std::printf("\n%zu samples of other splits are in the training set, %s training samples repeat another",
              c.leaks.size(), with_commas(c.repeated).c_str());
  if (c.groups_all > 0) {
    std::printf(", %zu of %s groups are in several splits", c.groups.size(), with_commas(c.groups_all).c_str());
    if (!c.groups.empty()) std::printf(" (freight train --group-column divides by groups)");
  }
  std::printf("\n");
  if (c.labels_checked) {
    std::printf("%zu labels are contradicted by out-of-fold predictions of a simple model, which is right for %s %%\n",
                c.label_errors.size(), fixed(100 * c.predicted_right, 1).c_str());
  }
}

}  // namespace

int data_check_command(const Args& args) {
  std::string name;
  inspect::CheckOptions check;
  int64_t show = 10, seed = 0;
  bool as_json = false;
  Options o("data check",
            "Looks for faults that mislead training: leaks between the splits, wrong labels, unreadable files.",
            "NAME or PATH [options]",
            "  freight data check photos\n"
            "  freight data check scans --group-column patient     # of train.csv: whose scans must stay together\n"
            "The exit code is 3 if a sample or group is in several splits, or a file cannot be read.");
  o.positional("NAME or PATH", &name, "images or texts: a set of `freight data list`, a directory or a file", true);
  o.add("--group-column", &check.group_column, "column of the list or text file whose rows belong together",
        {.value = "NAME|N"});
  o.add("--labels", &check.labels, "predict each sample out of fold, to find wrong labels");
  o.add("--show", &show, "lines of each kind to show", {.min = 0, .max = 1 << 20});
  o.add("--val-split", &check.load.images.val_split, "validation fraction, as in training (default 0.2)", {.max = 1});
  o.add("--seed", &seed, "seed of the split, as in training", {.min = 0});
  o.add("--text-column", &check.load.text.text_column, "text column of a text file, by name or number",
        {.value = "NAME|N"});
  o.add("--label-column", &check.load.text.label_column,
        "label column of a list of images or a text file, by name or number", {.value = "NAME|N"});
  o.add("--data-dir", &check.load.data_dir, "directory that is searched for built-in datasets, before $FREIGHT_DATA",
        {.value = "DIR"});
  o.add("--json", &as_json, "print JSON: everything");
  if (o.parse(args) == Options::Outcome::done) return 0;
  train::set_label_column(check.load, check.load.text.label_column);
  check.load.text.val_split = check.load.images.val_split;
  check.load.text.split_seed = check.load.images.split_seed = static_cast<uint64_t>(seed);
  signals::install();
  Progress progress(o.quiet() ? Progress::Mode::off : Progress::Mode::automatic);
  check.poll = [&](const std::string& what, int64_t done, int64_t all) {
    if (progress.due()) progress.update(cat("reading ", what, "  ", with_commas(done), "/", with_commas(all)));
    return !signals::stop_requested();
  };
  inspect::DataCheck found;
  try {
    found = inspect::check_data(data::Source(name, check.load), check);
  } catch (const Error&) {
    if (signals::stop_requested()) return signals::exit_code();
    throw;
  }
  progress.clear();
  if (as_json) {
    print_check_json(found);
  } else {
    print_check_text(found, static_cast<size_t>(show));
  }
  return found.ok() ? 0 : static_cast<int>(ErrorKind::data);
}

}  // namespace freight::app
