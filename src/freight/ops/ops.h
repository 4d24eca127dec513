// All user functions on tensors, by subject. An op is one row of the op table and one function here.
#pragma once
#include "freight/ops/conv.h"         // convolution, pooling
#include "freight/ops/elementwise.h"  // operators, pointwise functions
#include "freight/ops/index.h"        // gather, scatter, embedding
#include "freight/ops/indexing.h"     // x[...]
#include "freight/ops/linalg.h"       // matmul, solve, svd
#include "freight/ops/neural.h"       // activations, normalization, losses
#include "freight/ops/random.h"       // random tensors, dropout
#include "freight/ops/reduce.h"       // sum, mean, argmax
#include "freight/ops/sequence.h"     // attention, lstm, gru
#include "freight/ops/shape.h"        // reshape, slice, concat, zeros
#include "freight/ops/sort.h"         // sort, argsort, topk
