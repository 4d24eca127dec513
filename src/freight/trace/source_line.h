// SourceLine: the caller's file and line as a default argument. std::source_location does the same, but clang 14 with
// Debian's library does not have it; the builtins are in every GCC and clang of the last years.
#pragma once

// A function that exists to tell its caller, at the caller's line, why it cannot be called and what to do instead.
// Without it the compiler would tell the lines of the library where it gave up.
#define FREIGHT_REFUSED(why) __attribute__((unavailable(why)))

namespace freight {

// A line of a program.
struct SourceLine {
  const char* file = "";  // as the compiler names it
  unsigned line = 0;      // from 1; 0: none
  // The line of the caller, as the default of an argument.
  static constexpr SourceLine current(const char* in_file = __builtin_FILE(), unsigned in_line = __builtin_LINE()) {
    return {in_file, in_line};
  }
};

}  // namespace freight
