/* client.c - the plugin, its client, and one device and one memory for each of Keel's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* ---- the plugin ---------------------------------------------------------------------- */

/* JAX serializes StableHLO as of the version that is "current" here, which decides what has
 * to be read. */
static const int64_t current[] = {1, 13, 0}, least[] = {0, 9, 0};

#define NUMBERS(word, list)                                                  \
  {                                                                          \
    .struct_size = sizeof(pjrt_named_value), .name = (word),                 \
    .name_size = sizeof(word) - 1, .kind = 2, .value = {.integers = (list)}, \
    .value_size = sizeof(list) / sizeof *(list)                              \
  }

static const pjrt_named_value plugin_attributes[] = {
    {.struct_size = sizeof(pjrt_named_value),
     .name = "xla_version",
     .name_size = 11,
     .kind = 1,
     .value = {.integer = 2},
     .value_size = 1},
    NUMBERS("stablehlo_current_version", current),
    NUMBERS("stablehlo_minimum_version", least),
};

pjrt_error *pjrt_Plugin_Initialize(Plugin_Initialize_args *args) {
  (void)args;
  return NULL;
}

PJRT_GIVES_LIST(Plugin_Attributes, plugin_attributes,
                sizeof plugin_attributes / sizeof *plugin_attributes)

/* ---- the client ---------------------------------------------------------------------- */

static void client_describe(pjrt_client *client, uint32_t index,
                            keel_device *keel) {
  pjrt_device *device = &client->devices[index];
  pjrt_description *d = &device->description;
  keel_device_facts facts;
  device->client = client;
  device->device = keel;
  keel_device_describe(keel, &facts);
  d->id = (int)index;
  snprintf(d->name, sizeof d->name, "%s", facts.name);
  snprintf(d->kind, sizeof d->kind, "%s",
           facts.product ? facts.product : facts.name);
  snprintf(d->text, sizeof d->text, "KeelDevice(id=%u, %s)", (unsigned)index,
           facts.name);
  d->attributes[0] = (pjrt_named_value){.struct_size = sizeof(pjrt_named_value),
                                        .name = "keel_device",
                                        .name_size = 11,
                                        .value = {.text = d->name},
                                        .value_size = strlen(d->name)};
  device->memory.device = device;
  snprintf(device->memory.text, sizeof device->memory.text, "memory of %s",
           d->name);
  device->memories[0] = &device->memory;
  device->self[0] = device;
  client->device_list[index] = device;
  client->memory_list[index] = &device->memory;
  client->description_list[index] = d;
}

/* Keel's default device comes first: JAX takes the first where none is named. */
static void describe_all(pjrt_client *client) {
  keel_device *first = keel_device_default(client->context);
  uint32_t next = 0;
  client_describe(client, next++, first);
  for (uint32_t i = 0; i < client->count; i++) {
    keel_device *device = keel_device_at(client->context, i);
    if (device != first) client_describe(client, next++, device);
  }
}

static void free_client(pjrt_client *client) {
  keel_close(client->context);
  free(client->devices);
  free(client->device_list);
  free(client->memory_list);
  free(client->description_list);
  free(client);
}

/* The options of jax's register_plugin: none but these are known. JAX waits by callbacks, so all
 * threads are workers. */
static pjrt_error *read_client_options(const Client_Create_args *args,
                                       keel_context_params *params) {
  for (size_t i = 0; i < args->option_count; i++) {
    const pjrt_named_value *option = &args->options[i];
    if (option->name_size == 7 && !memcmp(option->name, "threads", 7) &&
        option->kind == 1) {
      params->workers =
          option->value.integer > 1 ? (int32_t)option->value.integer : 1;
      continue;
    }
    return pjrt_fail_text(KD_INVALID_ARGUMENT,
                          "Keel's PJRT plugin has no option \"%.*s\" of that"
                          " type; it has threads (an integer)",
                          (int)option->name_size, option->name);
  }
  return NULL;
}

pjrt_error *pjrt_Client_Create(Client_Create_args *args) {
  keel_context_params params = {.struct_size = sizeof params,
                                .workers = KEEL_CALLERS_APART};
  pjrt_error *error = read_client_options(args, &params);
  pjrt_client *client = error ? NULL : calloc(1, sizeof *client);
  if (error) return error;
  if (!client) return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory");
  keel_status status = keel_open(&params, &client->context);
  if (status != KD_OK) {
    free(client);
    return pjrt_fail(status);
  }
  client->count = keel_device_count(client->context);
  size_t n = (size_t)client->count + 1;
  client->devices = calloc(n, sizeof *client->devices);
  client->device_list = calloc(n, sizeof(pjrt_device *));
  client->memory_list = calloc(n, sizeof(pjrt_memory *));
  client->description_list = calloc(n, sizeof(pjrt_description *));
  bool whole = client->devices && client->device_list && client->memory_list &&
               client->description_list;
  if (!whole || !client->count) {
    free_client(client);
    return whole ? pjrt_fail_text(
                       KD_NOT_FOUND,
                       "Keel found no device: `keel plugins` shows why")
                 : pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory");
  }
  describe_all(client);
  client->topology = (pjrt_topology){client->description_list, client->count};
  snprintf(client->version, sizeof client->version, "Keel %s", keel_version());
  args->client = client;
  return NULL;
}

pjrt_error *pjrt_Client_Destroy(Client_Destroy_args *args) {
  free_client(args->object);
  return NULL;
}

PJRT_GIVES_TEXT(Client_PlatformName, "keel")
PJRT_GIVES_TEXT(Client_PlatformVersion, args->object->version)
PJRT_GIVES(Client_ProcessIndex, 0)
PJRT_GIVES(Client_TopologyDescription, &args->object->topology)
PJRT_GIVES_LIST(Client_Devices, args->object->device_list, args->object->count)
PJRT_GIVES_LIST(Client_AddressableDevices, args->object->device_list,
                args->object->count)

static pjrt_error *look_up(const pjrt_client *client, int id,
                           pjrt_device **out_device) {
  *out_device = NULL;
  if (id < 0 || (uint32_t)id >= client->count)
    return pjrt_fail_text(KD_INVALID_ARGUMENT,
                          "there is no device %d; Keel has"
                          " %u",
                          id, (unsigned)client->count);
  *out_device = &client->devices[id];
  return NULL;
}

pjrt_error *pjrt_Client_LookupDevice(Client_LookupDevice_args *args) {
  return look_up(args->object, args->id, &args->result);
}

pjrt_error *pjrt_Client_LookupAddressableDevice(
    Client_LookupAddressableDevice_args *args) {
  return look_up(args->object, args->id, &args->result);
}

PJRT_GIVES_LIST(Client_AddressableMemories, args->object->memory_list,
                args->object->count)

pjrt_error *pjrt_Client_DefaultDeviceAssignment(
    Client_DefaultDeviceAssignment_args *args) {
  const pjrt_client *client = args->object;
  for (size_t i = 0; i < args->count; i++)
    args->assignment[i] = (int)(i % client->count);
  return NULL;
}

/* ---- topologies ---------------------------------------------------------------------- */

PJRT_GIVES_TEXT(TopologyDescription_PlatformName, "keel")
PJRT_GIVES_TEXT(TopologyDescription_PlatformVersion, keel_version())
PJRT_GIVES_LIST(TopologyDescription_GetDeviceDescriptions,
                args->object->descriptions, args->object->count)
PJRT_GIVES_LIST(TopologyDescription_Attributes, NULL, 0)

/* It's the client's. */
pjrt_error *pjrt_TopologyDescription_Destroy(
    TopologyDescription_Destroy_args *args) {
  (void)args;
  return NULL;
}

/* ---- devices ------------------------------------------------------------------------- */

PJRT_GIVES(DeviceDescription_Id, args->object->id)
PJRT_GIVES(DeviceDescription_ProcessIndex, 0)
PJRT_GIVES_LIST(DeviceDescription_Attributes, args->object->attributes, 1)
PJRT_GIVES_TEXT(DeviceDescription_Kind, args->object->kind)
PJRT_GIVES_TEXT(DeviceDescription_DebugString, args->object->text)
PJRT_GIVES_TEXT(DeviceDescription_ToString, args->object->text)
PJRT_GIVES(Device_GetDescription, &args->object->description)
PJRT_GIVES(Device_IsAddressable, true)
PJRT_GIVES(Device_LocalHardwareId, args->object->description.id)
PJRT_GIVES_LIST(Device_AddressableMemories, args->object->memories, 1)
PJRT_GIVES(Device_DefaultMemory, &args->object->memory)

pjrt_error *pjrt_Device_MemoryStats(Device_MemoryStats_args *args) {
  keel_memory_facts facts;
  PJRT_TRY(keel_device_memory(args->object->device, &facts));
  /* an older caller's struct ends earlier */
  size_t size =
      args->struct_size < sizeof *args ? args->struct_size : sizeof *args;
  memset(&args->in_use, 0, size - offsetof(Device_MemoryStats_args, in_use));
  args->in_use = (int64_t)facts.used;
  args->limit = (pjrt_figure){(int64_t)facts.total, facts.total != 0};
  return NULL;
}

/* ---- memories ------------------------------------------------------------------------ */

PJRT_GIVES(Memory_Id, args->object->device->description.id)
PJRT_GIVES_TEXT(Memory_Kind, "device")
PJRT_GIVES(Memory_Kind_Id, 0)
PJRT_GIVES_TEXT(Memory_DebugString, args->object->text)
PJRT_GIVES_TEXT(Memory_ToString, args->object->text)
PJRT_GIVES_LIST(Memory_AddressableByDevices, args->object->device->self, 1)
