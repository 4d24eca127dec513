// Formats errors; see error.h.
#include "freight/base/error.h"

namespace freight {

namespace {
std::string format(const std::string& op, const std::string& message, const std::string& where) {
  std::string text = op.empty() ? message : cat(op, ": ", message);
  if (!where.empty()) text += cat(" (", where, ")");
  // Callers quote files and requests by an excerpt; this limit holds where one was forgotten.
  constexpr size_t kMost = 8000;
  if (text.size() > kMost) text.replace(kMost, std::string::npos, "...");
  return text;
}
}  // namespace

Error::Error(ErrorKind kind, std::string op, std::string message, std::string where)
    : std::runtime_error(format(op, message, where)),
      kind_(kind),
      op_(std::move(op)),
      message_(std::move(message)),
      where_(std::move(where)) {}

void throw_error(ErrorKind kind, std::string op, std::string text, std::string where) {
  throw Error(kind, std::move(op), std::move(text), std::move(where));
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw Error(ErrorKind::runtime, "internal check failed", cat(condition, message.empty() ? "" : ": ", message),
              cat(file, ":", line, "; this is a bug in Freight"));
}

}  // namespace freight
