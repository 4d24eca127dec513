// Optimizers, schedules and weight averaging.
#pragma once
#include "freight/optim/create.h"
#include "freight/optim/ema.h"
#include "freight/optim/groups.h"
#include "freight/optim/loss_scale.h"
#include "freight/optim/muon.h"
#include "freight/optim/optimizer.h"
#include "freight/optim/schedule.h"
