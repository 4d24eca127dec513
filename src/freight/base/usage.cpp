// See usage.h.
#include "freight/base/usage.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "freight/base/error.h"
#include "freight/base/other_names_internal.h"
#include "freight/base/printable.h"

namespace freight {

namespace {

// Counts print without a fraction or exponent.
std::string number_text(double v) {
  return std::fabs(v) < 1e15 && v == std::floor(v) ? cat(static_cast<int64_t>(v)) : cat(v);
}

[[noreturn]] void refuse_number(const std::string& what, const std::string& name, const std::string& range,
                                double got) {
  fail(ErrorKind::usage, what, name, name.empty() ? "" : ": ", "expected ", range, ", got ", number_text(got));
}

std::string without_blanks(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::string comparable(const std::string& name) {
  std::string text = lower(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

}  // namespace

const std::vector<OtherName>& other_names() {
  static const std::vector<OtherName> kNames = [] {
    std::vector<OtherName> rows;
    for (const std::string& line : split(other_names_file(), '\n')) {
      if (line.empty() || line[0] == '#') continue;
      std::vector<std::string> cells;
      for (const std::string& cell : split(line, '|')) cells.push_back(without_blanks(cell));
      cells.resize(4);
      std::vector<std::string> here;
      if (!cells[2].empty()) here = split(cells[2], ' ');
      rows.push_back({cells[0], cells[1], here, cells[3]});
    }
    return rows;
  }();
  return kNames;
}

void excludes(const GivenFlag& a, const GivenFlag& b, const std::string& why) {
  if (!a.given || !b.given) return;
  fail(ErrorKind::usage, a.flag, "cannot be combined with ", b.flag, why.empty() ? "" : ": ", why);
}

void requires_flag(const GivenFlag& a, const GivenFlag& needed, const std::string& why) {
  if (!a.given || needed.given) return;
  fail(ErrorKind::usage, a.flag, "needs ", needed.flag, ": ", why);
}

void refuse_unknown(const std::string& what, const UnknownName& name) {
  fail(ErrorKind::usage, what, "unknown ", name.kind, name.got == what ? "" : cat(" '", excerpt(name.got), "'"),
       did_you_mean(name.got, name.known, name.otherwise), name.all);
}

void refuse_column(const std::string& what, const std::string& column, const std::vector<std::string>& columns,
                   const std::string& table) {
  fail(ErrorKind::usage, what, "there is no column ", excerpt(column), " in ", table, ": got ",
       excerpt(join(columns, ", ")), did_you_mean(column, columns));
}

void refuse_value(const std::string& what, const std::string& got, const std::string& why) {
  fail(ErrorKind::usage, what, "got ", excerpt(got), ": ", why);
}

void refuse_unset(const std::string& variable, const std::string& why) {
  fail(ErrorKind::usage, variable, "is not set", why);
}

void need_file(const std::string& what, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) fail(ErrorKind::usage, what, "there is no file ", path);
}

void need_no_stream(const std::string& what, const std::string& path, const std::string& why) {
  if (path == "-") fail(ErrorKind::usage, what, "expected a path, got -: ", why);
}

void need_part_for_each(const std::string& what, const DeviceParts& p) {
  if (p.parts >= p.devices) return;
  fail(ErrorKind::usage, what, "got ", p.devices, " devices for ", p.of, ": ", p.fix);
}

void refuse_flag_of(const std::string& flag, const std::string& of, const std::string& here) {
  fail(ErrorKind::usage, {}, flag, " is a flag of ", of, "; ", here);
}

std::string did_you_mean(const std::string& got, const std::vector<std::string>& known, const std::string& otherwise) {
  const std::string name = comparable(got);
  for (const std::string& k : known) {
    if (comparable(k) == name) return cat("; did you mean ", excerpt(k), "?");
  }
  for (const OtherName& other : other_names()) {
    if (other.name != name) continue;
    if (other.here.empty()) return cat("; ", other.note);
    for (const std::string& here : other.here) {
      if (std::find(known.begin(), known.end(), here) == known.end()) continue;
      return cat("; did you mean ", here, "?", other.note.empty() ? "" : cat(" (", other.note, ")"));
    }
  }
  const std::string near = nearest(got, known);
  return near.empty() ? otherwise : cat("; did you mean ", excerpt(near), "?");
}

void refuse_name(const std::string& what, const std::string& got, const std::vector<std::string>& known) {
  fail(ErrorKind::usage, what, "unknown value: expected one of ", join(known, ", "), ", got ", excerpt(got),
       did_you_mean(got, known));
}

void need_name(const std::string& what, const std::string& got, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), got) == known.end()) refuse_name(what, got, known);
}

void refuse_text(const std::string& what, const std::string& form, const std::string& got) {
  fail(ErrorKind::usage, what, "expected ", form, ", got '", excerpt(got), "'");
}

void need_between(const std::string& what, const std::string& name, double got, double least, double most) {
  if (std::isfinite(got) && got >= least && got <= most) return;
  refuse_number(
      what, name,
      std::isinf(most) ? cat("at least ", number_text(least)) : cat(number_text(least), " to ", number_text(most)),
      got);
}

void need_below(const std::string& what, const std::string& name, double got, double least, double below) {
  if (got >= least && got < below) return;
  refuse_number(
      what, name,
      cat(std::isinf(least) ? "" : cat("at least ", number_text(least), " and "), "below ", number_text(below)), got);
}

void need_positive(const std::string& what, const std::string& name, double got) {
  if (!(got > 0) || !std::isfinite(got)) refuse_number(what, name, "a number above 0", got);
}

void need_count(const std::string& what, const std::string& name, size_t got, size_t expected) {
  if (got != expected) fail(ErrorKind::usage, what, "expected ", expected, ", got ", got, " ", name);
}

void need_multiple(const std::string& what, const std::string& name, int64_t got, int64_t of) {
  if (got % of != 0) refuse_number(what, name, cat("a multiple of ", of), static_cast<double>(got));
}

void need_given(const std::string& flag, bool given, const std::string& command) {
  if (!given) fail(ErrorKind::usage, flag, "is missing; see freight ", command, " --help");
}

void refuse_twice(const std::string& what, const std::string& things, const std::string& name) {
  fail(ErrorKind::usage, what, "two ", things, " are named '", excerpt(name), "'");
}

}  // namespace freight
