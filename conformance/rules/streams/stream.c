/* stream.c - queues of work: order, independence, ends. */
#include "rules/ops/cases.h"
#include "rules/rules.h"

static void stream_create_destroy(void) {
  int count = kc.quick ? 60 : 600;
  for (int i = 0; i < count; i++) {
    kd_stream *stream = NULL;
    kd_status status = kp.s.create(kc_device(), 0, 0, &stream);
    if (!kc_check(status == KD_OK && stream, "stream %d can't be made: %s", i,
                  kc_message()))
      return;
    kp.s.destroy(stream);
  }
}

static void stream_priorities(void) {
  for (int priority = -1; priority <= 1; priority++) {
    kd_stream *stream = NULL;
    kc_ok(kp.s.create(kc_device(), priority, 0, &stream), "stream.create");
    kc_drain(stream);
    kp.s.destroy(stream);
  }
}

/* A chain in which each copy needs the one before it. */
static void chain(kd_stream *stream, uint32_t links, uint8_t seed) {
  if (!kp.m.copy) kc_unclaimed("memory.copy is NULL");
  enum { SIZE = 64 };
  kc_buffer *ring[3];
  char first[SIZE], back[SIZE];
  for (int i = 0; i < 3; i++) {
    ring[i] = kc_buffer_make(SIZE);
    memset(back, 0xab, SIZE);
    kc_write(ring[i], 0, back, SIZE);
  }
  kc_pattern(first, SIZE, seed);
  kc_copy_in(stream, ring[0], 0, first, SIZE);
  for (uint32_t i = 0; i < links; i++) {
    kc_buffer *from = ring[i % 3], *to = ring[(i + 1) % 3];
    kc_copy(stream, from, to, SIZE);
    if (kp.m.fill) { /* so that a copy that comes early finds something else */
      char junk = (char)i;
      kc_fill(stream, from, SIZE, &junk, 1);
    }
  }
  kc_drain(stream);
  kc_read(ring[links % 3], 0, back, SIZE);
  kc_check(!memcmp(first, back, SIZE),
           "after a chain of %u copies in one stream the data is wrong: they"
           " did not run in order",
           links);
  for (int i = 0; i < 3; i++)
    kc_buffer_free(ring[i]);
}

static void stream_in_order(void) {
  chain(kc_stream_make(kc_device()), kc.quick ? 100 : 1000, 1);
}

static void stream_many(void) {
  enum { MANY = 64, SIZE = 256 };
  static kd_stream *streams[MANY];
  static kc_buffer *buffers[MANY];
  static char in[MANY][SIZE], out[MANY][SIZE];
  uint32_t count = kc.quick ? 20 : MANY;
  for (uint32_t i = 0; i < count; i++) {
    streams[i] = kc_stream_make(kc_device());
    buffers[i] = kc_buffer_make(SIZE);
    for (uint32_t k = 0; k < i; k++)
      kc_check(streams[k] != streams[i], "streams %u and %u are one", k, i);
    kc_pattern(in[i], SIZE, i);
    kc_copy_in(streams[i], buffers[i], 0, in[i], SIZE);
    kc_copy_out(streams[i], buffers[i], 0, out[i], SIZE);
  }
  for (uint32_t i = 0; i < count; i++)
    kc_drain(streams[i]);
  for (uint32_t i = 0; i < count; i++)
    kc_check(!memcmp(in[i], out[i], SIZE), "stream %u of %u is wrong", i,
             count);
}

static void stream_sync_empty(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  for (int i = 0; i < 5; i++) {
    uint64_t begin = kc_now();
    kd_status status = kc_finish(stream);
    kc_check(status == KD_OK, "waiting for an empty stream returned %s",
             kd_status_name(status));
    kc_check((double)(kc_now() - begin) < 1e9 * kc.factor,
             "waiting for an empty stream took over a second");
  }
}

static void stream_sync_complete(void) {
  kc_trip trip = kc_trip_make(300000);
  kd_stream *stream = kc_stream_make(kc_device());
  for (uint64_t i = 0; i < 8; i++) {
    kc_trip_enqueue(&trip, stream, i, 3 * KC_MS);
    kc_drain(stream);
    uint64_t first = kc_trip_differs(&trip);
    kc_check(first == trip.size,
             "byte %llu was not there when the wait for the stream returned",
             (unsigned long long)first);
  }
}

static void stream_flush(void) {
  if (!kp.s.flush) kc_unclaimed("stream.flush is NULL");
  kd_stream *stream = kc_stream_make(kc_device());
  kc_trip trip = kc_trip_make(64);
  kd_event *event = kc_event_make(kc_device());
  kc_trip_enqueue(&trip, stream, 1, 0);
  kc_record(event, stream);
  kc_ok(kp.s.flush(stream), "stream.flush");
  kd_status status = kc_poll(event);
  kc_check(status == KD_OK, "flushed work is still %s after 2 s",
           kd_status_name(status));
  kc_check(kc_trip_differs(&trip) == trip.size,
           "flushed work gave the wrong result");
}

static void stream_held_back(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kc_buffer *buffer = kc_buffer_make(64);
  char in[64] = "x";
  kd_event *event = kc_event_make(kc_device());
  kc_copy_in(stream, buffer, 0, in, 64);
  kc_record(event, stream);
  if (kp.s.flush) kc_ok(kp.s.flush(stream), "stream.flush");
  kd_status status = kc_poll(event);
  kc_check(status == KD_OK,
           "work that was enqueued is %s after 2 s, though nothing may be held"
           " back",
           kd_status_name(status));
}

/* Whether work of the stream `gate`, enqueued here, still ran when some launches behind it
 * had been enqueued; 0: it did not, 1: it did, -1: it was done before, or there was no room.
 * No time counts: a machine that stands still says nothing, or gives another try. */
static int launches_return(kc_run *run, kc_run *large, uint32_t tries) {
  enum { LAUNCHES = 4 };
  kd_stream *gate = kc_stream_make(run->device);
  kd_stream *stream = kc_stream_make(run->device);
  kd_event *open = kc_event_make(run->device);
  kd_status filled = KD_OK, status = KD_OK;
  kc_busy(gate, (4 * KC_MS) << tries);
  if (tries > 1) /* of a device whose copies are done at once */
    for (uint32_t i = 0; i < 1u << tries && filled == KD_OK; i++)
      filled = large->def->enqueue(large->kernel, gate, &large->launch);
  kc_record(open, gate);
  kc_wait_on(stream, open);
  bool ran_on = kp.e.query(open) == KD_BUSY;
  for (int i = 0; i < LAUNCHES && status == KD_OK; i++)
    status =
        KC_CALL(kd_status, run->def->enqueue(run->kernel, stream, &run->launch),
                "enqueue(behind work of another stream)");
  bool runs_on = kp.e.query(open) == KD_BUSY;
  kc_check(status == KD_OK || status == KD_BUSY, "a launch returned %s",
           kd_status_name(status));
  kc_drain(gate);
  kc_drain(stream);
  kc_event_free(open);
  kc_stream_free(stream);
  kc_stream_free(gate);
  return status != KD_OK || !ran_on ? -1 : runs_on;
}

/* 1: launches returned while other work still ran, 0: they never did, -1: nothing was seen. */
static int returns_at_once(kc_run *run, kc_run *large) {
  enum { TRIES = 7 };
  int waited = 0;
  for (uint32_t i = 0; i < TRIES; i++) {
    int found = launches_return(run, large, i);
    if (found == 1) return 1;
    waited += found == 0;
  }
  return waited < 3 ? -1 : 0;
}

#define BLOCKS                                                              \
  "a kernel's enqueue never returned before the work of another stream was" \
  " done that its own waits for: it blocks"

static kc_run *large_run(kc_unary *unary) {
  kc_unary_need(1 << 16, unary);
  kc_run *large = kc_unary_run(unary);
  kc_ok(kc_run_now(large), "run");
  return large;
}

/* A kernel's enqueue waits neither for the work before it nor for its own. */
static void stream_launch_not_blocking(void) {
  kc_unary unary, wide;
  kc_need_queues();
  kc_unary_need(500, &unary);
  if (unary.def->flags & KD_KERNEL_BLOCKING)
    kc_unclaimed("its kernels say that their enqueue may take long");
  kc_run *run = kc_unary_run(&unary), *large = large_run(&wide);
  kc_ok(kc_run_now(run), "run"); /* what is made at the first launch is there */
  int found = returns_at_once(run, large);
  kc_unary_check(&unary, run, "the output of launches behind other work");
  kc_run_free(large);
  kc_run_free(run);
  kc_unary_free(&wide);
  kc_unary_free(&unary);
  if (found < 0)
    kc_unclaimed("the work of its streams is done when it is enqueued");
  kc_check(found == 1, "%s", BLOCKS);
}

static kc_run *before_ops;

static void def_returns(kc_op_case *one, kc_node *node,
                        const kd_kernel_def *def) {
  kc_check(true, " ");
  if (node->dynamic || (def->flags & KD_KERNEL_BLOCKING)) return;
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  kc_ok(kc_run_now(run), "run");
  kc_check(returns_at_once(run, before_ops) != 0, "%s: %s", def->op, BLOCKS);
  kc_run_free(run);
}

/* The same of each op, where it holds for one. */
static void ops_not_blocking(void) {
  kc_unary wide;
  if (!kc_unary_make(8, &wide)) return;
  kc_unary_free(&wide);
  before_ops = large_run(&wide);
  if (returns_at_once(before_ops, before_ops) == 1)
    kc_each_op(NULL, def_returns, KD_F32, kc.quick ? 6 : 40);
  kc_run_free(before_ops);
  kc_unary_free(&wide);
}

/* Enqueueing must not wait for the work. */
static void copies_not_blocking(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kc_trip trip = kc_trip_make(64);
  kc_busy(stream, KC_MS); /* measures how long its copies take */
  kc_drain(stream);
  uint64_t begin = kc_now();
  kc_trip_enqueue(&trip, stream, 1, 60 * KC_MS);
  uint64_t enqueued = kc_now() - begin;
  kc_drain(stream);
  uint64_t all = kc_now() - begin;
  kc_note("%.1f ms to enqueue work of %.1f ms", (double)enqueued / 1e6,
          (double)all / 1e6);
  kc_need_queues();
  kc_check(enqueued < all / 2 || all < 10 * KC_MS,
           "enqueueing took %.1f ms of the work's %.1f ms",
           (double)enqueued / 1e6, (double)all / 1e6);
  kc_check(kc_trip_differs(&trip) == trip.size,
           "what was copied in did not come out behind it");
}

static void stream_not_blocking(void) {
  if (kc_case("copies")) copies_not_blocking();
  if (!(kc_info()->flags & KD_DEVICE_INLINE)) ops_not_blocking();
}

static void stream_back_pressure(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kc_buffer *buffer = kc_buffer_make(64);
  uint32_t count = kc.quick ? 300 : 3000, refused = 0;
  static uint32_t words[3000];
  for (uint32_t i = 0; i < count; i++) {
    words[i] = i;
    kd_status status =
        KC_CALL(kd_status,
                kc_try_copy_in(stream, buffer, 0, &words[i], sizeof words[i]),
                "memory.copy_in(number %u without a wait)", i);
    if (status == KD_BUSY) {
      refused++;
      kc_drain(stream);
      i--;
      if (refused > count) break;
      continue;
    }
    kc_check(status == KD_OK, "copy %u without a wait returned %s", i,
             kd_status_name(status));
  }
  kc_drain(stream);
  uint32_t back = 0;
  kc_read(buffer, 0, &back, sizeof back);
  kc_check(back == count - 1,
           "the last of %u copies is not what stands there:"
           " %u",
           count, back);
  kc_check(!refused || kc_info()->max_in_flight,
           "KD_BUSY, though max_in_flight says that there is no limit");
}

static void stream_args_copied(void) {
  kc_unary unary;
  kc_unary_need(900, &unary);
  kd_stream *stream = kc_stream_make(kc_device());
  for (int i = 0; i < 12; i++) {
    kc_run *run = kc_unary_run(&unary);
    kc_busy(stream, 2 * KC_MS);
    kd_launch launch = run->launch;
    kd_tensor in[1] = {run->in[0]}, out[1] = {run->out[0]};
    int64_t dims[2][1] = {{900}, {900}};
    in[0].dims = dims[0];
    out[0].dims = dims[1];
    launch.inputs = in;
    launch.outputs = out;
    kc_ok(KC_CALL(kd_status, run->def->enqueue(run->kernel, stream, &launch),
                  "enqueue(from the stack)"),
          "enqueue");
    memset(in, 0xdd, sizeof in); /* borrowed for the call only */
    memset(out, 0xdd, sizeof out);
    memset(dims, 0x7d, sizeof dims);
    memset(&launch, 0xdd, sizeof launch);
    kc_drain(stream);
    kc_unary_check(&unary, run,
                   "after the launch's memory was overwritten, the output");
    kc_run_free(run);
  }
  kc_unary_free(&unary);
}

typedef struct handoff {
  kd_stream *stream;
  kc_buffer *buffer;
  char in[256], out[256];
} handoff;

static void make_there(void *context, uint32_t index) {
  (void)index;
  handoff *h = context;
  kc_check(kp.s.create(kc_device(), 0, 0, &h->stream) == KD_OK,
           "a stream can't be made on another thread");
}

static void use_there(void *context, uint32_t index) {
  (void)index;
  handoff *h = context;
  kc_check(kc_try_copy_in(h->stream, h->buffer, 0, h->in, 256) == KD_OK &&
               kc_try_copy_out(h->stream, h->buffer, 0, h->out, 256) == KD_OK &&
               kc_finish(h->stream) == KD_OK,
           "a stream made on one thread can't be used on another: %s",
           kc_message());
}

static void end_there(void *context, uint32_t index) {
  (void)index;
  handoff *h = context;
  KC_DO(kp.s.destroy(h->stream), "stream.destroy(on a third thread)");
}

static void stream_handoff(void) {
  handoff h = {0};
  kc_device();
  h.buffer = kc_buffer_make(256);
  kc_pattern(h.in, 256, 5);
  kc_threads(1, make_there, &h);
  KC_NEED(h.stream != NULL, "there is no stream");
  kc_threads(1, use_there, &h);
  kc_check(!memcmp(h.in, h.out, 256), "copies in the stream are wrong");
  kc_threads(1, end_there, &h);
}

/* An empty stream does not wait for a busy one. */
static void stream_independent(void) {
  kc_need_queues();
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  kc_busy(a, KC_MS);
  kc_drain(a);
  uint64_t begin = kc_now();
  kc_busy(a, 100 * KC_MS);
  kc_ok(kc_finish(b), "waiting for the empty stream");
  uint64_t of_b = kc_now() - begin;
  kc_drain(a);
  uint64_t of_a = kc_now() - begin;
  kc_check(of_b < of_a * 3 / 4 || of_a < 20 * KC_MS,
           "an empty stream was done after %.1f ms, a busy one after %.1f",
           (double)of_b / 1e6, (double)of_a / 1e6);
}

static void stream_destroy_done(void) {
  for (int i = 0; i < 10; i++) {
    kd_stream *stream = NULL;
    kc_ok(kp.s.create(kc_device(), 0, 0, &stream), "stream.create");
    kc_buffer *buffer = kc_buffer_make(1000);
    char in[1000], out[1000];
    kc_pattern(in, sizeof in, (uint64_t)i);
    kc_copy_in(stream, buffer, 0, in, sizeof in);
    kd_event *event = kc_event_make(kc_device());
    kc_record(event, stream);
    kc_await(event);
    kp.s.destroy(stream);
    /* the event outlives its stream */
    kc_check(KC_CALL(kd_status, kp.e.query(event),
                     "event.query(stream gone)") == KD_OK,
             "an event whose stream is destroyed is not done any more");
    kc_read(buffer, 0, out, sizeof out);
    kc_check(!memcmp(in, out, sizeof in), "work was lost when its stream went");
    kc_event_free(event);
    kc_buffer_free(buffer);
  }
}

/* Synchronous copies beside a busy stream, for as long as it is busy. */
static void stream_mixed_sync(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kc_buffer *y = kc_buffer_make(512);
  for (uint64_t i = 0; i < 10; i++) {
    kc_busy(stream, 3 * KC_MS);
    uint64_t until = kc_now() + 2 * KC_MS;
    for (uint64_t k = 0; k < 16 || kc_now() < until; k++) {
      kc_check(kc_round_trip(y, i * 1000 + k) == y->size,
               "a synchronous copy beside a busy stream is wrong");
    }
    kc_drain(stream);
  }
  kc_buffer_free(y);
}

static const kc_rule rules[] = {
    KC_RULE(MUST, ASYNC, "stream.create-destroy", stream_create_destroy, 0,
            "stream.h",
            "Creates a stream, which the host owns and destroys once",
            "kd_stream_table.create kd_stream_table.destroy",
            "Ids or contexts that are not given back run out."),
    KC_RULE(MUST, ASYNC, "stream.priorities", stream_priorities, 0, "stream.h",
            "-1 background, 0 normal, 1 urgent; a hint",
            "kd_stream_table.create",
            "A hint that can't be honoured is no reason to refuse."),
    KC_RULE(MUST, ASYNC, "stream.in-order", stream_in_order, 0, "base.h",
            "an in-order queue of work",
            "kd_memory_table.copy kd_memory_table.fill"
            " kd_stream_table.synchronize",
            "Work that goes to several hardware queues needs the plugin's own"
            " order."),
    KC_RULE(MUST, ASYNC, "stream.many", stream_many, 0, "stream.h",
            "There may be many streams",
            "kd_stream_table.create KD_OUT_OF_MEMORY",
            "A fixed table of queues makes the seventeenth stream an alias of"
            " the first."),
    KC_RULE(
        MUST, ASYNC, "stream.sync-empty", stream_sync_empty, 0, "stream.h",
        "Blocks until all work of the stream is done",
        "kd_stream_table.synchronize kd_event_table.wait",
        "Waiting for a flag that only work sets deadlocks on a stream without"
        " work."),
    KC_RULE(MUST, ASYNC, "stream.sync-complete", stream_sync_complete, 0,
            "stream.h", "NULL: the host records an event and waits for it",
            "kd_stream_table.synchronize kd_event_table.record",
            "A wait that ends when work is submitted, not when it is done."),
    KC_RULE(MUST, ASYNC, "stream.flush", stream_flush, 0, "stream.h",
            "Submits work that the plugin holds back for batching",
            "kd_stream_table.flush KD_DEVICE_LOST",
            "The host flushes and then waits elsewhere: work that is still held"
            " back never ends."),
    KC_RULE(MUST, ASYNC, "stream.not-held-back", stream_held_back, 0,
            "stream.h", "NULL: nothing is held back",
            "kd_stream_table.flush kd_event_table.query",
            "Work that starts only when somebody waits stands still when nobody"
            " does."),
    KC_RULE(SHOULD, ASYNC, "stream.enqueue-not-blocking", stream_not_blocking,
            KC_ALONE | KC_CASES, "memory.h",
            "the call returns at once where it can",
            "kd_memory_table.copy_in kd_kernel_def.enqueue",
            "An enqueue that waits for earlier work takes all overlap away."),
    KC_RULE(MUST, ASYNC, "stream.launch-not-blocking",
            stream_launch_not_blocking, 0, "kernel.h",
            "`enqueue` may occupy its thread for long",
            "kd_kernel_def.enqueue KD_KERNEL_BLOCKING",
            "Where a kernel without that flag waits for the device, the host"
            " enqueues nothing else meanwhile, on any device."),
    KC_RULE(MUST, ASYNC, "stream.back-pressure", stream_back_pressure, 0,
            "device.h", "launches a stream holds before KD_BUSY; 0: many",
            "kd_device_info.max_in_flight KD_BUSY",
            "A ring of fixed size that nobody guards overwrites its oldest"
            " entries."),
    KC_RULE(MUST, ASYNC, "stream.args-copied", stream_args_copied, 0,
            "kernel.h",
            "Everything in this struct is borrowed for the call of"
            " `enqueue`",
            "kd_launch.inputs kd_launch.outputs kd_tensor.dims"
            " kd_launch.input_count kd_launch.output_count kd_launch.flags",
            "Dims and tensors lie on the host's stack: a plugin that keeps the"
            " pointer computes with other numbers later."),
    KC_RULE(MUST, ASYNC, "stream.thread-handoff", stream_handoff, 0, "stream.h",
            "any thread may call it, one at a time for one stream",
            "kd_stream_table.create kd_stream_table.destroy",
            "Contexts in thread-local storage are not there on the next"
            " thread."),
    KC_RULE(SHOULD, ASYNC, "stream.independent", stream_independent, KC_ALONE,
            "stream.h",
            "There may be many streams, and they should run independently"
            " of each other",
            "kd_stream_table.create kd_stream_table.wait",
            "Copies and kernels overlap only then."),
    KC_RULE(MUST, ASYNC, "stream.destroy-done", stream_destroy_done, 0,
            "stream.h", "Destroys a stream whose work is done",
            "kd_stream_table.destroy kd_event_table.query",
            "Events of a stream are still asked when it is gone; they must not"
            " look into its memory."),
    KC_RULE(MUST, ASYNC, "stream.beside-synchronous", stream_mixed_sync, 0,
            "memory.h", "is not ordered with work on streams",
            "kd_memory_table.copy_in kd_memory_table.copy_out",
            "A synchronous call that uses a stream's staging buffer mixes the"
            " two up."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(stream_ids, "stream.create-destroy", KC_AROUND, "ids of streams run out"),
    DEFECT_AS(priority_refused, "stream.priorities", KC_AROUND, "only priority 0 is taken"),
    DEFECT(out_of_order, "stream.in-order", "two queues serve one stream"),
    DEFECT(stream_alias, "stream.many", "the seventeenth stream is the first"),
    DEFECT(sync_empty, "stream.sync-empty", "waiting for an empty stream hangs"),
    DEFECT_AS(sync_submits, "stream.sync-complete", KC_AROUND, "waiting ends when work is submitted"),
    DEFECT(flush_nothing, "stream.flush", "work starts only when somebody waits"),
    DEFECT(held_back, "stream.not-held-back", "work is held back without a flush"),
    DEFECT(enqueue_blocks, "stream.enqueue-not-blocking", "enqueueing waits for earlier work"),
    DEFECT(launch_blocks_once, "stream.enqueue-not-blocking", "one op's enqueue waits for the work before it"),
    DEFECT_AS(launch_blocks, "stream.launch-not-blocking", KC_AROUND, "a kernel's enqueue waits until it has run"),
    DEFECT(launch_blocks_before, "stream.launch-not-blocking", "a kernel's enqueue waits for the work before it"),
    DEFECT(ring_overflow, "stream.back-pressure", "the 200th entry of a ring is lost"),
    DEFECT(args_kept, "stream.args-copied", "dims are kept by pointer"),
    DEFECT(stream_tls, "stream.thread-handoff", "streams work on their own thread only"),
    DEFECT(one_queue, "stream.independent", "all streams wait for each other"),
    DEFECT(events_die, "stream.destroy-done", "events fail with their stream"),
    DEFECT_AS(staging_shared, "stream.beside-synchronous", KC_RACE, "synchronous copies are lost beside a busy stream"),
};
/* clang-format on */

KC_AREA(stream, "Streams");
