// Runs a check with the kernels of each instruction set that this processor has.
#pragma once
#include <gtest/gtest.h>

#include "freight/backend/cpu/kernels/simd_tables.h"

namespace freight::test {

template <class Check>
void for_each_simd_target(const Check& check) {
  for (const std::string& target : cpu::simd_targets()) {
    SCOPED_TRACE(target);
    const cpu::ForcedSimdTarget forced(target);
    check();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace freight::test
