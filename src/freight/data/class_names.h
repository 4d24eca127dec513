// Names of classes that are not the same and look so: what a message adds where a name is not found, and what a note
// says of names that stand beside each other.
#pragma once
#include <string>
#include <vector>

namespace freight::data {

// "; is it cat?", or that the name differs from one of `classes` in Unicode form alone (composed and decomposed accents
// look the same); "" where no name is near.
std::string class_hint(const std::string& name, const std::vector<std::string>& classes);
// Says of the first two classes that differ in Unicode form alone that they do; "" where there are none.
std::string class_forms_note(const std::vector<std::string>& classes);

}  // namespace freight::data
