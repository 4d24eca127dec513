// See image_list.h. What words mean is columns.h's.
#include "freight/data/image_list.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/usage.h"
#include "freight/data/class_names.h"
#include "freight/data/columns.h"
#include "freight/data/dataset.h"
#include "freight/data/table_rows_internal.h"
#include "freight/io/file.h"
#include "freight/io/image.h"

namespace freight::data {

namespace fs = std::filesystem;

namespace {
using ListRows = std::vector<CellRow>;
constexpr size_t kRowsLookedAt = 20;  // rows behind the first that tell what a column holds

// Which fields hold the path and the label or targets; where the rows begin. No labels: they cannot be inferred.
struct ListColumns {
  size_t path = 0;
  std::vector<size_t> labels = {1};
  size_t first_row = 0;
  std::string note;
  std::optional<size_t> group = {};
};

// Paths may have any bytes.
std::unique_ptr<FileRows> list_rows(const std::string& file) {
  return delimited_rows(std::make_unique<io::ByteStream>(file), file, {.separator = ',', .need_utf8 = false});
}

// Says whether `f` is true of the column in every row from `first` on that is looked at; false of no rows.
template <class F>
bool all_cells(const ListRows& rows, size_t column, size_t first, F&& f) {
  const size_t end = std::min(rows.size(), first + kRowsLookedAt);
  for (size_t i = first; i < end; ++i) {
    if (rows[i].cells.size() > column && !f(rows[i].cells[column])) return false;
  }
  return first < end;
}

// Files of these kinds are no images, whatever the header says.
bool is_no_image(const std::string& cell) {
  const std::string name = lower(trimmed(cell));
  for (const char* ending : {".txt", ".csv", ".json", ".jsonl", ".wav", ".mp3", ".flac", ".ogg", ".mp4", ".avi", ".mov",
                             ".html", ".htm", ".pdf", ".xml", ".md"}) {
    if (ends_with(name, ending)) return true;
  }
  return name.empty();
}

std::optional<ListColumns> with_header(const ListRows& rows, const TableHeader& header, std::optional<size_t> group) {
  std::optional<size_t> path = header.best(ColumnRole::image), label = header.best(ColumnRole::label);
  const auto images = [&](size_t column) { return all_cells(rows, column, 1, is_image_cell); };
  if (!header.plausible() && !(path && label)) return std::nullopt;
  // The content of the cells goes before what the header says: ids of images are called "image", too.
  if (!path || !images(*path)) {
    for (size_t i = 0; i < header.width(); ++i) {
      if (!images(i)) continue;
      path = i;
      break;
    }
  }
  if (!path) return std::nullopt;
  const bool named_images = images(*path);
  const bool words_alone = label && header.role(*path) == ColumnRole::image && !header.best(ColumnRole::text) &&
                           !all_cells(rows, *path, 1, is_no_image);
  if (!named_images && !words_alone) return std::nullopt;
  if (!label) label = header.only_other_than({*path, group.value_or(*path)});
  if (!label && (!named_images || header.width() < 2)) return std::nullopt;
  ListColumns c{.path = *path, .labels = {}, .first_row = 1, .note = {}};
  if (label) c.labels = {*label};
  return c;
}

std::string note_on_columns(const ListColumns& c, const TableHeader& header) {
  std::vector<size_t> read = c.labels;
  read.push_back(c.path);
  if (c.group) read.push_back(*c.group);
  const std::string aside = header.left_aside(read);
  const bool usual =
      header.role(c.path) == ColumnRole::image && c.labels.size() == 1 && header.role(c.labels[0]) == ColumnRole::label;
  if (c.first_row == 0 || (aside.empty() && usual)) return {};
  std::vector<std::string> names;
  for (const size_t label : c.labels) names.push_back(cat("'", header.word(label), "'"));
  return cat("images are in column '", header.word(c.path), "', labels those of ", join(names, ", "),
             aside.empty() ? "" : cat("; not read: ", aside));
}

// The column that a flag gives, by name or by number from 1.
size_t asked_column(const char* flag, const std::string& name, const TableHeader& header, const std::string& file) {
  if (const std::optional<size_t> at = header.find(name)) return *at;
  const auto number = parse_number<int64_t>(name);
  if (!number) refuse_column(flag, name, header.words(), file);
  if (*number < 1 || *number > static_cast<int64_t>(header.width())) {
    refuse_value(flag, name, cat(file, " has columns 1 to ", header.width()));
  }
  return static_cast<size_t>(*number - 1);
}

// The columns where those of the labels are given.
ListColumns asked_columns(const ListRows& rows, const std::vector<std::string>& asked, const std::string& file) {
  const TableHeader header(rows[0].cells);
  ListColumns c{.path = 0, .labels = {}, .first_row = 1, .note = {}};
  for (const std::string& name : asked) c.labels.push_back(asked_column("--label-column", name, header, file));
  for (size_t i = 0; i < header.width(); ++i) {
    if (std::find(c.labels.begin(), c.labels.end(), i) != c.labels.end() || !all_cells(rows, i, 1, is_image_cell))
      continue;
    c.path = i;
    if (is_image_cell(rows[0].cells[i])) c.first_row = 0;
    return c;
  }
  fail(ErrorKind::data, file, "no column other than ", join(asked, ", "), " has names of images");
}

std::optional<ListColumns> list_columns(const ListRows& rows, std::optional<size_t> group = {}) {
  if (rows.empty()) return std::nullopt;
  const TableHeader header(rows[0].cells);
  if (auto c = with_header(rows, header, group)) return c;
  if (header.width() != 2) return std::nullopt;
  for (const size_t path : {0, 1}) {
    if (is_image_cell(rows[0].cells[path]))
      return ListColumns{.path = path, .labels = {1 - path}, .first_row = 0, .note = {}};
  }
  return std::nullopt;
}

// A label that is a number of its own; none for names.
std::optional<int64_t> class_number(const std::string& text) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return parse_number<int64_t>(text);
}

std::vector<std::string> listed_classes(const std::vector<std::string>& names) {
  if (std::all_of(names.begin(), names.end(), [](const auto& n) { return class_number(n).has_value(); })) {
    int64_t largest = 0;
    for (const std::string& n : names) largest = std::max(largest, *class_number(n));
    return numbered_classes(largest + 1);
  }
  std::vector<std::string> classes = names;
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}
}  // namespace

bool is_image_list(const std::string& path) {
  std::error_code ignored;
  if (!ends_with(lower(path), ".csv") || !fs::is_regular_file(path, ignored)) return false;
  constexpr size_t kMostListColumns = 1000;
  try {
    const std::unique_ptr<FileRows> rows = list_rows(path);
    const ListRows first = next_rows(*rows, 1);
    if (first.empty() || first[0].cells.size() > kMostListColumns) return false;
    rows->rewind();
    return list_columns(next_rows(*rows, 1 + kRowsLookedAt)).has_value();
  } catch (const Error&) {
    return false;
  }
}

namespace {
// Throws Error(data) for a file that is no list, or whose label column cannot be inferred.
ListColumns need_columns(const ListRows& first, const TargetOptions& targets, const std::string& file) {
  std::optional<ListColumns> columns;
  std::optional<size_t> group;
  if (!targets.group_column.empty() && !first.empty()) {
    group = asked_column("--group-column", targets.group_column, TableHeader(first[0].cells), file);
  }
  if (!targets.columns.empty() && !first.empty()) {
    columns = asked_columns(first, targets.columns, file);
  } else {
    columns = list_columns(first, group);
  }
  if (!columns) {
    fail(ErrorKind::data, file,
         "not a list of images: expected a header with path and label, or two columns with them");
  }
  const TableHeader header(first[0].cells);
  if (columns->labels.empty()) {
    fail(ErrorKind::data, file, "cannot infer which column is the label: --label-column names it; the columns are ",
         join(header.words(), ", "));
  }
  columns->group = group;
  if (group && (*group == columns->path || std::count(columns->labels.begin(), columns->labels.end(), *group) > 0)) {
    refuse_value("--group-column", targets.group_column, cat("it has the images or the labels of ", file));
  }
  columns->note = note_on_columns(*columns, header);
  return *columns;
}

std::vector<std::string> names_of_columns(const ListColumns& columns, const ListRows& first) {
  std::vector<std::string> names;
  for (const size_t at : columns.labels) {
    names.push_back(columns.first_row > 0 ? std::string(trimmed(first[0].cells[at])) : cat(at + 1));
  }
  return names;
}
}  // namespace

ImageListing read_image_list(const std::string& file, std::vector<std::string>& classes, const TargetOptions& asked) {
  const std::unique_ptr<FileRows> rows = list_rows(file);
  const ListRows first = next_rows(*rows, 1 + kRowsLookedAt);
  const ListColumns columns = need_columns(first, asked, file);
  const bool of_classes = asked.kind == TargetKind::classes;
  if (of_classes && columns.labels.size() > 1) {
    refuse_value("--label-column", join(asked.columns, ","), "expected one column, or --task regression or multilabel");
  }
  ImageListing out{.where = file, .paths = {}, .labels = {}, .notes = {}};
  if (!columns.note.empty()) out.notes.push_back(columns.note);
  const fs::path folder = fs::path(file).parent_path();
  TargetRows targets(asked.kind, names_of_columns(columns, first));
  std::vector<std::string> names, cells;
  std::vector<int64_t> lines;
  size_t unusual = 0, number = 0;
  std::span<const std::string_view> fields;
  int64_t line = 0;
  rows->rewind();
  while (rows->next(fields, line)) {
    if (number++ < columns.first_row) continue;
    const std::string where = cat(file, ":", line);
    if (fields.size() != first[0].cells.size()) {
      fail(ErrorKind::data, where, "expected ", first[0].cells.size(), " fields as in the first line, got ",
           fields.size());
    }
    const std::string path(trimmed(fields[columns.path])), name(trimmed(fields[columns.labels[0]]));
    if (path.empty()) fail(ErrorKind::data, where, "the path is empty");
    if (of_classes && name.empty()) fail(ErrorKind::data, where, "the label is empty");
    if (columns.group) {
      out.groups.emplace_back(trimmed(fields[*columns.group]));
      if (out.groups.back().empty()) fail(ErrorKind::data, where, "the group is empty (", asked.group_column, ")");
    }
    unusual += io::is_image_name(path) ? 0 : 1;
    out.paths.push_back((folder / path).string());  // an absolute path stays as it is
    if (!of_classes) {
      cells.clear();
      for (const size_t at : columns.labels) cells.emplace_back(fields[at]);
      if (const std::string fault = targets.add(cells, where); !fault.empty()) fail(ErrorKind::data, where, fault);
      continue;
    }
    names.push_back(name);
    lines.push_back(line);
  }
  if (out.paths.empty()) fail(ErrorKind::data, file, "lists no images");
  if (unusual > 0) {
    out.notes.push_back(cat(with_commas(static_cast<int64_t>(unusual)), " names in ", file, " do not end in ",
                            io::image_endings(), "; they are read as images, as listed"));
  }
  if (!of_classes) {
    Targets read = targets.finished(file, classes);
    if (asked.kind == TargetKind::labels) classes = read.names;
    out.targets = read.array;
    out.target_names = std::move(read.names);
    out.notes.insert(out.notes.end(), read.notes.begin(), read.notes.end());
    return out;
  }
  if (classes.empty()) classes = listed_classes(names);
  std::map<std::string, int64_t> index;
  for (size_t i = 0; i < classes.size(); ++i) index[classes[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; i < names.size(); ++i) {
    auto it = index.find(names[i]);
    if (const auto written = class_number(names[i]); it == index.end() && written) {
      it = index.find(std::to_string(*written));  // "07" is 7
    }
    if (it == index.end()) {
      fail(ErrorKind::data, cat(file, ":", lines[i]), "label out of range: class ", names[i],
           " is not one of the training set: ", classes.size(), " classes, ", classes.front(), " to ", classes.back(),
           class_hint(names[i], classes));
    }
    out.labels.push_back(it->second);
  }
  return out;
}

}  // namespace freight::data
