/* thread_stream.c - several threads that enqueue on streams of their own, without a wait. */
#include "rules/rules.h"

#define THREADS 4u
#define ROUNDS  8u /* that are enqueued before somebody waits */
#define COUNT   700
#define BYTES   (COUNT * sizeof(float))

/* What one thread works with: a kernel's stream, and one of copies alone. */
typedef struct lane {
  kc_unary unary;
  kc_run *run;
  kd_stream *stream, *copies;
  kc_buffer *buffer;
  char in[2][BYTES],
      want[2][BYTES]; /* two inputs, and what a launch alone made of them */
  char out[ROUNDS][BYTES], there[ROUNDS][BYTES], back[ROUNDS][BYTES];
  uint64_t until;
} lane;

/* Waits for room where a stream is full. */
#define ENQUEUE(stream, call)                \
  __extension__({                            \
    kd_status status_;                       \
    while ((status_ = (call)) == KD_BUSY)    \
      if (kc_finish(stream) != KD_OK) break; \
    status_;                                 \
  })

/* A kernel on one of the inputs. */
static kd_status enqueue_round(lane *l, uint32_t round) {
  kc_run *run = l->run;
  kd_status status =
      ENQUEUE(l->stream, kc_try_copy_in(l->stream, run->in_buffers[0], 0,
                                        l->in[round % 2], BYTES));
  if (status == KD_OK)
    status = ENQUEUE(l->stream,
                     run->def->enqueue(run->kernel, l->stream, &run->launch));
  if (status == KD_OK)
    status = ENQUEUE(l->stream, kc_try_copy_out(l->stream, run->out_buffers[0],
                                                0, l->out[round], BYTES));
  return status;
}

/* Bytes there and back. */
static kd_status enqueue_copies(lane *l, uint32_t round) {
  kd_status status = ENQUEUE(l->copies, kc_try_copy_in(l->copies, l->buffer, 0,
                                                       l->there[round], BYTES));
  if (status == KD_OK)
    status = ENQUEUE(l->copies, kc_try_copy_out(l->copies, l->buffer, 0,
                                                l->back[round], BYTES));
  return status;
}

static bool check_round(const lane *l, uint32_t index, uint32_t round) {
  uint64_t first = kc_differs(l->out[round], l->want[round % 2], BYTES);
  uint64_t copied = kc_differs(l->there[round], l->back[round], BYTES);
  return kc_check(first == BYTES,
                  "thread %u: byte %llu of %s's output is not what a launch"
                  " alone gives",
                  index, (unsigned long long)first, l->unary.op.name) &&
         kc_check(copied == BYTES,
                  "thread %u: byte %llu that was copied in came out as another",
                  index, (unsigned long long)copied);
}

static void enqueue_there(void *context, uint32_t index) {
  lane *l = (lane *)context + index;
  bool good = true;
  for (uint64_t turn = 0; good && kc_now() < l->until; turn++) {
    kd_status status = KD_OK;
    memset(l->out, 0, sizeof l->out);
    memset(l->back, 0, sizeof l->back);
    for (uint32_t i = 0; i < ROUNDS && status == KD_OK; i++) {
      kc_pattern(l->there[i], BYTES, (turn * ROUNDS + i) * THREADS + index);
      status = enqueue_round(l, i);
      if (status == KD_OK) status = enqueue_copies(l, i);
    }
    kd_status a = kc_finish(l->stream), b = kc_finish(l->copies);
    good =
        kc_check(status == KD_OK && a == KD_OK && b == KD_OK,
                 "work beside that of other threads failed: %s", kc_message());
    for (uint32_t i = 0; i < ROUNDS && good; i++)
      good = check_round(l, index, i);
    kc_beat();
  }
}

static void make_lane(lane *l) {
  kc_random random = kc_seed();
  kc_unary_need(COUNT, &l->unary);
  l->run = kc_unary_run(&l->unary);
  l->stream = kc_stream_make(l->run->device);
  l->copies = kc_stream_make(l->run->device);
  l->buffer = kc_buffer_make(BYTES);
  for (int i = 0; i < 2; i++) {
    value *in = kc_floats(1, l->unary.in->dims, &random);
    kc_unary_alone(&l->unary, l->run, in, l->in[i], l->want[i]);
    value_free(in);
  }
}

void kc_streams_at_once(void) {
  lane *lanes = kc_lend(THREADS * sizeof *lanes);
  for (uint32_t i = 0; i < THREADS; i++)
    make_lane(&lanes[i]);
  uint64_t until = kc_now() + (kc.quick ? KC_S / 4 : KC_S);
  for (uint32_t i = 0; i < THREADS; i++)
    lanes[i].until = until;
  kc_threads(THREADS, enqueue_there, lanes);
  for (uint32_t i = 0; i < THREADS; i++) {
    kc_run_free(lanes[i].run);
    kc_unary_free(&lanes[i].unary);
  }
}
