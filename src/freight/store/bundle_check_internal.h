// Checks a saved model in one place, before anything uses its contents.
#pragma once
#include <string>

#include "freight/store/bundle.h"

namespace freight::store {

// Refuses a model of tables whose class names do not match its outputs, or with invalid provenance.
void check_rows(const Bundle& bundle, const std::string& path);
// Checks all of a bundle but its weights. Throws Error(checkpoint) that begins with the file's name if the input is not
// the model's, scales are out of range, names do not match the outputs, or the provenance is invalid.
void check_said(const Bundle& bundle, const std::string& path);
// Throws Error(checkpoint) for a weight that is not finite (nn/sound.h). A NaN need not show in a prediction: it may
// belong to a row that the input does not use.
void need_finite(const nn::Module& net, const std::string& path);
void need_finite(const nn::NamedArray& tensor, Variable::Role role, const std::string& path);

}  // namespace freight::store
