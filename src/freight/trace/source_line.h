// SourceLine: the caller's file and line as a default argument. std::source_location does the same, but clang 14 with
// Debian's library does not have it; the builtins are in every GCC and clang of the last years.
#pragma once

namespace freight {

struct SourceLine {
  const char* file = "";
  unsigned line = 0;
  static constexpr SourceLine current(const char* in_file = __builtin_FILE(), unsigned in_line = __builtin_LINE()) {
    return {in_file, in_line};
  }
};

}  // namespace freight
