/* serialize.c - executables as bytes: the name of their device, and the program in Keel's
 * binary form, compiled for it. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* What the bytes begin with. */
typedef struct head {
  char magic[8];
  char device[64]; /* Keel's name, ended by 0 */
} head;

static const char magic[8] = {'K', 'E', 'E', 'L', 'P', 'J', 'R', 'T'};

struct pjrt_bytes {
  char *data;
  size_t size, capacity;
};

static keel_status serialize_append(void *context, const void *data,
                                    uint64_t size) {
  pjrt_bytes *all = context;
  if (all->capacity - all->size < size) {
    size_t capacity = (all->size + size) * 2;
    char *larger = realloc(all->data, capacity);
    if (!larger) return KD_OUT_OF_MEMORY;
    all->data = larger;
    all->capacity = capacity;
  }
  memcpy(all->data + all->size, data, size);
  all->size += size;
  return KD_OK;
}

static void free_bytes(pjrt_bytes *bytes) {
  free(bytes->data);
  free(bytes);
}

/* Loading it compiles nothing. */
static keel_status write(const pjrt_executable *made, pjrt_bytes *to) {
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = made->devices[0]->device};
  head begin = {{0}, {0}};
  keel_program *compiled = NULL;
  memcpy(begin.magic, magic, sizeof magic);
  memcpy(begin.device, made->devices[0]->description.name, sizeof begin.device);
  keel_status status = serialize_append(to, &begin, sizeof begin);
  if (status == KD_OK)
    status = keel_program_compile(made->program, &params, &compiled);
  if (status == KD_OK)
    status = keel_program_write(compiled, 0, serialize_append, to);
  keel_program_release(compiled);
  return status;
}

pjrt_error *pjrt_Executable_Serialize(Executable_Serialize_args *args) {
  if (args->object->device_count > 1 || args->object->group)
    return pjrt_fail_text(KD_UNIMPLEMENTED,
                          "a program of several devices is not serialized:"
                          " compile it where it runs");
  pjrt_bytes *bytes = calloc(1, sizeof *bytes);
  if (!bytes) return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory");
  keel_status status = write(args->object, bytes);
  if (status != KD_OK) {
    pjrt_error *error = pjrt_fail(status);
    free_bytes(bytes);
    return error;
  }
  args->bytes = bytes->data;
  args->size = bytes->size;
  args->keeper = bytes;
  args->drop = free_bytes;
  return NULL;
}

static pjrt_error *find_device(const pjrt_client *client, const char *name,
                               pjrt_device **out_device) {
  for (uint32_t i = 0; i < client->count; i++)
    if (!strcmp(client->devices[i].description.name, name)) {
      *out_device = &client->devices[i];
      return NULL;
    }
  return pjrt_fail_text(KD_NOT_FOUND,
                        "the program was serialized for %s, and there is no"
                        " such device here: compile it again",
                        name);
}

pjrt_error *pjrt_Executable_DeserializeAndLoad(
    Executable_DeserializeAndLoad_args *args) {
  head begin;
  pjrt_device *devices[PJRT_DEVICES_MOST];
  uint32_t count = 1;
  if (args->size < sizeof begin ||
      memcmp(args->bytes, magic, sizeof magic) != 0)
    return pjrt_fail_text(
        KD_DATA_LOSS,
        "these bytes are not a program that Keel's PJRT plugin has serialized");
  memcpy(&begin, args->bytes, sizeof begin);
  begin.device[sizeof begin.device - 1] = 0;
  pjrt_error *error = args->options
                          ? pjrt_choose(args->object, args->options,
                                        args->option_size, devices, &count)
                          : find_device(args->object, begin.device, devices);
  return error
             ? error
             : pjrt_executable_make(devices, count, args->bytes + sizeof begin,
                                    args->size - sizeof begin, &args->result);
}
