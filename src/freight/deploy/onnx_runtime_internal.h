// Runs ONNX files through ONNX Runtime in a Python that the user names. Freight itself needs neither.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"

namespace freight::deploy::onnx {

// Throws Error(usage) where `python` cannot run ONNX Runtime and NumPy.
void need_python(const std::string& python);
// The results of the file for each input. Throws Error(verification) with the last words where it is refused.
std::vector<Array> run_in_python(const std::string& python, const std::string& file, const std::vector<Array>& inputs,
                                 const std::string& scratch_dir);
// The file after ONNX's own checker; false where `python` has no package onnx. Throws Error(verification).
bool check_in_python(const std::string& python, const std::string& file, const std::string& scratch_dir);

}  // namespace freight::deploy::onnx
