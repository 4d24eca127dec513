// See scope.h.
#include "freight/trace/scope.h"

#include <cstring>

#include "freight/trace/thread_context.h"

namespace freight {

using trace::thread_context;

Scope::Scope(const std::string& name) : restore_(thread_context().scope.size()) {
  if (name.empty()) return;
  std::string& scope = thread_context().scope;
  if (restore_ > 0) scope += '.';
  scope += name;
}

Scope::~Scope() { thread_context().scope.resize(restore_); }

Frame::Frame(const SourceLine& where, const char* function) {
  trace::ThreadContext& c = thread_context();
  outermost_ = c.file == nullptr;
  names_ = function && !c.function;
  if (names_) c.function = function;
  if (!outermost_) return;
  c.file = where.file;
  c.line = where.line;
}

Frame::~Frame() {
  trace::ThreadContext& c = thread_context();
  if (names_) c.function = nullptr;
  if (outermost_) c.file = nullptr;
}

namespace trace {

ScopeInstead::ScopeInstead(const std::string& path) : before_(path) { thread_context().scope.swap(before_); }
ScopeInstead::~ScopeInstead() { thread_context().scope.swap(before_); }

const std::string& scope() { return thread_context().scope; }

std::string where() {
  const ThreadContext& c = thread_context();
  if (!c.file) return {};
  const char* slash = std::strrchr(c.file, '/');
  std::string text = slash ? slash + 1 : c.file;
  if (c.line > 0) text += ":" + std::to_string(c.line);
  return text;
}

const char* function() { return thread_context().function; }

std::string location() {
  const std::string& path = scope();
  const std::string line = where();
  if (path.empty()) return line;
  return line.empty() ? path : path + ", " + line;
}

}  // namespace trace

}  // namespace freight
