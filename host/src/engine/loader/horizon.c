/* horizon.c - bounds definitions to the ops and types that the plugin's headers knew.
 *
 * A definition without a bound means what existed when it was written: a later version of
 * its op may turn an attribute into an input, as DFT did from 17 to 20, and the kernel
 * would silently compute something else. */
#include "loader/loader.h"

/* The element types of the first ABI version, and of each that added some. */
static const struct {
  uint32_t abi_version, count;
} dtypes[] = {{KD_VERSION(0, 10), 27}};

/* KD_OPSET of the first ABI version. */
#define FIRST_OPSET 28u

static uint64_t types_known(uint32_t abi_version) {
  uint32_t count = dtypes[0].count;
  for (size_t i = 0; i < KEEL_COUNT_OF(dtypes); i++)
    if (dtypes[i].abi_version <= abi_version) count = dtypes[i].count;
  return (UINT64_C(1) << count) - 2; /* but KD_NONE */
}

static uint32_t opset_known(const keel_plugin *plugin, const char *domain) {
  if (!strcmp(domain, "keel")) return KD_VERSION_MINOR(plugin->abi_version);
  if (strcmp(domain, "ai.onnx") != 0) return UINT32_MAX;
  return plugin->table.opset ? plugin->table.opset : FIRST_OPSET;
}

void keel_horizon_set(const keel_plugin *plugin, kd_kernel_def *def) {
  uint64_t types = types_known(plugin->abi_version);
  if (!def->opset_max) def->opset_max = opset_known(plugin, def->domain);
  for (uint32_t i = 0; i < KD_MAX_TYPED_INPUTS; i++)
    if (!def->input_types[i]) def->input_types[i] = types;
  for (uint32_t i = 0; i < KD_MAX_TYPED_OUTPUTS; i++)
    if (!def->output_types[i]) def->output_types[i] = types;
}
