// Where the program is: the module path (Scope) and the user's source line (Frame). Both are per thread; nodes that
// are traced record them, so that errors, profiles and plans speak the user's names.
#pragma once
#include <string>

#include "freight/trace/source_line.h"

namespace freight {

// Pushes one name on the module path while it lives: Scope a("layer1"), b("conv2") gives "layer1.conv2".
// An empty name changes nothing.
class Scope {
 public:
  explicit Scope(const std::string& name);  // until the end of the scope
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  size_t restore_;
};

// Sets the source line that nodes record. The outermost Frame wins: inside a module or a function of the library the
// line of the user's call stays.
class Frame {
 public:
  // Until the end of the scope. `function`, a literal, is what the user calls by that line; the outermost that has one
  // wins.
  explicit Frame(const SourceLine& where, const char* function = nullptr);
  // `source` is kept as given, for example the name of a spec file.
  explicit Frame(const char* source) : Frame(SourceLine{source, 0}) {}
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  bool outermost_, names_;
};

namespace trace {
// Stands in for the whole module path while it lives.
class ScopeInstead {
 public:
  explicit ScopeInstead(const std::string& path);  // until the end of the scope
  ~ScopeInstead();
  ScopeInstead(const ScopeInstead&) = delete;
  ScopeInstead& operator=(const ScopeInstead&) = delete;

 private:
  std::string before_;
};

const std::string& scope();
// "train.cpp:42"; empty outside of any frame.
std::string where();
// "enc.fc1, train.cpp:42" for messages.
std::string location();
// The function of ops/ that the user called: errors about the nodes that it is made of name it. Null outside of one.
const char* function();
}  // namespace trace

}  // namespace freight
