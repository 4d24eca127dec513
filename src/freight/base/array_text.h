// An array as text for people, in NumPy's form. Exact numbers are in the files that io writes.
#pragma once
#include <string>

#include "freight/base/array.h"

namespace freight {

// The text is that of NumPy's str(): nested brackets, columns under each other, at most eight digits behind the point,
// lines of at most 75 characters. Of more than 1,000 elements it shows the first and last three along each axis.
std::string text_of(const Array& array);

}  // namespace freight
