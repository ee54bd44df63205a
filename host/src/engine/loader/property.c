/* property.c - the facts of a device, under one list of names. */
#include <math.h>

#include "loader/library.h"
#include "loader/loader.h"
#include "system/printable.h"

#define PROPERTY_MOST 1000 /* that a plugin may list: then it has lost count */

/* Cuts a text that is too long, not inside a character of UTF-8; it is on one line. */
static void keep_text(char *to, size_t capacity, const char *text) {
  size_t size = text ? strnlen(text, capacity) : 0;
  if (size == capacity)
    for (size--; size && ((unsigned char)text[size] & 0xc0) == 0x80;)
      size--;
  memcpy(to, text ? text : "", size);
  to[size] = 0;
  keel_make_printable(to, "");
}

keel_status keel_property_copy(const kd_property *given, keel_property *out) {
  if (!given->name || !*given->name)
    return keel_fail(KD_INTERNAL, "a property without a name");
  *out = (keel_property){.type = given->type, .flags = given->flags};
  keep_text(out->name, sizeof out->name, given->name);
  keep_text(out->unit, sizeof out->unit, given->unit);
  /* a later ABI's required bits are not known here */
  bool later = (given->flags & ~KD_HINTS) != 0;
  bool sound = given->type == KD_PROPERTY_INTEGER ||
               (given->type == KD_PROPERTY_REAL && isfinite(given->real)) ||
               (given->type == KD_PROPERTY_TEXT && given->text);
  if (!sound || later)
    out->type = KD_PROPERTY_NONE;
  else if (given->type == KD_PROPERTY_INTEGER)
    out->integer = given->integer;
  else if (given->type == KD_PROPERTY_REAL)
    out->real = given->real;
  else
    keep_text(out->text, sizeof out->text, given->text);
  return KD_OK;
}

/* ---- facts of kd_device_info ---------------------------------------------- */

enum { DRIVER, UNITS, MEMORY, FLOPS, BANDWIDTH, PCI, NUMA, FACTS };

/* Fills one of them; false where it is not known. */
static bool read_fact(const keel_device *device, int which,
                      keel_property *out) {
  static const struct {
    const char *name, *unit;
  } facts[FACTS] = {
      [DRIVER] = {"driver", ""},
      [UNITS] = {"compute_units", ""},
      [MEMORY] = {"memory", "bytes"},
      [FLOPS] = {"peak_flops_f32", "1/s"},
      [BANDWIDTH] = {"bandwidth", "bytes/s"},
      [PCI] = {"pci", ""},
      [NUMA] = {"numa_node", ""},
  };
  const kd_device_info *info = &device->info;
  const uint64_t numbers[FACTS] = {
      [UNITS] = info->compute_units,  [MEMORY] = device->space.size,
      [FLOPS] = info->peak_flops_f32, [BANDWIDTH] = info->bandwidth,
      [NUMA] = info->numa_node,
  };
  char address[32];
  snprintf(address, sizeof address, "%04llx:%02x:%02x.%u",
           (unsigned long long)(info->pci >> 16),
           (unsigned)(info->pci >> 8 & 0xff), (unsigned)(info->pci >> 3 & 31),
           (unsigned)(info->pci & 7));
  const char *text = which == DRIVER             ? info->driver
                     : which == PCI && info->pci ? address
                                                 : "";
  if (!*text && !numbers[which]) return false;
  const kd_property fact = {
      .name = facts[which].name,
      .unit = facts[which].unit,
      .type = *text ? KD_PROPERTY_TEXT : KD_PROPERTY_INTEGER,
      .text = text,
      .integer = (int64_t)numbers[which] - (which == NUMA),
  };
  return keel_property_copy(&fact, out) == KD_OK;
}

/* ---- all of them ---------------------------------------------------------- */

keel_status keel_device_property(const keel_device *device, uint32_t index,
                                 keel_property *out_property) {
  const keel_plugin *plugin = device->plugin;
  uint32_t facts = 0;
  for (int i = 0; i < FACTS; i++)
    if (read_fact(device, i, out_property) && facts++ == index) return KD_OK;
  index -= facts;
  if (index >= PROPERTY_MOST || !plugin->table.property)
    return keel_fail(KD_OUT_OF_RANGE, "%s has no more properties",
                     device->name);
  keel_status status =
      keel_library_property(plugin, device->index, index, out_property);
  return status == KD_OK
             ? KD_OK
             : keel_while(status, "while property %u of %s was asked for",
                          (unsigned)index, device->name);
}

keel_status keel_device_find_property(const keel_device *device,
                                      const char *name,
                                      keel_property *out_property) {
  keel_status status = KD_OK;
  for (uint32_t i = 0; status == KD_OK; i++) {
    status = keel_device_property(device, i, out_property);
    if (status == KD_OK && !strcmp(out_property->name, name)) return KD_OK;
  }
  return status == KD_OUT_OF_RANGE
             ? keel_fail(KD_NOT_FOUND,
                         "%s has no property \"%.60s\"; `keel devices"
                         " --properties` lists what it has",
                         device->name, name)
             : status;
}
