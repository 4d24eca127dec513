// A stored model is checked in one place before anything is done with what it says.
#pragma once
#include <string>

#include "freight/store/bundle.h"

namespace freight::store {

// Refuses, as check_said does, of a model of rows: class names other than those of the outputs, strange provenance.
void check_rows(const Bundle& bundle, const std::string& path);
// Checks all of a bundle but its weights. Throws Error(checkpoint) that begins with the file's name: an input that is
// not the model's, scales that no division bears, names that are not those of the outputs, strange provenance.
void check_said(const Bundle& bundle, const std::string& path);
// Throws the same for a weight that is not finite. One that is NaN need not show in an answer: it may belong to a row
// that the input does not reach.
void need_finite(const nn::Module& net, const std::string& path);

}  // namespace freight::store
