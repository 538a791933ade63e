layers.o: nn/layers.cpp nn/layers.h nn/context.h autograd/ops.h \
 autograd/tape.h autograd/profile.h core/tensor.h core/dtype.h \
 core/host_device.h core/shape.h core/error.h core/arena.h core/memory.h \
 core/backend.h core/device.h core/function_ref.h core/kernels.h \
 core/collective.h core/random.h core/philox.h core/resample.h \
 core/step_state.h core/updates.h nn/parameters.h nn/roles.h nn/stream.h \
 nn/sites.h nn/placement.h
nn/layers.h:
nn/context.h:
autograd/ops.h:
autograd/tape.h:
autograd/profile.h:
core/tensor.h:
core/dtype.h:
core/host_device.h:
core/shape.h:
core/error.h:
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
nn/roles.h:
nn/stream.h:
nn/sites.h:
nn/placement.h:
