// verify.cpp (classes and values), verify_rows.cpp and verify_language.cpp share this. Internal to deploy.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "freight/deploy/verify.h"

namespace freight::deploy {

// Rounding in f32 of nets with large logits stays an order below this; a wrong mean or a lost flip is far above.
inline constexpr double kVerifyLimit = 1e-4;
inline constexpr const char* kNeedsPython = "needs a Python with onnxruntime: --onnx-runtime PYTHON";

// The claim as its difference says.
Claim judged(Claim c, double limit = kVerifyLimit);

// Judges one claim after the other until options.stop; options.heard is told of each.
std::vector<Claim> judged_in_turn(std::span<const std::function<Claim()>> all, const VerifyOptions& options);

// Checks the file and runs it on the inputs; what ONNX's checker or ONNX Runtime refuses fails the claim.
Claim through_runtime(Claim c, const std::string& python, const std::string& file, const std::string& scratch_dir,
                      const std::vector<Array>& inputs,
                      const std::function<double(const std::vector<Array>& results)>& difference);

std::vector<Claim> verify_rows(store::Bundle bundle, const VerifyOptions& options);
std::vector<Claim> verify_language(store::Bundle evaluated, store::Bundle deployed, const VerifyOptions& options);

}  // namespace freight::deploy
