// An array as text for people, in NumPy's form. Exact numbers are in the files that io writes.
#pragma once
#include <string>

#include "freight/base/array.h"

namespace freight {

// As str() of NumPy's array: nested brackets, columns under each other, at most eight digits behind the point, lines of
// at most 75 characters; of more than 1,000 elements the first and last three along each axis.
std::string text_of(const Array& array);

}  // namespace freight
