/* later_plugin.c - the frozen plugin as a later version's: built with the headers that
 * later.py writes, with every struct longer and what they added in use.
 * PAIR_REFUSED: the plugin itself has a bit that must be understood.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define PAIR_LATER
/* its source, once more: NOLINTNEXTLINE(bugprone-suspicious-include) */
#include "plugin.c"

/* No host of today knows these slots. */
static kd_status later(uint64_t what) {
  (void)what;
  abort();
}

static kd_status status_40(kd_kernel *self, kd_stream *stream,
                           const kd_launch *launch) {
  (void)self, (void)stream;
  return launch->device->host->fail(KD_LATER_STATUS, "pair: says status 40");
}

#define LATER_KERNEL(name, function) F32_KERNEL(name, function), .later = later

static const kd_kernel_def later_kernels[] = {
    {LATER_KERNEL("Relu", relu)},
    {.struct_size = sizeof(kd_kernel_def),
     .op = "LeakyRelu",
     .flags = KD_KERNEL_ANY_SHAPE | KD_LATER_HINT,
     .input_types = {KD_TYPES(KD_F32) | KD_TYPES(KD_LATER_TYPE) |
                     KD_TYPES(KD_LATER_TYPE_2)},
     .enqueue = leaky,
     .later = later},
    /* not for any host of today: types, versions, bits */
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Abs",
     .input_types = {KD_TYPES(KD_LATER_TYPE)},
     .enqueue = status_40},
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Exp",
     .opset_min = 99,
     .enqueue = status_40},
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Sqrt",
     .flags = KD_LATER_FLAG,
     .enqueue = status_40},
    {LATER_KERNEL("Neg", status_40)},
    OWN_KERNELS,
};

static const kd_memory_table memory = {PAIR_MEMORY, .later = later};
static const kd_stream_table streams = {PAIR_STREAMS, .later = later};
static const kd_event_table events = {PAIR_EVENTS, .later = later};
static const kd_profile_table profile = {PAIR_PROFILE, .later = later};
static const kd_plugin pair = {
    PAIR_PLUGIN,
    .memory = &memory,
    .streams = &streams,
    .events = &events,
    .profile = &profile,
    .kernels = later_kernels,
    .kernel_count = sizeof later_kernels / sizeof *later_kernels,
#ifdef PAIR_REFUSED
    .flags = KD_LATER_FLAG,
#else
    .flags = KD_LATER_HINT,
#endif
    .later = later};

KD_ENTRY(pair)
