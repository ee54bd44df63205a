/* protobuf.h - protobuf-c, opened when it is first needed (system/imported.h). The generated
 * reader includes it, too. */
#ifndef KEEL_ONNX_PROTOBUF_H
#define KEEL_ONNX_PROTOBUF_H

#include <protobuf-c/protobuf-c.h>

#include "system/imported.h"

#define KEEL_PROTOBUF_FUNCTIONS(X)           \
  X(protobuf_c_message_descriptor_get_field) \
  X(protobuf_c_message_free_unpacked)        \
  X(protobuf_c_message_get_packed_size)      \
  X(protobuf_c_message_pack)                 \
  X(protobuf_c_message_pack_to_buffer) X(protobuf_c_message_unpack)

typedef struct keel_protobuf_functions {
  KEEL_PROTOBUF_FUNCTIONS(KEEL_IMPORTED_FIELD)
} keel_protobuf_functions;

#define KEEL_PROTOBUF_LIBRARY "libprotobuf-c.so.1"

/* protobuf-c's functions; NULL without protobuf-c. Any thread. */
const keel_protobuf_functions *keel_protobuf(void);

/* For those that have seen that it is not NULL.
 * NOLINTBEGIN(readability-identifier-naming): the names are the library's */
#define protobuf_c_message_descriptor_get_field \
  keel_protobuf()->protobuf_c_message_descriptor_get_field
#define protobuf_c_message_free_unpacked \
  keel_protobuf()->protobuf_c_message_free_unpacked
#define protobuf_c_message_get_packed_size \
  keel_protobuf()->protobuf_c_message_get_packed_size
#define protobuf_c_message_pack keel_protobuf()->protobuf_c_message_pack
#define protobuf_c_message_pack_to_buffer \
  keel_protobuf()->protobuf_c_message_pack_to_buffer
#define protobuf_c_message_unpack keel_protobuf()->protobuf_c_message_unpack
/* NOLINTEND(readability-identifier-naming) */

#endif /* KEEL_ONNX_PROTOBUF_H */
