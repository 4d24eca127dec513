// The error that a piece of code throws, for tests that look at it more closely than expect_error.
#pragma once
#include <string>

#include "freight/base/error.h"

namespace freight::testing {

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return Error(ErrorKind::runtime, "test", "nothing was thrown");
}

// Its message; "no error" where nothing was thrown.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace freight::testing
