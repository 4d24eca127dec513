// The bf16 kernels for AMX and AVX-512 with emulated instructions, so that every machine tests them: this program is
// made of their sources and of their tests in tests/backend, compiled behind tests/support/emulated_avx512.h.
#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/bf16/convert.h"
#include "tests/backend/bf16_kernels.h"

namespace freight::cpu {

// Of the kernels of all instruction sets (bf16/convert.cpp) the one for AVX-512.
const Bf16Conversion& bf16_conversion() {
  static const Bf16Conversion kConversion = native_conversion();
  return kConversion;
}

namespace {

TEST(Emulated, TablesOfAmxAndOfDotProductsAreThereOnEveryMachine) {
  std::string names;
  for (const Bf16Table* table : all_tables()) names += cat(table->name, " ");
  EXPECT_EQ(names, "amx avx512_bf16 ");
}

}  // namespace
}  // namespace freight::cpu
