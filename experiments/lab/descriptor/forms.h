// All forms. A file that uses one includes them all, so that none is mistaken for that of an object with rows.
#pragma once

#include "experiments/lab/descriptor/block_forms.h"
#include "experiments/lab/descriptor/data_forms.h"
#include "experiments/lab/descriptor/model_forms.h"
