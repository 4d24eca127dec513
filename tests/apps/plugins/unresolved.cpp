// A plugin that needs a function which Freight does not have.
#include "freight/nn/plugin.h"

void function_of_another_freight();
FREIGHT_PLUGIN { function_of_another_freight(); }
