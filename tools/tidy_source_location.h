// Seen by clang-tidy alone (tools/check_tidy): clang 14 lacks the builtin that libstdc++ 12's <source_location> needs, so
// that header is empty there. The same interface from clang's older builtins.
#pragma once
#if defined(__clang__) && __clang_major__ < 16
namespace std {
struct source_location {
  static constexpr source_location current(const char* file = __builtin_FILE(), const char* function = __builtin_FUNCTION(),
                                           unsigned line = __builtin_LINE(), unsigned column = 0) {
    source_location here;
    here.file_ = file;
    here.function_ = function;
    here.line_ = line;
    here.column_ = column;
    return here;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return function_; }
  constexpr unsigned line() const { return line_; }
  constexpr unsigned column() const { return column_; }

 private:
  const char* file_ = "";
  const char* function_ = "";
  unsigned line_ = 0, column_ = 0;
};
}  // namespace std
#endif
