/* api.c - finding Vulkan's functions. */
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

vk_api vk;

static char why[256];

static int api_find(VkInstance instance, const char *name, void *slot) {
  PFN_vkVoidFunction found = vk.GetInstanceProcAddr(instance, name);
  memcpy(slot, &found, sizeof found);
  if (!found) snprintf(why, sizeof why, "the Vulkan loader has no %s", name);
  return found != NULL;
}

/* The loader stays open: drivers keep threads and thread-local data. */
const char *vk_api_open(void) {
  void *loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!loader) {
    snprintf(why, sizeof why, "there is no Vulkan loader: %s", dlerror());
    return why;
  }
  void *get = dlsym(loader, "vkGetInstanceProcAddr");
  memcpy(&vk.GetInstanceProcAddr, &get, sizeof get);
  if (!get) return "the Vulkan loader has no vkGetInstanceProcAddr";
#define VK_FIND(name) \
  if (!api_find(NULL, "vk" #name, &vk.name)) return why;
  VK_GLOBAL(VK_FIND)
#undef VK_FIND
  return NULL;
}

const char *vk_api_of(VkInstance instance) {
#define VK_FIND(name) \
  if (!api_find(instance, "vk" #name, &vk.name)) return why;
  VK_OF_INSTANCE(VK_FIND)
#undef VK_FIND
#define VK_FIND(name) (void)api_find(instance, "vk" #name, &vk.name);
  VK_OPTIONAL(VK_FIND)
#undef VK_FIND
  return NULL;
}
