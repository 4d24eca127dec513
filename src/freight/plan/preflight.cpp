// See preflight.h.
#include "freight/plan/preflight.h"

#include <algorithm>
#include <cmath>

#include "freight/base/cpu_info.h"

namespace freight::plan {

namespace {

struct Mean {
  DraftOptions options;
  std::vector<std::string> flags;
  std::string changes;
};

// BatchNorm takes its statistics over what runs at once.
bool has_batch_statistics(const Subject& subject) {
  const models::Model model = subject.make_model();
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    if (ends_with(v.name, "running_mean")) return true;
  }
  return false;
}

// The cheapest first: more parts cost little, recomputation up to a third of the FLOPs.
// `parts_change`: what of the results parts of a batch change, "" where nothing.
std::vector<Mean> means_for(const DraftOptions& now, const std::string& parts_change) {
  const bool same = parts_change.empty();
  std::vector<Mean> all;
  const auto add = [&](int64_t batch, int64_t parts, Recompute recompute) {
    DraftOptions o = now;
    o.batch = batch;
    o.parts = parts;
    o.recompute = recompute;
    o.whole_run = false;
    std::vector<std::string> flags;
    if (batch != now.batch) flags.insert(flags.end(), {"--batch-size", cat(batch)});
    if (parts != now.parts) flags.insert(flags.end(), {"--grad-accum", cat(parts)});
    if (recompute != now.recompute) {
      flags.insert(flags.end(), {"--recompute", recompute == Recompute::all ? "all" : "auto"});
    }
    const bool other = batch != now.batch;
    all.push_back({o, std::move(flags), other ? "the batch is another" : parts != now.parts ? parts_change : ""});
  };
  const auto add_parts = [&](Recompute recompute) {
    for (int64_t parts = 2 * now.parts; parts <= now.batch; parts *= 2) add(now.batch, parts, recompute);
  };
  if (same) add_parts(now.recompute);
  if (now.recompute == Recompute::none) add(now.batch, now.parts, Recompute::automatic);
  if (now.recompute != Recompute::all) {
    add(now.batch, now.parts, Recompute::all);
    if (same) add_parts(Recompute::all);
  }
  if (!same) {
    add_parts(now.recompute);
    if (now.recompute != Recompute::all) add_parts(Recompute::all);
  }
  for (int64_t batch = now.batch / 2; batch >= 1; batch /= 2) add(batch, 1, Recompute::all);
  return all;
}

// Below this the program's own pages blur a comparison; above, they are within this share.
constexpr double kSureBytes = 200.0 * 1024 * 1024, kTolerance = 0.08;

std::string percent_more(double measured, double planned) {
  const double more = 100 * (measured / planned - 1);
  return cat(more > 0 ? "+" : "", fixed(more, 0), " %");
}

std::string milliseconds(double s) { return cat(fixed(s * 1e3, s < 0.01 ? 2 : s < 0.1 ? 1 : 0), " ms"); }

}  // namespace

Fit fit_within(Draft draft, const Subject& subject, double available) {
  Fit f;
  f.draft = std::move(draft);
  f.needed = static_cast<double>(f.draft.total());
  f.available = available;
  f.fits = f.needed <= f.available;
  if (f.fits) return f;
  // What stays as it is whatever the step does.
  const auto run = static_cast<double>(f.draft.part(Part::evaluation) + f.draft.part(Part::checkpoint));
  const auto kept = run + static_cast<double>(f.draft.part(Part::weights) + f.draft.part(Part::optimizer) +
                                              f.draft.part(Part::averages));
  if (kept > f.available) return f;
  const char* change = has_batch_statistics(subject) ? "BatchNorm takes its statistics over a part of the batch"
                       : f.draft.random              ? "parts of a batch draw other random numbers"
                                                     : "";
  for (const Mean& m : means_for(f.draft.options, change)) {
    const double total = static_cast<double>(plan::draft(subject, m.options).total()) + run;
    if (total > f.available) continue;
    f.flags = m.flags;
    f.options = m.options;
    f.changes = m.changes;
    f.needed_then = total;
    return f;
  }
  return f;
}

Fit check_fit(const train::Planned& planned, double available) {
  return fit_within(draft(planned), subject_of(planned),
                    available > 0 ? available : static_cast<double>(cpu_info().memory_available_bytes));
}

Error refusal(const Fit& f) {
  const auto bytes = [](double n) { return human_bytes(n); };
  std::string text = cat("the run does not fit: got ", bytes(f.available), " free, need ", bytes(f.needed));
  text += "\n  of these";
  std::vector<std::pair<size_t, Part>> parts;
  for (size_t i = 0; i < kParts; ++i) parts.emplace_back(f.draft.bytes[i], static_cast<Part>(i));
  std::sort(parts.rbegin(), parts.rend());
  for (size_t i = 0; i < 4 && parts[i].first > 0; ++i) {
    text += cat(i > 0 ? ", " : " ", to_string(parts[i].second), " ", bytes(static_cast<double>(parts[i].first)));
  }
  text += cat("\n  the largest tensors at the peak (", f.draft.peak, ")");
  for (size_t i = 0; i < std::min<size_t>(f.draft.held.size(), 5); ++i) {
    const Held& h = f.draft.held[i];
    text += cat("\n    ", bytes(static_cast<double>(h.bytes)), "  ", h.path.empty() ? "-" : h.path, "  ", h.what, " ",
                h.type);
  }
  if (f.flags.empty()) {
    text += "\n  no batch size, accumulation or recomputation would fit";
  } else {
    text += cat("\n  would fit, with ", bytes(f.needed_then), ": the same command with ", join(f.flags, " "),
                f.changes.empty() ? "  (or --fit auto)" : cat("  (other results: ", f.changes, ")"));
  }
  return {ErrorKind::capacity, "train", text};
}

std::vector<std::string> comparison(const Outcome& o) {
  std::vector<std::string> lines;
  const double more = o.measured_bytes - o.planned_bytes;
  lines.push_back(cat("memory  planned ", human_bytes(o.planned_bytes), ", measured ", human_bytes(o.measured_bytes),
                      " (",
                      std::max(o.planned_bytes, o.measured_bytes) > kSureBytes
                          ? percent_more(o.measured_bytes, o.planned_bytes)
                          : cat(more < 0 ? "-" : "+", human_bytes(std::fabs(more))),
                      ")"));
  if (o.planned_seconds > 0 && o.measured_seconds > 0) {
    lines.push_back(cat("step    planned ", milliseconds(o.planned_seconds), ", measured ",
                        milliseconds(o.measured_seconds), " (", percent_more(o.measured_seconds, o.planned_seconds),
                        ")"));
  }
  return lines;
}

bool exceeds_plan(const Outcome& o) {
  return o.planned_bytes > kSureBytes && o.measured_bytes > o.planned_bytes * (1 + kTolerance);
}

}  // namespace freight::plan
