// What a stored model says, checked in one place before anything is done with it.
#pragma once
#include <string>

#include "freight/store/bundle.h"

namespace freight::store {

// Of a model of rows: class names that are not those of the outputs, provenance of another kind. Throws as check_said.
void check_rows(const Bundle& bundle, const std::string& path);
// Of a bundle without its weights. Throws Error(checkpoint) that begins with the file's name: an input that is not the
// model's, scales that no division bears, names that are not those of the outputs, provenance of another kind.
void check_said(const Bundle& bundle, const std::string& path);
// Throws the same for a weight that is not finite. One that is NaN need not show in an answer: it may belong to a row
// that the input does not reach.
void need_finite(const models::Model& model, const std::string& path);

}  // namespace freight::store
