/* options.c - what is read of xla/pjrt/proto/compile_options.proto:
 *
 *   CompileOptionsProto          3: ExecutableBuildOptionsProto
 *   ExecutableBuildOptionsProto  1: device ordinal, 4: replicas, 5: partitions,
 *                                9: DeviceAssignmentProto
 *   DeviceAssignmentProto        3: computation devices (1: ids, one a replica) */
#include "bridge.h"

/* A message, or what is left of it. */
typedef struct message {
  const uint8_t *at, *end;
} message;

typedef struct field {
  uint32_t number;
  uint64_t value; /* of a varint */
  message bytes;  /* of what has a length */
} field;

static bool read_varint(message *from, uint64_t *out) {
  *out = 0;
  for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
    uint8_t byte = *from->at++;
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

/* False at the end, and where the bytes make no sense: *good tells which. */
static bool next_field(message *from, field *out, bool *good) {
  uint64_t key = 0, size = 0;
  *out = (field){0};
  if (from->at == from->end) return false;
  *good = false;
  if (!read_varint(from, &key) || key >> 3 > UINT32_MAX) return false;
  out->number = (uint32_t)(key >> 3);
  uint64_t left = (uint64_t)(from->end - from->at);
  switch (key & 7) {
    case 0:
      *good = read_varint(from, &out->value);
      return *good;
    case 1:
    case 5:
      size = (key & 7) == 1 ? 8 : 4;
      break;
    case 2:
      if (!read_varint(from, &size)) return false;
      left = (uint64_t)(from->end - from->at);
      break;
    default:
      return false;
  }
  if (size > left) return false;
  out->bytes = (message){from->at, from->at + size};
  from->at += size;
  *good = true;
  return true;
}

/* The first id, packed or not: that of the one replica. */
static int64_t read_id(message from, bool *good) {
  field f;
  while (next_field(&from, &f, good)) {
    uint64_t id = f.value;
    if (f.number != 1) continue;
    if (f.bytes.at && !read_varint(&f.bytes, &id)) continue;
    return (int64_t)id;
  }
  return 0; /* an id of 0 is not written */
}

static void read_assignment(message from, pjrt_choice *out, bool *good) {
  field f;
  out->id_count = 0;
  while (*good && next_field(&from, &f, good))
    if (f.number == 3 && out->id_count < PJRT_DEVICES_MOST)
      out->ids[out->id_count++] = read_id(f.bytes, good);
}

static void read_build(message from, pjrt_choice *out, bool *good) {
  field f;
  while (*good && next_field(&from, &f, good)) {
    if (f.number == 1 && (int64_t)f.value >= 0 && out->id_count <= 1) {
      out->ids[0] = (int64_t)f.value;
      out->id_count = 1;
    }
    if (f.number == 4) out->replicas = (int64_t)f.value;
    if (f.number == 5) out->partitions = (int64_t)f.value;
    if (f.number == 9) read_assignment(f.bytes, out, good);
  }
}

bool pjrt_read_options(const char *bytes, size_t size, pjrt_choice *out) {
  message all = {(const uint8_t *)bytes, (const uint8_t *)bytes + size};
  bool good = true;
  field f;
  *out = (pjrt_choice){.replicas = 1, .partitions = 1, .id_count = 1};
  while (good && next_field(&all, &f, &good))
    if (f.number == 3) read_build(f.bytes, out, &good);
  return good;
}
