// All modules and initialisers.
#pragma once
#include "freight/nn/activation.h"
#include "freight/nn/attention.h"
#include "freight/nn/container.h"
#include "freight/nn/init.h"
#include "freight/nn/layer_type.h"
#include "freight/nn/layers.h"
#include "freight/nn/module.h"
#include "freight/nn/norm.h"
#include "freight/nn/recurrent.h"
#include "freight/nn/text_layers.h"
#include "freight/nn/whitening.h"
