/* spirv.h - SPIR-V that was built with the plugin, by its source's key. */
#ifndef KEEL_VULKAN_SPIRV_H
#define KEEL_VULKAN_SPIRV_H

#include <string.h>

#include "families/store.h"

typedef struct vlk_spirv {
  fam_key key;
  const uint32_t *code;
  size_t size; /* bytes */
} vlk_spirv;

extern const vlk_spirv vlk_prebuilt[];
extern const size_t vlk_prebuilt_count;

/* SPIR-V is the same for every device. */
static inline fam_key vlk_source_key(const char *source) {
  fam_key key = fam_key_begin();
  fam_key_add(&key, "spirv 1.5", 9);
  fam_key_add(&key, source, strlen(source));
  return key;
}

#endif /* KEEL_VULKAN_SPIRV_H */
