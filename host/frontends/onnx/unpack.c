/* unpack.c - protobuf-c, made safe for files of any origin.
 *
 * protobuf-c recurses as deep as the message nests and allocates what repeated
 * fields promise. So the wire format is walked first, by the same descriptors,
 * with a bound on the depth; and memory is taken through an allocator that
 * stops at a multiple of the file's size. */
#include "import.h"

#define DEPTH_MOST  100
#define MEMORY_MOST 200 /* bytes for each byte of the file */

/* ---- the wire format: a walk ----------------------------------------------- */

typedef struct wire {
  const uint8_t *at, *end;
} wire;

static bool varint(wire *wire, uint64_t *out_value) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
    uint8_t byte = *wire->at++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) {
      *out_value = value;
      return true;
    }
  }
  return false;
}

static const ProtobufCFieldDescriptor *field_of(
    const ProtobufCMessageDescriptor *kind, uint64_t number) {
  if (!kind || number > UINT32_MAX) return NULL;
  return protobuf_c_message_descriptor_get_field(kind, (unsigned)number);
}

static bool walk(wire wire, const ProtobufCMessageDescriptor *kind,
                 unsigned depth);

static bool walk_field(wire *at, const ProtobufCFieldDescriptor *field,
                       unsigned type, unsigned depth) {
  uint64_t value = 0;
  switch (type) {
    case 0:
      return varint(at, &value);
    case 1:
      value = 8;
      break;
    case 2:
      if (!varint(at, &value)) return false;
      break;
    case 5:
      value = 4;
      break;
    default:
      return false;
  }
  if (value > (uint64_t)(at->end - at->at)) return false;
  wire inside = {at->at, at->at + value};
  at->at += value;
  if (type == 2 && field && field->type == PROTOBUF_C_TYPE_MESSAGE)
    return walk(inside, field->descriptor, depth + 1);
  return true;
}

static bool walk(wire wire, const ProtobufCMessageDescriptor *kind,
                 unsigned depth) {
  if (depth > DEPTH_MOST) return false;
  while (wire.at < wire.end) {
    uint64_t tag = 0;
    if (!varint(&wire, &tag) ||
        !walk_field(&wire, field_of(kind, tag >> 3), tag & 7, depth))
      return false;
  }
  return true;
}

/* ---- bounded memory ------------------------------------------------------- */

typedef struct budget {
  uint64_t left;
  uint64_t refused; /* bytes that were asked for last and not given; 0: none */
  bool is_spent; /* not given as the budget is spent, else as there are none */
} budget;

static void *take(void *context, size_t size) {
  budget *budget = context;
  budget->is_spent = size > budget->left;
  void *memory = budget->is_spent ? NULL : malloc(size ? size : 1);
  if (memory)
    budget->left -= size;
  else
    budget->refused = size;
  return memory;
}

static void give(void *context, void *memory) {
  (void)context;
  free(memory);
}

keel_status keel_onnx_unpack(const char *path,
                             const ProtobufCMessageDescriptor *kind,
                             const uint8_t *data, uint64_t size,
                             ProtobufCMessage **out_message) {
  static const uint8_t nothing;
  budget budget = {.left = size * MEMORY_MOST + (UINT64_C(1) << 16)};
  ProtobufCAllocator allocator = {take, give, &budget};
  if (!data) data = &nothing;
  if (!walk((wire){data, data + size}, kind, 0))
    return keel_fail(
        KD_DATA_LOSS,
        "%s: not a valid %s: truncated, damaged or nested deeper than %d", path,
        kind->short_name, DEPTH_MOST);
  *out_message = protobuf_c_message_unpack(kind, &allocator, size, data);
  if (*out_message) return KD_OK;
  if (!budget.refused)
    return keel_fail(KD_DATA_LOSS, "%s: not a valid %s", path,
                     kind->short_name);
  return budget.is_spent ? keel_fail(KD_DATA_LOSS,
                                     "%s: not a plausible %s: its contents "
                                     "would take more than %d"
                                     " times its size in memory",
                                     path, kind->short_name, MEMORY_MOST)
                         : keel_no_memory(budget.refused);
}

void keel_onnx_free(ProtobufCMessage *message) {
  budget budget = {0};
  ProtobufCAllocator allocator = {take, give, &budget};
  if (message) protobuf_c_message_free_unpacked(message, &allocator);
}
