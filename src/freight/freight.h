// Freight for users: tensors, compiled steps, modules, optimizers, models, data. Light on purpose: including this file
// and building a net compiles in under two seconds, and no third-party header comes with it.
#pragma once
#include "freight/base/error.h"
#include "freight/data/catalog.h"
#include "freight/data/loader.h"
#include "freight/data/tokens.h"
#include "freight/models/loss.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/optim/optim.h"
#include "freight/trace/compile.h"
#include "freight/trace/scope.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"
