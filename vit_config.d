vit_config.o: nn/vit_config.cpp nn/vit_config.h nn/model_cost.h \
 core/error.h nn/sites.h nn/placement.h nn/roles.h nn/vit.h \
 nn/any_model.h nn/context.h autograd/ops.h autograd/tape.h \
 autograd/profile.h core/tensor.h core/dtype.h core/host_device.h \
 core/shape.h core/arena.h core/memory.h core/backend.h core/device.h \
 core/function_ref.h core/kernels.h core/collective.h core/random.h \
 core/philox.h core/resample.h core/step_state.h core/updates.h \
 nn/parameters.h nn/stream.h nn/branches.h nn/layers.h
nn/vit_config.h:
nn/model_cost.h:
core/error.h:
nn/sites.h:
nn/placement.h:
nn/roles.h:
nn/vit.h:
nn/any_model.h:
nn/context.h:
autograd/ops.h:
autograd/tape.h:
autograd/profile.h:
core/tensor.h:
core/dtype.h:
core/host_device.h:
core/shape.h:
core/arena.h:
core/memory.h:
core/backend.h:
core/device.h:
core/function_ref.h:
core/kernels.h:
core/collective.h:
core/random.h:
core/philox.h:
core/resample.h:
core/step_state.h:
core/updates.h:
nn/parameters.h:
nn/stream.h:
nn/branches.h:
nn/layers.h:
