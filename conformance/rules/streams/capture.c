/* capture.c - recording a stream and launching it again. */
#include "rules/rules.h"

enum { SIZE = 4096 };

typedef struct recorded {
  kd_stream *stream;
  kc_buffer *source, *middle, *target;
  kc_unary unary;
  kc_run *run;
  kd_capture *capture;
} recorded;

static kd_status rules_capture_begin(kd_stream *stream) {
  return kp.c.begin(stream, 0);
}

static kd_status rules_capture_end(kd_stream *stream, kd_capture **out) {
  return kp.c.end(stream, out);
}

static kd_status rules_capture_launch(kd_capture *capture, kd_stream *stream) {
  return kp.c.launch(capture, stream);
}

static void rules_capture_destroy(kd_capture *capture) {
  kp.c.destroy(capture);
}

/* Records: the kernel on its input, then copies of its output. */
static void capture_make(recorded *r) {
  memset(r, 0, sizeof *r);
  kc_unary_need(SIZE / 4, &r->unary);
  r->run = kc_unary_run(&r->unary);
  r->stream = kc_stream_make(kc_device());
  r->target = kc_buffer_make(SIZE);
  r->middle = kc_buffer_make(SIZE);
  kc_ok(rules_capture_begin(r->stream), "capture.begin");
  kc_ok(kc_run_enqueue(r->run, r->stream), "enqueue while recording");
  if (kp.m.copy) {
    kc_buffer *from = r->run->out_buffers[0];
    kc_ok(kc_try_copy(r->stream, from, r->target, SIZE),
          "copy while recording");
  }
  if (kp.m.fill) {
    uint32_t word = 0x01020304;
    kc_ok(kc_try_fill(r->stream, r->middle, SIZE, &word, 4),
          "fill while recording");
  }
  kc_ok(rules_capture_end(r->stream, &r->capture), "capture.end");
  KC_NEED(r->capture != NULL, "capture.end returned KD_OK and no capture");
}

static void unmake(recorded *r) {
  if (r->capture) rules_capture_destroy(r->capture);
  kc_run_free(r->run);
  kc_unary_free(&r->unary);
}

static void check_output(recorded *r, const value *in, kc_buffer *from,
                         const char *what) {
  static float back[SIZE / 4];
  kc_read(from, 0, back, SIZE);
  kc_unary_compare(&r->unary, in, back, what);
}

static void capture_equals(void) {
  recorded r;
  capture_make(&r);
  kc_random random = kc_seed();
  int rounds = kc.quick ? 6 : 30;
  for (int i = 0; i < rounds; i++) {
    static float bytes[SIZE / 4];
    char zero[SIZE] = {0}, filled[SIZE];
    value *in = kc_floats(1, r.unary.in->dims, &random);
    value_store(in, bytes);
    kc_write(r.run->in_buffers[0], 0, bytes, SIZE);
    memcpy(r.run->in_bytes[0], bytes, SIZE);
    kc_write(r.target, 0, zero, SIZE);
    kc_write(r.middle, 0, zero, SIZE);
    kc_ok(rules_capture_launch(r.capture, r.stream), "capture.launch");
    kc_drain(r.stream);
    check_output(&r, in, r.run->out_buffers[0], "a replay's output");
    if (kp.m.copy) check_output(&r, in, r.target, "a replay's copy");
    if (kp.m.fill) {
      kc_read(r.middle, 0, filled, SIZE);
      bool all = true;
      for (int k = 0; k < SIZE; k++)
        all &= filled[k] == 4 - k % 4;
      kc_check(all, "a replay's fill is missing");
    }
    value_free(in);
  }
  unmake(&r);
}

/* Copies of host memory are recorded with its address, and not with its bytes. */
static void capture_host_memory(void) {
  kc_trip trip = kc_trip_make(1000);
  kd_stream *stream = kc_stream_make(kc_device());
  kd_capture *capture = NULL;
  kc_pattern(trip.in, trip.size, 100);
  kc_ok(rules_capture_begin(stream), "capture.begin");
  kd_status in = kc_try_copy_in(stream, trip.buffer, 0, trip.in, trip.size);
  kd_status out = kc_try_copy_out(stream, trip.buffer, 0, trip.out, trip.size);
  kd_status ended = rules_capture_end(stream, &capture);
  if (in == KD_UNIMPLEMENTED || out == KD_UNIMPLEMENTED ||
      ended == KD_UNIMPLEMENTED) {
    if (ended == KD_OK) rules_capture_destroy(capture);
    kc_unclaimed("it records no copies of host memory");
  }
  kc_ok(in, "copy_in while recording");
  kc_ok(out, "copy_out while recording");
  kc_ok(ended, "capture.end");
  for (uint64_t i = 0; i < 3; i++) {
    kc_pattern(trip.in, trip.size, i);
    memset(trip.out, 0, trip.size);
    kc_ok(rules_capture_launch(capture, stream), "capture.launch");
    kc_drain(stream);
    uint64_t first = kc_trip_differs(&trip);
    kc_check(first == trip.size,
             "launch %u copied other bytes than the host memory has now, from"
             " byte %llu on",
             (unsigned)i + 1, (unsigned long long)first);
  }
  rules_capture_destroy(capture);
}

static void capture_not_run(void) {
  kc_buffer *buffer = kc_buffer_make(64);
  kd_stream *stream = kc_stream_make(kc_device());
  char before[64] = "before", during[64] = "during", back[64];
  kc_write(buffer, 0, before, 64);
  kd_capture *capture = NULL;
  kc_ok(rules_capture_begin(stream), "capture.begin");
  kd_status status = kc_try_copy_in(stream, buffer, 0, during, 64);
  kc_check(status == KD_OK || status == KD_UNIMPLEMENTED,
           "copy_in while recording returned %s", kd_status_name(status));
  kc_sleep(5 * KC_MS);
  kd_status ended = rules_capture_end(stream, &capture);
  kc_check(ended == KD_OK || ended == KD_UNIMPLEMENTED,
           "capture.end returned %s", kd_status_name(ended));
  kc_drain(stream);
  kc_read(buffer, 0, back, 64);
  kc_check(!strcmp(back, "before"), "work ran while it was recorded");
  if (ended != KD_OK) return;
  kc_ok(rules_capture_launch(capture, stream), "capture.launch");
  kc_drain(stream);
  kc_read(buffer, 0, back, 64);
  kc_check(status != KD_OK || !strcmp(back, "during"),
           "a recorded copy_in did not run");
  rules_capture_destroy(capture);
}

static void capture_order(void) {
  recorded r;
  capture_make(&r);
  static float bytes[SIZE / 4];
  kc_random random = kc_seed();
  /* launches stand in the stream's order with what is around them */
  for (int i = 0; i < 10; i++) {
    static float out[SIZE / 4];
    value *in = kc_floats(1, r.unary.in->dims, &random);
    value_store(in, bytes);
    kc_busy(r.stream, KC_MS / 2);
    kc_copy_in(r.stream, r.run->in_buffers[0], 0, bytes, SIZE);
    kc_ok(rules_capture_launch(r.capture, r.stream), "capture.launch");
    kc_copy_out(r.stream, r.run->out_buffers[0], 0, out, SIZE);
    kc_drain(r.stream);
    memcpy(r.run->in_bytes[0], bytes, SIZE);
    kc_unary_compare(&r.unary, in, out, "what was copied out behind a replay");
    value_free(in);
  }
  unmake(&r);
}

static void capture_twice(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kd_capture *capture = NULL;
  kc_ok(rules_capture_begin(stream), "capture.begin");
  kd_status status = rules_capture_begin(stream);
  kc_check(status == KD_FAILED_PRECONDITION,
           "begin on a stream that records returned %s",
           kd_status_name(status));
  kc_ok(rules_capture_end(stream, &capture),
        "capture.end behind a begin that was refused");
  if (capture) rules_capture_destroy(capture);
  kc_smoke();
}

static void capture_empty(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kd_capture *capture = NULL;
  kc_ok(rules_capture_begin(stream), "capture.begin");
  kd_status status = rules_capture_end(stream, &capture);
  kc_check(status == KD_OK || status == KD_UNIMPLEMENTED,
           "the end of an empty recording returned %s", kd_status_name(status));
  if (status == KD_OK) {
    kc_ok(rules_capture_launch(capture, stream),
          "launch of an empty recording");
    kc_drain(stream);
    rules_capture_destroy(capture);
  }
  kc_smoke();
}

static void capture_other_stream(void) {
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  kc_buffer *buffer = kc_buffer_make(64);
  char in[64] = "beside", out[64] = "";
  kd_capture *capture = NULL;
  kc_ok(rules_capture_begin(a), "capture.begin");
  kc_ok(kc_try_copy_in(b, buffer, 0, in, 64), "copy_in on another stream");
  kc_ok(kc_try_copy_out(b, buffer, 0, out, 64), "copy_out on another stream");
  kc_ok(kc_finish(b), "waiting for another stream");
  kc_check(!strcmp(out, "beside"),
           "another stream's work was recorded, or did not run, while one"
           " recorded");
  kc_buffer *sync = kc_buffer_make(64);
  kc_write(sync, 0, in, 64); /* synchronous calls go on too */
  kc_read(sync, 0, out, 64);
  kc_check(!strcmp(out, "beside"),
           "synchronous copies fail while a stream"
           " records");
  kc_ok(rules_capture_end(a, &capture), "capture.end");
  if (capture) rules_capture_destroy(capture);
}

/* A copy in another stream, which waits for the first one's kernel, and is waited for. */
static kd_status record_two(recorded *r, kd_stream *other) {
  kd_event *there = kc_event_make(kc_device()),
           *back = kc_event_make(kc_device());
  const kc_buffer *out = r->run->out_buffers[0];
  kc_ok(rules_capture_begin(r->stream), "capture.begin");
  kc_ok(kc_run_enqueue(r->run, r->stream), "enqueue while recording");
  kc_ok(kp.e.record(there, r->stream), "event.record while recording");
  kc_ok(kp.s.wait(other, there), "stream.wait for a recording's event");
  kc_ok(kc_try_copy(other, out, r->middle, SIZE), "copy in the other stream");
  kc_ok(kp.e.record(back, other), "event.record in the other stream");
  kc_ok(kp.s.wait(r->stream, back), "stream.wait for the other stream");
  kc_ok(kc_try_copy(r->stream, r->middle, r->target, SIZE), "copy behind it");
  kd_status status = rules_capture_end(r->stream, &r->capture);
  kc_event_free(there);
  kc_event_free(back);
  return status;
}

static void capture_joined(void) {
  if (!kp.m.copy) kc_unclaimed("memory.copy is NULL");
  static float bytes[SIZE / 4], zero[SIZE / 4], seen[SIZE / 4];
  recorded r = {.stream = kc_stream_make(kc_device())};
  kd_stream *other = kc_stream_make(kc_device());
  kc_random random = kc_seed();
  kc_unary_need(SIZE / 4, &r.unary);
  r.run = kc_unary_run(&r.unary);
  r.middle = kc_buffer_make(SIZE);
  r.target = kc_buffer_make(SIZE);
  kc_write(r.middle, 0, zero, SIZE);
  kc_write(r.target, 0, zero, SIZE);
  kd_status status = record_two(&r, other);
  if (status == KD_UNIMPLEMENTED) kc_unclaimed("it records one stream alone");
  kc_ok(status, "capture.end");
  kc_ok(kc_finish(other), "waiting for the other stream");
  kc_read(r.middle, 0, seen, SIZE);
  kc_check(!memcmp(seen, zero, SIZE),
           "work of a stream that waits for a recording's event ran");
  value *in = kc_floats(1, r.unary.in->dims, &random);
  value_store(in, bytes);
  kc_write(r.run->in_buffers[0], 0, bytes, SIZE);
  memcpy(r.run->in_bytes[0], bytes, SIZE);
  kc_ok(rules_capture_launch(r.capture, r.stream), "capture.launch");
  kc_drain(r.stream);
  check_output(&r, in, r.target, "what went through another stream");
  /* and it runs again what it is given */
  kc_ok(kc_try_copy_in(other, r.middle, 0, zero, SIZE),
        "copy_in behind the recording");
  kc_ok(kc_finish(other), "waiting for the other stream");
  kc_read(r.middle, 0, seen, SIZE);
  kc_check(!memcmp(seen, zero, SIZE),
           "the other stream does not run what it is given behind the"
           " recording");
  value_free(in);
  unmake(&r);
}

static void work_beside(void *context, uint32_t index) {
  (void)context;
  for (int i = 0; i < 30; i++) {
    char in[128], out[128];
    kc_buffer *buffer = NULL;
    if (kc_buffer_try(kc_device(), 0, 128, &buffer) != KD_OK) return;
    kc_pattern(in, 128, (uint64_t)i + index);
    kp.m.copy_in(buffer->device, NULL, in, buffer->handle, buffer->offset, 128);
    kp.m.copy_out(buffer->device, NULL, buffer->handle, buffer->offset, out,
                  128);
    kc_check(!memcmp(in, out, 128),
             "thread %u's copies fail while another"
             " records",
             index);
    kc_buffer_free(buffer);
  }
}

static void record_there(void *context, uint32_t index) {
  if (index > 1) {
    work_beside(context, index);
    return;
  }
  kd_stream *stream = NULL;
  if (kp.s.create(kc_device(), 0, 0, &stream) != KD_OK) return;
  for (int i = 0; i < 10; i++) {
    kd_capture *capture = NULL;
    kc_check(kp.c.begin(stream, 0) == KD_OK,
             "begin failed beside other threads");
    kc_sleep(KC_MS / 4);
    kc_check(kp.c.end(stream, &capture) == KD_OK,
             "end failed beside other threads");
    if (capture) kp.c.destroy(capture);
  }
  kp.s.destroy(stream);
}

static void capture_threads(void) {
  kc_device();
  kc_threads(4, record_there, NULL);
}

static void launch_and_check(recorded *r, const value *in, const char *what) {
  kc_ok(rules_capture_launch(r->capture, r->stream), "capture.launch");
  kc_drain(r->stream);
  check_output(r, in, r->run->out_buffers[0], what);
}

static void refuse_update(recorded *r, const kd_rebind *rebind,
                          const char *what) {
  kd_status status = KC_CALL(kd_status, kp.c.update(r->capture, rebind, 1),
                             "capture.update(%s)", what);
  kc_check(status == KD_NOT_FOUND || status == KD_UNIMPLEMENTED,
           "update of %s returned %s", what, kd_status_name(status));
}

/* Before the first launch, and behind one: what was made for a launch is made anew. */
static void update_inputs(void) {
  recorded r;
  capture_make(&r);
  kc_buffer *other = kc_buffer_make(SIZE);
  static float bytes[SIZE / 4];
  kc_random random = kc_seed();
  kc_next(&random); /* other values than those that were recorded */
  value *in = kc_floats(1, r.unary.in->dims, &random);
  value_store(in, bytes);
  kc_write(other, 0, bytes, SIZE);
  value_store(r.unary.in, bytes);
  kc_write(r.run->in_buffers[0], 0, bytes, SIZE);
  kd_rebind rebind = {.from = r.run->in_buffers[0]->handle,
                      .to = other->handle,
                      .from_offset = r.run->in_buffers[0]->offset,
                      .to_offset = other->offset};
  kd_rebind back = {.from = rebind.to,
                    .to = rebind.from,
                    .from_offset = rebind.to_offset,
                    .to_offset = rebind.from_offset};
  kd_status status = kp.c.update(r.capture, &rebind, 1);
  if (status == KD_UNIMPLEMENTED) kc_unclaimed("it rebinds no buffers");
  kc_ok(status, "capture.update");
  launch_and_check(&r, in, "the output with another input buffer");
  kc_ok(KC_CALL(kd_status, kp.c.update(r.capture, &back, 1),
                "capture.update(behind a launch)"),
        "capture.update behind a launch");
  launch_and_check(&r, r.unary.in,
                   "the output with the first input buffer again");
  kc_buffer *stranger = kc_buffer_make(SIZE);
  rebind.from = stranger->handle;
  rebind.from_offset = stranger->offset;
  refuse_update(&r, &rebind, "a buffer that is not in it");
  rebind.from = r.run->in_buffers[0]->handle;
  rebind.from_offset = r.run->in_buffers[0]->offset + 64;
  refuse_update(&r, &rebind, "an offset where no use of the buffer starts");
  launch_and_check(&r, r.unary.in, "the output behind updates of nothing");
  value_free(in);
  unmake(&r);
}

static kd_rebind instead(const kc_buffer *from, const kc_buffer *to) {
  return (kd_rebind){.from = from->handle,
                     .to = to->handle,
                     .from_offset = from->offset,
                     .to_offset = to->offset};
}

static void write_values(kc_buffer *to, const value *in) {
  static float bytes[SIZE / 4];
  value_store(in, bytes);
  kc_write(to, 0, bytes, SIZE);
}

/* A recording that has been launched once, and other buffers for what goes into its kernel
 * and comes out. */
typedef struct moved {
  recorded r;
  value *in;
  kc_buffer *from[2], *to[2];
  kd_rebind rebinds[2];
} moved;

static void capture_move(moved *m) {
  kc_random random = kc_seed();
  capture_make(&m->r);
  kc_next(&random);
  m->in = kc_floats(1, m->r.unary.in->dims, &random);
  m->from[0] = m->r.run->in_buffers[0];
  m->from[1] = m->r.run->out_buffers[0];
  for (int i = 0; i < 2; i++) {
    m->to[i] = kc_buffer_make(SIZE);
    m->rebinds[i] = instead(m->from[i], m->to[i]);
  }
  write_values(m->from[0], m->r.unary.in);
  write_values(m->to[0], m->in);
  launch_and_check(&m->r, m->r.unary.in, "the output before an update");
}

/* What an update has taken out may be gone, and its memory somebody else's. */
static void update_released(void) {
  moved m;
  kc_buffer *over[8];
  char all[SIZE], seen[SIZE];
  memset(all, 0xff, SIZE);
  capture_move(&m);
  kc_ok(kp.c.update(m.r.capture, m.rebinds, 2), "capture.update of two");
  kc_buffer_free(m.from[0]);
  kc_buffer_free(m.from[1]);
  m.r.run->in_buffers[0] = m.r.run->out_buffers[0] = NULL;
  for (size_t i = 0; i < KC_COUNT_OF(over); i++) {
    over[i] = kc_buffer_make(SIZE);
    kc_write(over[i], 0, all, SIZE);
  }
  kc_ok(rules_capture_launch(m.r.capture, m.r.stream),
        "launch behind an update");
  kc_drain(m.r.stream);
  check_output(&m.r, m.in, m.to[1],
               "the output where the buffers before the update are released");
  if (kp.m.copy)
    check_output(&m.r, m.in, m.r.target, "the copy of an output that moved");
  for (size_t i = 0; i < KC_COUNT_OF(over); i++) {
    kc_read(over[i], 0, seen, SIZE);
    uint64_t first = kc_differs(all, seen, SIZE);
    kc_check(first == SIZE,
             "a launch behind an update wrote byte %llu of a buffer that the"
             " recording never had: does it still use one that was replaced,"
             " and is released?",
             (unsigned long long)first);
  }
  value_free(m.in);
  unmake(&m.r);
}

/* A launch that waits for its turn has the buffers that it was launched with. */
static void update_queued(void) {
  moved m;
  char zero[SIZE] = {0};
  capture_move(&m);
  kd_stream *gate = kc_stream_make(kc_device());
  kd_event *open = kc_event_make(kc_device());
  kc_write(m.from[1], 0, zero, SIZE);
  kc_write(m.to[1], 0, zero, SIZE);
  kc_busy(gate, 20 * KC_MS);
  kc_record(open, gate);
  kc_wait_on(m.r.stream, open);
  kc_ok(rules_capture_launch(m.r.capture, m.r.stream),
        "a launch behind an event");
  kc_ok(kp.c.update(m.r.capture, m.rebinds, 2),
        "capture.update while a launch is queued");
  kc_ok(rules_capture_launch(m.r.capture, m.r.stream),
        "a second launch behind the event");
  kc_drain(m.r.stream);
  check_output(&m.r, m.r.unary.in, m.from[1],
               "the output of a launch that was queued before the update");
  check_output(&m.r, m.in, m.to[1],
               "the output of a launch that was queued behind the update");
  kc_drain(gate);
  value_free(m.in);
  unmake(&m.r);
}

static void capture_update(void) {
  if (!kp.c.update) kc_unclaimed("capture.update is NULL");
  update_inputs();
  update_released();
  update_queued();
}

static void capture_outlives(void) {
  recorded r;
  capture_make(&r);
  kd_stream *other = kc_stream_make(kc_device());
  kc_stream_free(r.stream); /* recordings outlive the stream they came from */
  static float bytes[SIZE / 4];
  value_store(r.unary.in, bytes);
  kc_write(r.run->in_buffers[0], 0, bytes, SIZE);
  kc_ok(rules_capture_launch(r.capture, other), "launch on another stream");
  kc_drain(other);
  check_output(&r, r.unary.in, r.run->out_buffers[0],
               "the output of a replay whose stream is gone");
  unmake(&r);
}

static void capture_churn(void) {
  for (int i = 0; i < (kc.quick ? 20 : 150); i++) {
    kd_stream *stream = NULL;
    kd_capture *capture = NULL;
    kc_ok(kp.s.create(kc_device(), 0, 0, &stream), "stream.create");
    kc_ok(rules_capture_begin(stream), "capture.begin");
    kc_ok(rules_capture_end(stream, &capture), "capture.end");
    if (capture) rules_capture_destroy(capture);
    kp.s.destroy(stream);
    kc_check(true, " ");
  }
}

#define RULE(id, check, sentence, names, about) \
  KC_RULE(MUST, REPLAY, id, check, 0, "capture.h", sentence, names, about)

static const kc_rule rules[] = {
    RULE("capture.equals-direct", capture_equals,
         "Runs a recording in the order of `stream`",
         "kd_capture_table.launch kd_capture_table.begin kd_capture_table.end"
         " kd_capture_table.destroy KD_KERNEL_NO_CAPTURE",
         "A replay that forgets the fills, or the arguments of the second"
         " kernel, gives the first run's result."),
    RULE("capture.host-memory", capture_host_memory,
         "A recorded copy reads and writes the host memory that it was recorded"
         " with, at each launch anew",
         "kd_capture_table.launch kd_memory_table.copy_in"
         " kd_memory_table.copy_out",
         "A replay that keeps the first bytes feeds every run with the first"
         " input."),
    RULE("capture.not-run", capture_not_run,
         "While a stream records, enqueued work is recorded and not run",
         "kd_capture_table.begin",
         "Work that runs while it is recorded runs twice."),
    RULE("capture.order", capture_order,
         "Runs a recording in the order of `stream`", "kd_capture_table.launch",
         "A replay must wait for what stands before it, and be waited for."),
    RULE("capture.begin-twice", capture_twice,
         "Returns KD_OK, KD_FAILED_PRECONDITION (already recording)",
         "kd_capture_table.begin KD_FAILED_PRECONDITION",
         "A refused begin must not end the recording that runs."),
    RULE("capture.empty", capture_empty,
         "Ends the recording and makes it launchable", "kd_capture_table.end",
         "A program whose ops are all views records nothing."),
    RULE("capture.others-work", capture_other_stream,
         "Starts recording what is enqueued on `stream`",
         "kd_capture_table.begin",
         "A global capture mode stops everything else on the device."),
    RULE("capture.joined", capture_joined,
         "and on streams that wait for its events",
         "kd_capture_table.begin kd_stream_table.wait kd_event_table.record",
         "A second stream's work runs at once, and not again when the recording"
         " is launched."),
    RULE("capture.other-threads", capture_threads,
         "Recording of streams. All slots except `update` are required;"
         " threads as in kd_stream_table",
         "kd_capture_table.begin kd_capture_table.end",
         "Another thread's allocation breaks the recording"
         " (ggml-org/llama.cpp#11804)."),
    RULE("capture.update", capture_update,
         "Makes later launches use other buffers",
         "kd_capture_table.update kd_rebind.from kd_rebind.to"
         " kd_rebind.from_offset kd_rebind.to_offset KD_NOT_FOUND",
         "Buffers that are rebound by handle only, without their offset."),
    RULE("capture.outlives-stream", capture_outlives,
         "Buffers and kernels that it uses stay alive until it is destroyed",
         "kd_capture_table.launch kd_stream_table.destroy",
         "A recording that points into its stream."),
    RULE("capture.churn", capture_churn,
         "Frees a recording whose launches are done",
         "kd_capture_table.destroy",
         "Shapes change, recordings are made anew."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(replay_no_fill, "capture.equals-direct", "replays forget fills"),
    DEFECT_AS(replay_first_data, "capture.equals-direct", KC_AROUND, "replays do nothing from the second on"),
    DEFECT(replay_keeps_bytes, "capture.host-memory", "a recorded copy keeps the bytes of the recording"),
    DEFECT(capture_runs, "capture.not-run", "work runs while it is recorded"),
    DEFECT(replay_now, "capture.order", "replays don't wait for the stream"),
    DEFECT(begin_resets, "capture.begin-twice", "a second begin ends the first"),
    DEFECT(empty_capture, "capture.empty", "an empty recording can't be launched"),
    DEFECT(capture_global, "capture.others-work", "all streams record while one does"),
    DEFECT(capture_one_stream, "capture.joined", "a stream that waits for a recording's event runs"),
    DEFECT_AS(capture_one, "capture.other-threads", KC_RACE, "one recording at a time, for all threads"),
    DEFECT_AS(rebind_no_offset, "capture.update", KC_AROUND, "rebinding forgets the offset"),
    DEFECT(rebind_first_use, "capture.update", "rebinding changes a buffer's first use alone"),
    DEFECT(rebind_touches, "capture.update", "launches clear a buffer that was replaced"),
    DEFECT(rebind_queued, "capture.update", "rebinding changes launches that are queued"),
    DEFECT(rebind_late, "capture.update", "rebinding behind a launch does nothing"),
    DEFECT(capture_in_stream, "capture.outlives-stream", "a recording points into its stream"),
    DEFECT_AS(capture_ids, "capture.churn", KC_AROUND, "ids of recordings run out"),
};
/* clang-format on */

KC_AREA(capture, "Replay");
