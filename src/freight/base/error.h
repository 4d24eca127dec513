// The one exception type of Freight. Every message reads `op: what is wrong: got ..., need ... (scope, file:line)`.
// The kind decides the exit code of the command line (docs/train.md has the table).
#pragma once
#include <stdexcept>
#include <string>

#include "freight/base/strings.h"

namespace freight {

enum class ErrorKind : int {  // Kinds of errors; each number is an exit code.
  runtime = 1,                // failure at run time: I/O, internal checks
  usage = 2,                  // wrong arguments, wrong shapes in a user's program, wrong model spec
  data = 3,                   // a data file is missing, damaged or inconsistent
  device = 4,                 // device missing or unsupported
  capacity = 5,               // does not fit into memory
  diverged = 6,               // NaN or infinite loss
  peer_lost = 7,
  checkpoint = 8,  // checkpoint or model file damaged or incompatible
  verification = 9,
};

class Error : public std::runtime_error {  // Every error of the library.
 public:
  // `op` names the thing at fault (an op, a flag, a file), `where` the module path and source line, may be empty.
  Error(ErrorKind error_kind, std::string op_name, std::string text, std::string location = {});

  ErrorKind kind() const { return kind_; }                   // the kind, by which callers decide
  int exit_code() const { return static_cast<int>(kind_); }  // 1 to 9
  const std::string& op() const { return op_; }              // the op, flag or file at fault
  const std::string& message() const { return message_; }    // what is wrong, got and needed
  const std::string& where() const { return where_; }        // module path and source line

 private:
  ErrorKind kind_;
  std::string op_, message_, where_;
};

[[noreturn]] void throw_error(ErrorKind kind, std::string op, std::string text,
                              std::string where = {});  // Error of these
// Throws Error(kind, op, cat(parts...)). Hundreds of instances stand in the library: cold code is compiled for size.
template <class... Parts>
[[noreturn, gnu::cold]] void fail(ErrorKind kind, std::string op, const Parts&... parts) {
  throw_error(kind, std::move(op), cat(parts...));
}

// An internal invariant; a failure is a bug of Freight, and the message says so.
#define FREIGHT_CHECK(condition, ...)                                                                       \
  do {                                                                                                      \
    if (!(condition)) ::freight::check_failed(#condition, __FILE__, __LINE__, ::freight::cat(__VA_ARGS__)); \
  } while (0)
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);  // fails

}  // namespace freight
