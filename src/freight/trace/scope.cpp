// See scope.h.
#include "freight/trace/scope.h"

#include <cstring>

namespace freight {

namespace {
struct ScopeState {
  std::string scope;
  const char* file = nullptr;
  unsigned line = 0;
  const char* function = nullptr;
};
thread_local ScopeState t_place;
}  // namespace

Scope::Scope(const std::string& name) : restore_(t_place.scope.size()) {
  if (name.empty()) return;
  if (restore_ > 0) t_place.scope += '.';
  t_place.scope += name;
}

Scope::~Scope() { t_place.scope.resize(restore_); }

Frame::Frame(const SourceLine& where, const char* function)
    : outermost_(t_place.file == nullptr), names_(function && !t_place.function) {
  if (names_) t_place.function = function;
  if (!outermost_) return;
  t_place.file = where.file;
  t_place.line = where.line;
}

Frame::~Frame() {
  if (names_) t_place.function = nullptr;
  if (outermost_) t_place.file = nullptr;
}

namespace trace {

ScopeInstead::ScopeInstead(const std::string& path) : before_(path) { t_place.scope.swap(before_); }
ScopeInstead::~ScopeInstead() { t_place.scope.swap(before_); }

const std::string& scope() { return t_place.scope; }

std::string where() {
  if (!t_place.file) return {};
  const char* slash = std::strrchr(t_place.file, '/');
  std::string text = slash ? slash + 1 : t_place.file;
  if (t_place.line > 0) text += ":" + std::to_string(t_place.line);
  return text;
}

const char* function() { return t_place.function; }

std::string location() {
  const std::string line = where();
  if (t_place.scope.empty()) return line;
  return line.empty() ? t_place.scope : t_place.scope + ", " + line;
}

}  // namespace trace

}  // namespace freight
