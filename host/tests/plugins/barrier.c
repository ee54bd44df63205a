/* barrier.c - a device whose Abs blocks: until so many of them are inside at once, or ten
 * seconds have passed; then it fails. */
#define DEVICE_NAME "Barrier"
#include <pthread.h>
#include <time.h>

#include "inline.h"

#define MEMBERS 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int inside, round_;

static kd_status meet(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 10;
  int late = 0;
  pthread_mutex_lock(&lock);
  int mine = round_;
  if (++inside == MEMBERS) {
    inside = 0;
    round_++;
    pthread_cond_broadcast(&changed);
  }
  while (mine == round_ && !late)
    late = pthread_cond_timedwait(&changed, &lock, &until);
  if (late) inside--;
  pthread_mutex_unlock(&lock);
  return late ? host->fail(KD_ABORTED, "barrier: the others did not come")
              : KD_OK;
}

static kd_status enqueue(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  (void)self;
  (void)stream;
  const float *x = launch->inputs[0].data;
  float *y = launch->outputs[0].data;
  kd_status status = meet();
  for (int64_t i = 0, n = kd_elements(&launch->outputs[0]); i < n; i++)
    y[i] = x[i] < 0 ? -x[i] : x[i];
  return status;
}

static const kd_kernel_def kernels[] = {
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_BLOCKING,
     .op = "Abs",
     .input_types = {KD_TYPES(KD_F32)},
     .enqueue = enqueue},
};

static const kd_plugin plugin = {
    INLINE_PLUGIN,
    .name = "barrier",
    .kernels = kernels,
    .kernel_count = 1,
};

KD_ENTRY(plugin)
