/* unpack.c - protobuf-c, made safe for files of any origin.
 *
 * protobuf-c recurses as deep as the message nests and allocates what repeated
 * fields promise. So the wire format is walked first, by the same descriptors,
 * with a bound on the depth; and memory is taken through an allocator that
 * stops at a multiple of the file's size.
 *
 * protobuf-c passes over a field that onnx.proto does not have. ONNX's later versions may
 * have added it, and with it changed what the others mean, as they did with the defaults of a
 * function's attributes. So the walk looks for such a field, and it is named.
 *
 * It would also copy all bytes that a tensor has. So it is given another message, which the
 * walk writes: there the raw_data of each tensor is where its bytes lie, not what they are. */
#include "import.h"

#include "frontends/onnx/protobuf.h"

#define DEPTH_MOST  100
#define NUMBER_MOST ((1u << 29) - 1) /* of fields; protobuf's own limit */
#define MEMORY_MOST 200              /* bytes for each byte of the file */

/* ---- the wire format: a walk ----------------------------------------------- */

typedef struct wire {
  const uint8_t *at, *end;
} wire;

/* The walk's results. */
typedef struct lean {
  uint8_t *data;
  size_t size, capacity;
  bool spent; /* out of memory */
  /* a message that has a field which onnx.proto does not have there; NULL: none */
  const ProtobufCMessageDescriptor *strange;
  uint64_t number; /* the field's */
  /* a field with a zero character, behind which C does not see it; NULL: none */
  const ProtobufCFieldDescriptor *cut;
} lean;

static void unpack_put(lean *out, const void *data, size_t size) {
  if (!size) return;
  if (out->capacity - out->size < size) {
    size_t capacity = (out->capacity + size) * 2 + 4096;
    uint8_t *larger = out->spent ? NULL : realloc(out->data, capacity);
    out->spent = !larger;
    if (!larger) return;
    out->data = larger;
    out->capacity = capacity;
  }
  memcpy(out->data + out->size, data, size);
  out->size += size;
}

static void put_varint(lean *out, uint64_t value) {
  uint8_t bytes[10];
  size_t size = 0;
  do {
    bytes[size++] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value);
  unpack_put(out, bytes, size);
}

/* A message's length is written when it is known, in as many bytes as the longest has. */
#define LENGTH 5

static size_t open_length(lean *out) {
  const uint8_t none[LENGTH] = {0};
  unpack_put(out, none, LENGTH);
  return out->size;
}

static bool close_length(lean *out, size_t begin) {
  uint64_t length = out->size - begin;
  if (out->spent) return true; /* said elsewhere */
  for (unsigned i = 0; i < LENGTH; i++)
    out->data[begin - LENGTH + i] =
        (uint8_t)((length >> 7 * i & 127) | (i + 1 < LENGTH ? 128 : 0));
  return length <= INT32_MAX; /* protobuf's own limit */
}

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
  if (!kind) return NULL;
  return protobuf_c_message_descriptor_get_field(kind, (unsigned)number);
}

static bool is_raw(const ProtobufCMessageDescriptor *kind, uint64_t number) {
  const ProtobufCFieldDescriptor *field =
      kind == &onnx__tensor_proto__descriptor ? field_of(kind, number) : NULL;
  return field && field->offset == offsetof(Onnx__TensorProto, raw_data) &&
         field->type == PROTOBUF_C_TYPE_BYTES;
}

/* Fields that ONNX had and withdrew; no reader looks at them. */
static bool is_withdrawn(const ProtobufCMessageDescriptor *kind,
                         uint64_t number) {
  if (kind == &onnx__graph_proto__descriptor)
    return number == 3 || number == 4 || (number >= 6 && number <= 9);
  if (kind == &onnx__attribute_proto__descriptor)
    return number == 12 || (number >= 16 && number <= 19);
  if (kind == &onnx__function_proto__descriptor)
    return number == 2 || number == 3;
  return kind == &onnx__type_proto__opaque__descriptor && number == 3;
}

/* Messages that say nothing of what a model computes. */
static bool is_aside(const ProtobufCMessageDescriptor *kind) {
  return kind == &onnx__string_string_entry_proto__descriptor ||
         kind == &onnx__tensor_annotation__descriptor ||
         kind == &onnx__training_info_proto__descriptor;
}

/* Whether C would take what follows a zero for something else than the file says: names, and
 * where external data are, whose entries have none either. */
static bool is_cut(const ProtobufCMessageDescriptor *kind,
                   const ProtobufCFieldDescriptor *field, wire inside) {
  bool external = kind == &onnx__tensor_proto__descriptor &&
                  !strcmp(field->name, "external_data");
  bool named = field->type == PROTOBUF_C_TYPE_STRING && !is_aside(kind) &&
               strcmp(field->name, "doc_string") != 0;
  return (external || named) && inside.at != inside.end &&
         memchr(inside.at, 0, (size_t)(inside.end - inside.at));
}

static bool unpack_walk(wire wire, const ProtobufCMessageDescriptor *kind,
                        unsigned depth, lean *out);

/* How many bytes the field has behind its tag and length; of type 0 its value. */
static bool unpack_size_of(wire *at, unsigned type, uint64_t *out_size,
                           uint64_t *out_value) {
  *out_size = type == 1 ? 8 : type == 5 ? 4 : 0;
  if (type == 0) return varint(at, out_value);
  if (type == 2 && !varint(at, out_size)) return false;
  return (type == 1 || type == 2 || type == 5) &&
         *out_size <= (uint64_t)(at->end - at->at);
}

/* Tags, lengths and numbers are written anew: protobuf-c must find the same fields here,
 * or bytes of a file could pass for what the walk writes. */
static bool walk_field(wire *at, const ProtobufCMessageDescriptor *kind,
                       unsigned depth, lean *out) {
  uint64_t tag = 0, size = 0, value = 0;
  if (!varint(at, &tag) || tag >> 3 > NUMBER_MOST) return false;
  const ProtobufCFieldDescriptor *field = field_of(kind, tag >> 3);
  unsigned type = tag & 7;
  if (!field && !out->strange && !is_withdrawn(kind, tag >> 3) &&
      !is_aside(kind)) {
    out->strange = kind;
    out->number = tag >> 3;
  }
  if (!unpack_size_of(at, type, &size, &value)) return false;
  wire inside = {at->at, at->at + size};
  at->at += size;
  if (type == 2 && field && !out->cut && is_cut(kind, field, inside))
    out->cut = field;
  put_varint(out, tag);
  if (type == 2 && field && field->type == PROTOBUF_C_TYPE_MESSAGE) {
    size_t from = open_length(out);
    return unpack_walk(inside, field->descriptor, depth + 1, out) &&
           close_length(out, from);
  }
  if (type == 2 && is_raw(kind, tag >> 3)) {
    const keel_onnx_bytes bytes = {inside.at, size};
    put_varint(out, sizeof bytes);
    unpack_put(out, &bytes, sizeof bytes);
    return true;
  }
  if (size > INT32_MAX) return false; /* protobuf's own limit */
  if (type == 0) put_varint(out, value);
  if (type == 2) put_varint(out, size);
  unpack_put(out, inside.at, size);
  return true;
}

static bool unpack_walk(wire wire, const ProtobufCMessageDescriptor *kind,
                        unsigned depth, lean *out) {
  if (depth > DEPTH_MOST) return false;
  while (wire.at < wire.end && !out->spent)
    if (!walk_field(&wire, kind, depth, out)) return false;
  return true;
}

keel_onnx_bytes keel_onnx_raw(const onnx_tensor *proto) {
  keel_onnx_bytes bytes = {0};
  /* each was written by the walk above */
  if (proto->has_raw_data && proto->raw_data.len == sizeof bytes)
    memcpy(&bytes, proto->raw_data.data, sizeof bytes);
  return bytes;
}

/* ---- bounded memory ------------------------------------------------------- */

typedef struct budget {
  uint64_t left;
  uint64_t refused; /* bytes that were asked for last and not given; 0: none */
  bool is_spent; /* not given as the budget is spent, else as there are none */
} budget;

static void *unpack_take(void *context, size_t size) {
  budget *budget = context;
  budget->is_spent = size > budget->left;
  void *memory = budget->is_spent ? NULL : malloc(size ? size : 1);
  if (memory)
    budget->left -= size;
  else
    budget->refused = size;
  return memory;
}

static void unpack_give(void *context, void *memory) {
  (void)context;
  free(memory);
}

/* A file of another kind has such fields as well, and is not a valid message otherwise. */
static keel_status refuse_field(const char *path, const lean *lean) {
  if (!lean->strange)
    return keel_fail(KD_DATA_LOSS,
                     "%s: a field %s in it has a zero character or is empty",
                     path, lean->cut->name);
  return keel_fail(
      KD_UNIMPLEMENTED,
      "%s: a %s in it has field %llu, which ONNX's IR version %d does not have:"
      " it may change what the other fields mean. A later Keel may know it",
      path, lean->strange->short_name, (unsigned long long)lean->number,
      KEEL_ONNX_IR);
}

keel_status keel_onnx_unpack(const char *path,
                             const ProtobufCMessageDescriptor *kind,
                             const uint8_t *data, uint64_t size,
                             ProtobufCMessage **out_message) {
  static const uint8_t nothing;
  budget budget = {.left = size * MEMORY_MOST + (UINT64_C(1) << 16)};
  ProtobufCAllocator allocator = {unpack_take, unpack_give, &budget};
  if (!keel_protobuf())
    return keel_fail(KD_UNAVAILABLE,
                     "%s: ONNX files are read by protobuf-c, and there is "
                     "no " KEEL_PROTOBUF_LIBRARY "; install libprotobuf-c1",
                     path);
  if (!data) data = &nothing;
  lean lean = {0};
  bool valid = unpack_walk((wire){data, data + size}, kind, 0, &lean);
  if (valid && !lean.spent)
    *out_message = protobuf_c_message_unpack(kind, &allocator, lean.size,
                                             lean.data ? lean.data : &nothing);
  free(lean.data);
  if (!valid)
    return keel_fail(
        KD_DATA_LOSS,
        "%s: not a valid %s: truncated, damaged or nested deeper than %d", path,
        kind->short_name, DEPTH_MOST);
  if (lean.spent) return keel_no_memory(lean.capacity * 2);
  if (*out_message && (lean.strange || lean.cut)) {
    keel_onnx_free(*out_message);
    *out_message = NULL;
    return refuse_field(path, &lean);
  }
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
  ProtobufCAllocator allocator = {unpack_take, unpack_give, &budget};
  if (message) protobuf_c_message_free_unpacked(message, &allocator);
}
