// Convolutions over one spatial axis whose rows are long, by oneDNN and piece by piece. The code that oneDNN makes for
// a convolution grows with its row (for a million results 4 s of making and 700 MiB), and beyond 2^31 bytes its
// displacements wrap: it ended the process.
#pragma once
#include <functional>
#include <memory>

#include "freight/backend/cpu/conv_op.h"

namespace freight::cpu {

// True where the rows are cut. Those over two spatial axes are not: beyond some length they are refused by name.
bool cuts_rows(const ConvOp& p);
// The piece that most are like, by which the weight's format is asked for.
ConvOp usual_piece(const ConvOp& p);
// The step, of the kernels that `make` gives for pieces. Operands are those of the op; `weight_bytes` are those of the
// weight as it lies.
std::unique_ptr<Kernel> make_conv_rows(const ConvOp& p, size_t operands, size_t weight_bytes,
                                       const std::function<std::unique_ptr<Kernel>(const ConvOp&)>& make);

}  // namespace freight::cpu
