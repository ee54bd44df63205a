/* dev_beside.c - two devices at work at once, a thread each. */
#include <sched.h>

#include "rules/rules.h"

#define COUNT 20000 /* elements of the kernel */
#define BYTES (COUNT * sizeof(float))

typedef struct side {
  kc_unary unary;
  kc_run *run;
  kd_stream *stream; /* NULL: there are none */
  kd_event *done;
  kc_buffer *buffer;
  char *in[2], *back; /* `size` bytes; and what came back */
  uint64_t size;
  char *given[2], *want[2],
      *out; /* what launches alone made, and the last one */
  atomic_uint *arrived;
  uint32_t rounds;
} side;

static void make_kernel(side *s, uint32_t index) {
  kc_random random = {index + 5};
  s->run = kc_unary_run(&s->unary);
  s->out = kc_lend(BYTES);
  for (int i = 0; i < 2; i++) {
    value *in = kc_floats(1, s->unary.in->dims, &random);
    s->given[i] = kc_lend(BYTES);
    s->want[i] = kc_lend(BYTES);
    kc_unary_alone(&s->unary, s->run, in, s->given[i], s->want[i]);
    value_free(in);
  }
}

/* Makes what a device works with; that is the one under test meanwhile. */
static void make_side(side *s, uint32_t index, atomic_uint *arrived) {
  uint32_t own = kc.device;
  kc.device = index;
  s->arrived = arrived;
  s->size = (kc.max_memory >> 7) < (4u << 20) ? kc.max_memory >> 7 : 4u << 20;
  s->rounds = kc.quick ? 12 : 50;
  s->buffer = kc_buffer_make(s->size);
  s->back = kc_lend(s->size);
  for (uint64_t i = 0; i < 2; i++) {
    s->in[i] = kc_lend(s->size);
    kc_pattern(s->in[i], s->size, index * 2 + i + 1);
  }
  s->stream = kc_stream_or_none();
  if (s->stream) s->done = kc_event_make(kc_device());
  if (kc_unary_make(COUNT, &s->unary)) make_kernel(s, index);
  kc_run_close(); /* its stream is of this device */
  kc.device = own;
}

static kd_status enqueue_all(const side *s, uint32_t round) {
  kc_run *run = s->run;
  kd_status status =
      kc_try_copy_in(s->stream, s->buffer, 0, s->in[round % 2], s->size);
  if (run && status == KD_OK) {
    status = kc_try_copy_in(s->stream, run->in_buffers[0], 0,
                            s->given[round % 2], BYTES);
    if (status == KD_OK)
      status = run->def->enqueue(run->kernel, s->stream, &run->launch);
    if (status == KD_OK)
      status =
          kc_try_copy_out(s->stream, run->out_buffers[0], 0, s->out, BYTES);
  }
  if (status == KD_OK)
    status = kc_try_copy_out(s->stream, s->buffer, 0, s->back, s->size);
  if (!s->stream) return status;
  kd_status end = kp.e.record(s->done, s->stream);
  if (end == KD_OK) end = kp.e.wait(s->done, UINT64_MAX);
  return status == KD_OK ? end : status;
}

static void work_beside(void *context, uint32_t index) {
  side *s = (side *)context + index;
  bool good = true;
  uint64_t begin = kc_now();
  atomic_fetch_add(s->arrived, 1);
  while (atomic_load(s->arrived) < 2 && kc_now() - begin < KC_S)
    sched_yield();
  for (uint32_t i = 0; i < s->rounds && good; i++) {
    memset(s->back, 0, s->size);
    kd_status status = enqueue_all(s, i);
    good = kc_check(status == KD_OK, "work beside another device's returned %s",
                    kd_status_name(status));
    uint64_t first = kc_differs(s->back, s->in[i % 2], s->size);
    good = good &&
           kc_check(first == s->size,
                    "beside copies of another device byte %llu of %llu"
                    " came back as another",
                    (unsigned long long)first, (unsigned long long)s->size);
    first = s->run ? kc_differs(s->out, s->want[i % 2], BYTES) : BYTES;
    good = good && kc_check(first == BYTES,
                            "beside work of another device byte %llu of %s's"
                            " output is wrong",
                            (unsigned long long)first, s->unary.op.name);
    kc_beat();
  }
}

void kc_devices_at_once(void) {
  side sides[2] = {0};
  atomic_uint arrived = 0;
  for (uint32_t i = 0; i < 2; i++)
    make_side(&sides[i], i, &arrived);
  kc_threads(2, work_beside, sides);
  for (uint32_t i = 0; i < 2; i++) {
    if (!sides[i].run) continue;
    kc_run_free(sides[i].run);
    kc_unary_free(&sides[i].unary);
  }
}
