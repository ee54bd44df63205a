/* flags.c - unknown bits in flags words: bits 0 to 23 change the meaning of the object, so
 * it is refused; the others are hints. */
#include "device/device.h"
#include "loader/loader.h"

#define ALIASES_MOST (32u * 32u) /* each of an output and an input */
#define PLUGIN_FLAGS KD_PLUGIN_UNLOADABLE
#define DEVICE_FLAGS (KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE)
#define SPACE_FLAGS                                              \
  (KD_SPACE_DEVICE | KD_SPACE_HOST_VISIBLE | KD_SPACE_COHERENT | \
   KD_SPACE_PINNED)
#define KERNEL_FLAGS                                                    \
  (KD_KERNEL_ANY_SHAPE | KD_KERNEL_DYNAMIC_OUTPUT | KD_KERNEL_STRIDED | \
   KD_KERNEL_NO_CAPTURE | KD_KERNEL_OWN_LAYOUT | KD_KERNEL_ANY_OFFSET | \
   KD_KERNEL_LAYOUT_AGNOSTIC | KD_KERNEL_RELAXED | KD_KERNEL_TF32 |     \
   KD_KERNEL_ACC_F16 | KD_KERNEL_FAST_CONV | KD_KERNEL_FLUSH |          \
   KD_KERNEL_NONDETERMINISTIC)

static keel_status flags_check(const keel_plugin *plugin, const char *what,
                               uint32_t flags, uint32_t known) {
  uint32_t unknown = flags & ~known & ~KD_HINTS;
  if (!unknown) return KD_OK;
  return keel_fail(KD_UNIMPLEMENTED,
                   "%s: %s has bit %d in its flags (0x%x), which must be"
                   " understood, and a host of ABI %u.%u does not know; the"
                   " plugin is built for ABI %u.%u",
                   plugin->path, what, __builtin_ctz(unknown), (unsigned)flags,
                   KD_ABI_MAJOR, KD_ABI_MINOR,
                   KD_VERSION_MAJOR(plugin->abi_version),
                   KD_VERSION_MINOR(plugin->abi_version));
}

keel_status keel_flags_of_plugin(const keel_plugin *plugin) {
  return flags_check(plugin, "kd_plugin", plugin->table.flags, PLUGIN_FLAGS);
}

/* Aliases must name possible outputs and inputs, and no output or input may be in two
 * KD_ALIAS_MUST entries. */
static keel_status check_alias(const keel_plugin *plugin, const char *what,
                               const kd_kernel_def *def, uint32_t index) {
  const kd_alias *alias = &def->aliases[index];
  const char *wrong = NULL;
  if (alias->output >= 32 || alias->input >= 32)
    wrong = "is of an argument past the 32nd";
  else if (def->host_inputs >> alias->input & 1 ||
           def->host_outputs >> alias->output & 1)
    wrong = "is of an argument in host memory";
  for (uint32_t i = 0; i < index && !wrong; i++)
    if ((alias->flags & def->aliases[i].flags & KD_ALIAS_MUST) &&
        (def->aliases[i].output == alias->output ||
         def->aliases[i].input == alias->input))
      wrong = "must be, and so must another of the same argument";
  if (wrong)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s: %s: alias %u (output %u, input %u) %s", plugin->path,
                     what, (unsigned)index, (unsigned)alias->output,
                     (unsigned)alias->input, wrong);
  return flags_check(plugin, what, alias->flags, KD_ALIAS_MUST);
}

keel_status keel_aliases_check(const keel_plugin *plugin, const char *what,
                               const kd_kernel_def *def) {
  if (def->alias_count && !def->aliases)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s: %s: alias_count is %u and aliases is NULL",
                     plugin->path, what, (unsigned)def->alias_count);
  if (def->alias_count > ALIASES_MOST)
    return keel_fail(
        KD_INVALID_ARGUMENT, "%s: %s: alias_count is %u, and may be %u at most",
        plugin->path, what, (unsigned)def->alias_count, ALIASES_MOST);
  for (uint32_t i = 0; i < def->alias_count; i++)
    KEEL_TRY(check_alias(plugin, what, def, i));
  return KD_OK;
}

keel_status keel_flags_of_kernel(const keel_plugin *plugin,
                                 const kd_kernel_def *def) {
  char what[128];
  snprintf(what, sizeof what, "the kernel of %s::%s", def->domain, def->op);
  KEEL_TRY(flags_check(plugin, what, def->flags, KERNEL_FLAGS));
  return keel_aliases_check(plugin, what, def);
}

keel_status keel_flags_of_op(const keel_plugin *plugin, const char *op,
                             const char *part, uint32_t flags, uint32_t known) {
  char what[256];
  snprintf(what, sizeof what, "op %s: %s", op, part);
  return flags_check(plugin, what, flags, known);
}

keel_status keel_flags_of_option(const keel_plugin *plugin,
                                 const kd_option_def *def) {
  char what[64];
  snprintf(what, sizeof what, "option %s", def->name);
  return flags_check(plugin, what, def->flags, 0);
}

keel_status keel_flags_of_device(const keel_device *device) {
  return flags_check(device->plugin, device->name, device->info.flags,
                     DEVICE_FLAGS);
}

keel_status keel_flags_of_space(const keel_device *device, uint32_t index,
                                const kd_space *space) {
  char what[96];
  snprintf(what, sizeof what, "memory space %u of %s", (unsigned)index,
           device->name);
  return flags_check(device->plugin, what, space->flags, SPACE_FLAGS);
}
