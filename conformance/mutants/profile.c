/* profile.c - what the simulated device records of its work, and its clock. */
#include "mutants/sim.h"

static atomic_bool profiling; /* a stream's thread looks at it */
static uint64_t clock_base;

/* It began eight seconds ago: the first device's passes 32 bits soon. */
void sim_profile_reset(void) {
  clock_base = sim_now() - UINT64_C(8000000000);
}

/* Of each device another: 500 and 250 MHz. */
static uint64_t ticks(const kd_device *device, uint64_t host) {
  uint64_t t = (host - clock_base) / (sim_index(device) ? 4 : 2);
  if (BUG(prof_drifts)) t += (host - clock_base) / 40;
  return BUG(prof_clock_wraps) ? (uint32_t)t : t;
}

static kd_device *profile_device_of(const job *j) {
  const kd_buffer *buffer = j->call     ? j->call->out[0].buffer
                            : j->target ? j->target
                                        : j->source;
  return buffer ? buffer->device : NULL;
}

void sim_push_record(const job *j, uint64_t begin, uint64_t end) {
  static const uint32_t kinds[] = {KD_PROFILE_COPY_IN, KD_PROFILE_COPY_OUT,
                                   KD_PROFILE_COPY,    KD_PROFILE_FILL,
                                   KD_PROFILE_KERNEL,  KD_PROFILE_REGION};
  static uint64_t number;
  if (!profiling || j->kind > JOB_REGION) return;
  kd_device *device = profile_device_of(j);
  if (!device) return; /* its output is the host's */
  kd_profile_record record = {
      .begin = ticks(device, begin),
      .end = ticks(device, end),
      .correlation = j->call ? j->call->correlation : j->tag,
      .bytes = BUG(prof_words) ? j->size / 4 : j->size,
      .kind = kinds[j->kind],
      .stream = 1,
      .name = j->kind == JOB_REGION ? "loop of a region" : NULL};
  if (BUG(prof_shuffled) && ++number % 2) record.begin -= 10000000;
  if (BUG(prof_enqueue)) record.begin = begin, record.end = end;
  if (BUG(prof_records_wrap)) {
    record.begin = (uint32_t)record.begin;
    record.end = (uint32_t)record.end;
  }
  sim_host->profile_push(sim_host, device, &record, 1, sizeof record);
}

static kd_status prof_start(kd_device *device) {
  (void)device;
  profiling = true;
  return KD_OK;
}

static kd_status prof_stop(kd_device *device) {
  (void)device;
  profiling = false;
  return KD_OK;
}

static kd_status prof_clock(kd_device *device, uint64_t *out_device_ticks,
                            uint64_t *out_host_time, uint64_t *out_frequency) {
  *out_host_time = sim_now();
  *out_device_ticks = ticks(device, *out_host_time);
  *out_frequency = BUG(prof_frequency) ? 500000
                   : sim_index(device) ? 250000000
                                       : 500000000;
  if (BUG(prof_frequency)) *out_frequency = 500000000000u / 10;
  return KD_OK;
}

const kd_profile_table sim_profile = {
    .struct_size = sizeof(kd_profile_table),
    .start = prof_start,
    .stop = prof_stop,
    .clock = prof_clock,
};
