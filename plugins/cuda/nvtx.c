/* nvtx.c - ranges of NVIDIA's profilers around what an op enqueues: where the headers were
 * there when this was built (NVTX 3 has no library), and a profiler is when it runs. */
#include "cudev.h"

#ifdef KEEL_NVTX
#include <nvtx3/nvToolsExt.h>

static void range(const char *name) {
  if (name)
    nvtxRangePushA(name);
  else
    nvtxRangePop();
}

/* While devices open, one after the other: the headers' own beginning, at the first range,
 * takes no care of threads. */
void cuda_ranges_begin(kd_device *d) {
  nvtxInitialize(NULL);
  d->families.range = range;
}
#else
void cuda_ranges_begin(kd_device *d) {
  (void)d;
}
#endif
