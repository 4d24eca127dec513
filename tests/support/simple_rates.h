// Rates of a machine that was calibrated by two kernels: enough for a plan to have times.
#pragma once
#include "freight/plan/rates.h"

namespace freight::plan {

inline Rates simple_rates() {
  Rates rates;
  rates.p90_error = 0.1;
  Work pass, product;
  pass.kind = "map";
  pass.bytes = 1e6;
  rates.add({pass, 1e-4});
  product.kind = "matmul";
  product.m = product.n = product.k = 100;
  product.flops = 2e6;
  rates.add({product, 1e-5});
  return rates;
}

}  // namespace freight::plan
