swin_config.o: nn/swin_config.cpp nn/swin_config.h nn/vit_config.h \
 nn/model_cost.h core/error.h nn/sites.h nn/placement.h nn/roles.h
nn/swin_config.h:
nn/vit_config.h:
nn/model_cost.h:
core/error.h:
nn/sites.h:
nn/placement.h:
nn/roles.h:
