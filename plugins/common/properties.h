/* properties.h - fills kd_plugin.property: a list is made for each call, of what is known,
 * and the one of the index handed over. Texts must outlive the call. */
#ifndef KEEL_PLUGINS_PROPERTIES_H
#define KEEL_PLUGINS_PROPERTIES_H

#include <kd/kd.h>
#include <string.h>

typedef struct property_list {
  kd_property items[16];
  uint32_t count;
} property_list;

static inline kd_property *property_add(property_list *list, const char *name,
                                        uint32_t type, const char *unit) {
  kd_property *added = &list->items[list->count++];
  *added = (kd_property){.name = name, .type = type, .unit = unit};
  return added;
}

/* What is 0 is not known. */
static inline void property_integer(property_list *list, const char *name,
                                    const char *unit, uint64_t value) {
  if (value)
    property_add(list, name, KD_PROPERTY_INTEGER, unit)->integer =
        (int64_t)value;
}

static inline void property_text(property_list *list, const char *name,
                                 const char *text) {
  if (*text) property_add(list, name, KD_PROPERTY_TEXT, NULL)->text = text;
}

/* Up to the host's struct_size. */
static inline kd_status property_give(const kd_host *host,
                                      const property_list *list, uint32_t index,
                                      kd_property *out) {
  uint32_t size = out->struct_size;
  if (index >= list->count)
    return host->fail(KD_OUT_OF_RANGE, "there are %u properties", list->count);
  kd_property given = list->items[index];
  given.struct_size = size;
  memcpy(out, &given, size < sizeof given ? size : sizeof given);
  return KD_OK;
}

#endif /* KEEL_PLUGINS_PROPERTIES_H */
