// Expands Slurm's lists of hosts; see launch_environment.h.
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/comm/launch_environment.h"

namespace freight::comm {

namespace {

constexpr size_t kMostHosts = 65536;

class HostList {
 public:
  HostList(const std::string& variable, std::string_view text) : variable_(variable), text_(text) {}

  std::vector<std::string> expand() {
    std::vector<std::string> all;
    size_t begin = 0;
    int depth = 0;
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == ',' && depth == 0) {
        expand_name(text_.substr(begin, i - begin), {}, all);
        begin = i + 1;
      } else if (text_[i] == '[' || text_[i] == ']') {
        depth += text_[i] == '[' ? 1 : -1;
        if (depth < 0 || depth > 1) refuse("its brackets do not match");
      }
    }
    if (depth != 0) refuse("its brackets do not match");
    expand_name(text_.substr(begin), {}, all);
    return all;
  }

 private:
  // Appends the names that `name` stands for, each behind the prefix `done`, whose brackets are expanded already.
  void expand_name(std::string_view name, const std::string& done, std::vector<std::string>& all) {
    const size_t open = name.find('[');
    if (open == std::string_view::npos) {
      if (done.empty() && name.empty()) refuse("a name is empty");
      if (all.size() == kMostHosts) refuse(cat("it has more than ", kMostHosts, " hosts"));
      all.push_back(done + std::string(name));
      return;
    }
    const size_t close = name.find(']');
    const std::string before = done + std::string(name.substr(0, open));
    for (const std::string& range : split(name.substr(open + 1, close - open - 1), ',')) {
      const size_t dash = range.find('-');
      const std::string low = range.substr(0, dash), high = dash == std::string::npos ? low : range.substr(dash + 1);
      const int64_t last = number(high);
      for (int64_t i = number(low); i <= last; ++i) {
        std::string digits = cat(i);
        // Keeps the leading zeros of node[08-10].
        if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
        expand_name(name.substr(close + 1), before + digits, all);
      }
      if (number(low) > last) refuse(cat("the range ", range, " falls"));
    }
  }

  int64_t number(const std::string& digits) const {
    constexpr size_t kMostDigits = 12;
    const int64_t v = digits.size() <= kMostDigits ? parse_number<int64_t>(digits).value_or(-1) : -1;
    if (v < 0) {
      refuse(cat("'", digits, "' in its brackets is not a number"));
    }
    return v;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorKind::usage, variable_, "expected a list of hosts like node[01-03,7],login, got '", excerpt(text_),
         "': ", why);
  }

  const std::string& variable_;
  std::string_view text_;
};

}  // namespace

std::vector<std::string> expand_host_list(const std::string& variable, const std::string& text) {
  return HostList(variable, text).expand();
}

}  // namespace freight::comm
