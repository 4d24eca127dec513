// Class names that differ but look the same: a hint for messages about a name that was not found, and a note on two
// such classes.
#pragma once
#include <string>
#include <vector>

namespace freight::data {

// "; is it cat?", or that the name differs from one of `classes` only in Unicode form (composed and decomposed accents
// look the same); "" if no name is similar.
std::string class_hint(const std::string& name, const std::vector<std::string>& classes);
// A note on the first two classes that differ only in Unicode form; "" if there are none.
std::string class_forms_note(const std::vector<std::string>& classes);

}  // namespace freight::data
