/* protobuf.c - opens protobuf-c. */
#include "frontends/onnx/protobuf.h"

KEEL_IMPORT_WITH(keel_protobuf, keel_protobuf_functions, KEEL_PROTOBUF_LIBRARY,
                 KEEL_PROTOBUF_FUNCTIONS)
