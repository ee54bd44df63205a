/* event.c - points in streams, waits, callbacks. */
#include "rules/rules.h"

static void event_initial(void) {
  for (int i = 0; i < 20; i++) {
    kd_event *event = kc_event_make(kc_device());
    kd_status status = kp.e.query(event);
    kc_check(status == KD_OK, "query of a new event returned %s",
             kd_status_name(status));
    status = kp.e.wait(event, 10 * KC_S);
    kc_check(status == KD_OK, "wait for a new event returned %s",
             kd_status_name(status));
    kc_event_free(event);
  }
}

/* Never done before the work before it. */
static void event_record_query(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kc_trip trip = kc_trip_make(100000);
  uint32_t early = 0;
  for (uint64_t i = 0; i < 8; i++) {
    kd_event *event = kc_event_make(kc_device());
    kc_trip_enqueue(&trip, stream, i, 4 * KC_MS);
    kc_record(event, stream);
    kd_status status = kp.e.query(event);
    early += status == KD_OK;
    uint64_t until = kc_now() + 10 * KC_S;
    while (status == KD_BUSY && kc_now() < until)
      status = kp.e.query(event);
    kc_check(status == KD_OK, "query returned %s", kd_status_name(status));
    uint64_t first = kc_trip_differs(&trip);
    kc_check(first == trip.size,
             "the event said that it was done, and byte %llu of the copy before"
             " it was not there",
             (unsigned long long)first);
    kc_check(kp.e.query(event) == KD_OK,
             "an event that was done is not any more");
    kc_drain(stream);
    kc_event_free(event);
  }
  kc_note("%u of 8 were done at once", early);
}

/* One event, recorded again and again: it is of the last record alone. */
static void event_reuse(void) {
  static const uint64_t times[] = {KC_MS, 20 * KC_MS, 5 * KC_MS};
  kd_stream *stream = kc_stream_make(kc_device());
  kd_event *event = kc_event_make(kc_device());
  kc_trip trip = kc_trip_make(30000);
  for (uint64_t i = 0; i < (kc.quick ? 6 : 20); i++) {
    kc_trip_enqueue(&trip, stream, i, times[i % KC_COUNT_OF(times)]);
    kc_record(event, stream);
    bool done = kp.e.query(event) == KD_OK;
    kc_check(
        !done || kc_trip_differs(&trip) == trip.size,
        "recorded for the %u. time, the event said at once that it was done,"
        " and the copy before it was not",
        (unsigned)i + 1);
    kc_await(event);
    kc_check(kc_trip_differs(&trip) == trip.size,
             "recorded for the %u. time, a wait returned before the work before"
             " the event was done",
             (unsigned)i + 1);
    kc_drain(stream);
  }
  kc_event_free(event);
}

static void event_wait_host(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kc_trip trip = kc_trip_make(50000);
  for (uint64_t i = 0; i < 8; i++) {
    kd_event *event = kc_event_make(kc_device());
    kc_trip_enqueue(&trip, stream, i, 3 * KC_MS);
    kc_record(event, stream);
    kc_await(event);
    kc_check(kc_trip_differs(&trip) == trip.size,
             "the wait returned before the work before the event was done");
    kc_check(kp.e.query(event) == KD_OK, "query after the wait is not KD_OK");
    kc_event_free(event);
  }
}

static void event_timeout(void) {
  kc_need_queues();
  kd_stream *stream = kc_stream_make(kc_device());
  kc_busy(stream, KC_MS);
  kc_drain(stream);
  kd_event *event = kc_event_make(kc_device());
  kc_busy(stream, 300 * KC_MS);
  kc_record(event, stream);
  static const uint64_t limits[] = {0, 1, KC_MS, 5 * KC_MS};
  for (size_t i = 0; i < KC_COUNT_OF(limits); i++) {
    if (kp.e.query(event) == KD_OK) break; /* it was fast: nothing to see */
    uint64_t begin = kc_now();
    kd_status status = kp.e.wait(event, limits[i]);
    uint64_t spent = kc_now() - begin;
    kc_check(status == KD_DEADLINE_EXCEEDED || kp.e.query(event) == KD_OK,
             "a wait of %.3f ms on unfinished work returned %s",
             (double)limits[i] / 1e6, kd_status_name(status));
    kc_check((double)spent < (double)limits[i] + 100e6 * kc.factor,
             "a wait of %.3f ms took %.1f ms", (double)limits[i] / 1e6,
             (double)spent / 1e6);
  }
  kc_check(kp.e.wait(event, UINT64_MAX) == KD_OK, "the later wait failed");
}

/* One stream waits for another's event: what it copies is there. */
static void event_wait_device(void) {
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  enum { SIZE = 20000 };
  kc_buffer *buffer = kc_buffer_make(SIZE);
  char *in = kc_lend(SIZE), *out = kc_lend(SIZE);
  int rounds = kc.quick ? 15 : 60;
  for (int i = 0; i < rounds; i++) {
    kd_event *event = kc_event_make(kc_device());
    kc_pattern(in, SIZE, (uint64_t)i);
    memset(out, 0, SIZE);
    kc_busy(a, i % 4 == 0 ? 3 * KC_MS : KC_MS / 4);
    kc_copy_in(a, buffer, 0, in, SIZE);
    kc_record(event, a);
    kc_wait_on(b, event);
    kc_copy_out(b, buffer, 0, out, SIZE);
    kc_drain(b);
    uint64_t first = kc_differs(in, out, SIZE);
    kc_check(first == SIZE,
             "round %d: work behind stream.wait ran before the event's", i);
    kc_drain(a);
    kc_event_free(event);
  }
}

static void event_wait_not_blocking(void) {
  kc_need_queues();
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  kd_event *event = kc_event_make(kc_device());
  kc_busy(a, KC_MS);
  kc_drain(a);
  uint64_t begin = kc_now();
  kc_busy(a, 120 * KC_MS);
  kc_record(event, a);
  uint64_t before = kc_now();
  kc_wait_on(b, event);
  uint64_t spent = kc_now() - before;
  kc_drain(a);
  uint64_t all = kc_now() - begin;
  kc_check(spent < all / 2 || all < 20 * KC_MS,
           "stream.wait took %.1f ms of the %.1f ms that the event took",
           (double)spent / 1e6, (double)all / 1e6);
  kc_drain(b);
}

/* Random graphs of copies over several streams, against the same in order. */
static void event_cross_dag(void) {
  if (!kp.m.copy) kc_unclaimed("memory.copy is NULL");
  enum { STREAMS = 4, CELLS = 12, SIZE = 128, STEPS = 40 };
  kd_stream *streams[STREAMS];
  kc_buffer *cells[CELLS];
  static char model[CELLS][SIZE];
  for (int i = 0; i < STREAMS; i++)
    streams[i] = kc_stream_make(kc_device());
  for (int i = 0; i < CELLS; i++)
    cells[i] = kc_buffer_make(SIZE);
  kc_random random = kc_seed();
  int graphs = kc.quick ? 4 : 15;
  for (int g = 0; g < graphs; g++) {
    kd_event *writer[CELLS] = {0}; /* the last that wrote a cell */
    kd_event *readers[CELLS][STREAMS] = {{0}};
    kd_event *made[STEPS];
    for (int i = 0; i < CELLS; i++) {
      kc_pattern(model[i], SIZE, (uint64_t)(g * 100 + i));
      kc_write(cells[i], 0, model[i], SIZE);
    }
    for (int k = 0; k < STEPS; k++) {
      uint32_t s = (uint32_t)kc_below(&random, STREAMS);
      uint32_t from = (uint32_t)kc_below(&random, CELLS);
      uint32_t to = (uint32_t)kc_below(&random, CELLS);
      if (to == from) to = (to + 1) % CELLS;
      if (writer[from]) kc_wait_on(streams[s], writer[from]);
      if (writer[to]) kc_wait_on(streams[s], writer[to]);
      for (int r = 0; r < STREAMS; r++)
        if (readers[to][r]) kc_wait_on(streams[s], readers[to][r]);
      if (kc_below(&random, 6) == 0) kc_busy(streams[s], KC_MS / 2);
      kc_copy(streams[s], cells[from], cells[to], SIZE);
      memcpy(model[to], model[from], SIZE);
      made[k] = kc_event_make(kc_device());
      kc_record(made[k], streams[s]);
      writer[to] = made[k];
      readers[from][s] = made[k];
      memset(readers[to], 0, sizeof readers[to]);
    }
    for (int i = 0; i < STREAMS; i++)
      kc_drain(streams[i]);
    for (int i = 0; i < CELLS; i++) {
      char back[SIZE];
      kc_read(cells[i], 0, back, SIZE);
      kc_check(!memcmp(back, model[i], SIZE),
               "graph %d: cell %d is not what the same steps in order give", g,
               i);
    }
    for (int k = 0; k < STEPS; k++)
      kc_event_free(made[k]);
  }
}

static void event_never_recorded(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kd_event *event = kc_event_make(kc_device());
  kc_ok(kp.s.wait(stream, event),
        "stream.wait for an event that was never recorded");
  char byte = 1;
  kc_buffer *buffer = kc_buffer_make(1);
  kc_copy_in(stream, buffer, 0, &byte, 1);
  kd_event *end = kc_event_make(kc_device());
  kc_record(end, stream);
  kd_status status = kp.e.wait(end, 5 * KC_S);
  kc_check(status == KD_OK,
           "a stream that waits for an event that was never recorded: %s",
           kd_status_name(status));
}

static void event_re_record(void) {
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  kd_event *event = kc_event_make(kc_device());
  kc_buffer *buffer = kc_buffer_make(4);
  for (uint32_t i = 0; i < 20; i++) {
    uint32_t first = i * 2 + 1, out = 0;
    kc_copy_in(a, buffer, 0, &first, 4);
    kc_record(event, a);
    kc_wait_on(b, event);
    kc_copy_out(b, buffer, 0, &out, 4);
    /* the event moves on: b's wait still means the old point */
    kd_event *read = kc_event_make(kc_device());
    kc_record(read, b);
    kc_wait_on(a, read);
    kc_record(event, a);
    kd_status status = kp.e.wait(event, 10 * KC_S);
    kc_check(status == KD_OK,
             "two streams that wait for each other's earlier points: %s (a wait"
             " followed an event to its new point)",
             kd_status_name(status));
    if (status != KD_OK) return;
    kc_drain(b);
    kc_check(out == first, "the wait for the event's old point was lost");
    kc_event_free(read);
  }
}

typedef struct waiting {
  kd_event *event;
  atomic_uint good;
} waiting;

static void wait_there(void *context, uint32_t index) {
  waiting *w = context;
  (void)index;
  if (kp.e.wait(w->event, UINT64_MAX) == KD_OK) atomic_fetch_add(&w->good, 1);
}

static void event_multi_wait(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  int rounds = kc.quick ? 4 : 12;
  for (int i = 0; i < rounds; i++) {
    waiting w = {.event = kc_event_make(kc_device())};
    kc_busy(stream, (uint64_t)(i % 3) * KC_MS);
    kc_record(w.event, stream);
    kc_threads(12, wait_there, &w);
    kc_check(atomic_load(&w.good) == 12, "%u of 12 waiting threads went on",
             atomic_load(&w.good));
    kc_event_free(w.event);
  }
}

static void event_multi_stream_wait(void) {
  enum { MANY = 8 };
  kd_stream *source = kc_stream_make(kc_device()), *streams[MANY];
  kd_event *event = kc_event_make(kc_device());
  kc_buffer *buffer = kc_buffer_make(64);
  char in[64], out[MANY][64];
  kc_pattern(in, 64, 4);
  kc_busy(source, 5 * KC_MS);
  kc_copy_in(source, buffer, 0, in, 64);
  kc_record(event, source);
  for (int i = 0; i < MANY; i++) {
    streams[i] = kc_stream_make(kc_device());
    memset(out[i], 0, 64);
    kc_wait_on(streams[i], event);
    kc_copy_out(streams[i], buffer, 0, out[i], 64);
  }
  for (int i = 0; i < MANY; i++) {
    kc_drain(streams[i]);
    kc_check(!memcmp(in, out[i], 64), "stream %d of %d did not wait", i, MANY);
  }
}

static void event_destroy_waited(void) {
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  kc_buffer *buffer = kc_buffer_make(1000);
  char in[1000], out[1000];
  for (uint64_t i = 0; i < 12; i++) {
    kd_event *event = kc_event_make(kc_device());
    kc_pattern(in, sizeof in, i);
    memset(out, 0, sizeof out);
    kc_busy(a, 2 * KC_MS);
    kc_copy_in(a, buffer, 0, in, sizeof in);
    kc_record(event, a);
    kc_wait_on(b, event);
    kc_event_free(event); /* legal while its work still runs */
    kc_copy_out(b, buffer, 0, out, sizeof out);
    kc_drain(b);
    kc_check(!memcmp(in, out, sizeof in),
             "a wait was dropped when its event was destroyed");
    kc_drain(a);
  }
}

typedef struct called {
  atomic_uint count;
  atomic_int status;
} called;

static void on_done(void *context, kd_status status, const char *why) {
  called *c = context;
  (void)why;
  atomic_store(&c->status, status);
  atomic_fetch_add(&c->count, 1);
}

static void need_callbacks(void) {
  if (!kp.e.on_complete) kc_unclaimed("event.on_complete is NULL");
}

static kd_status notify(kd_event *event, called *c) {
  return kp.e.on_complete(event, on_done, c);
}

static void event_callback_once(void) {
  need_callbacks();
  kd_stream *stream = kc_stream_make(kc_device());
  static called calls[60];
  kd_event *events[60];
  int count = kc.quick ? 20 : 60;
  memset(calls, 0, sizeof calls);
  for (int i = 0; i < count; i++) {
    events[i] = kc_event_make(kc_device());
    if (i % 3 == 0) kc_busy(stream, KC_MS / 4);
    kc_record(events[i], stream);
    kc_ok(notify(events[i], &calls[i]), "event.on_complete");
  }
  for (int i = 0; i < count; i++)
    kc_check(kc_counted(&calls[i].count), "callback %d did not come within 2 s",
             i);
  kc_drain(stream);
  kc_sleep(5 * KC_MS);
  for (int i = 0; i < count; i++) {
    kc_check(atomic_load(&calls[i].count) <= 1, "callback %d came %u times", i,
             atomic_load(&calls[i].count));
    kc_check(atomic_load(&calls[i].status) == KD_OK,
             "callback %d got status %d of work that succeeded", i,
             atomic_load(&calls[i].status));
    kc_event_free(events[i]);
  }
}

static void event_callback_not_early(void) {
  need_callbacks();
  kd_stream *stream = kc_stream_make(kc_device());
  kc_trip trip = kc_trip_make(50000);
  for (uint64_t i = 0; i < 8; i++) {
    called c = {0};
    kd_event *event = kc_event_make(kc_device());
    kc_trip_enqueue(&trip, stream, i, 3 * KC_MS);
    kc_record(event, stream);
    kc_ok(notify(event, &c), "event.on_complete");
    kc_check(kc_counted(&c.count), "the callback did not come within 2 s");
    kc_check(kc_trip_differs(&trip) == trip.size,
             "the callback came before the work before the event was done");
    kc_drain(stream);
    kc_event_free(event);
  }
}

static void event_callback_done(void) {
  need_callbacks();
  kd_stream *stream = kc_stream_make(kc_device());
  for (int i = 0; i < 10; i++) {
    called c = {0};
    kd_event *event = kc_event_make(kc_device());
    kc_record(event, stream);
    kc_await(event);
    kc_ok(notify(event, &c), "event.on_complete of an event that is done");
    kc_check(kc_counted(&c.count),
             "the callback of an event that was done did not come within 2 s");
    kc_check(atomic_load(&c.count) == 1, "it came %u times",
             atomic_load(&c.count));
    kc_event_free(event);
  }
}

static void event_callback_destroyed(void) {
  need_callbacks();
  kd_stream *stream = kc_stream_make(kc_device());
  static called calls[20];
  memset(calls, 0, sizeof calls);
  for (int i = 0; i < 20; i++) {
    kd_event *event = kc_event_make(kc_device());
    kc_busy(stream, KC_MS / 2);
    kc_record(event, stream);
    kc_ok(notify(event, &calls[i]), "event.on_complete");
    kc_event_free(event); /* legal after a callback was registered */
  }
  for (int i = 0; i < 20; i++)
    kc_check(kc_counted(&calls[i].count),
             "callback %d of an event that was destroyed did not come", i);
  kc_drain(stream);
}

static void event_many(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  uint32_t count = kc.quick ? 600 : 6000;
  kd_event **events = kc_take(count * sizeof *events);
  for (uint32_t i = 0; i < count; i++) {
    kd_status status = kp.e.create(kc_device(), 0, &events[i]);
    if (!kc_check(status == KD_OK, "event %u can't be made: %s", i,
                  kc_message())) {
      count = i;
      break;
    }
    kc_record(events[i], stream);
  }
  kc_drain(stream);
  for (uint32_t i = 0; i < count; i++) {
    kc_check(kp.e.query(events[i]) == KD_OK, "event %u is not done", i);
    kp.e.destroy(events[i]);
  }
  free(events);
}

static void event_churn(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  uint32_t count = kc.quick ? 500 : 5000;
  for (uint32_t i = 0; i < count; i++) {
    kd_event *event = NULL;
    kd_status status = kp.e.create(kc_device(), 0, &event);
    if (!kc_check(status == KD_OK, "event %u can't be made", i)) return;
    kc_record(event, stream);
    kp.e.destroy(event);
  }
  kc_drain(stream);
}

static void event_other_stream_order(void) {
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  kd_event *x = kc_event_make(kc_device()), *y = kc_event_make(kc_device());
  kc_busy(a, 10 * KC_MS);
  kc_record(x, a);
  kc_record(y, b);
  kc_await(y);
  kd_status of_y = kp.e.query(y),
            of_x = kp.e.query(x); /* b is done, a may be busy */
  kc_check(of_y == KD_OK, "query of what was waited for returned %s",
           kd_status_name(of_y));
  kc_check(of_x == KD_OK || of_x == KD_BUSY, "query returned %s",
           kd_status_name(of_x));
  kc_await(x);
  kc_check(kp.e.query(x) == KD_OK && kp.e.query(y) == KD_OK,
           "done events are not done");
}

static const kc_rule rules[] = {
    KC_RULE(MUST, ASYNC, "event.initial", event_initial, 0, "stream.h",
            "Creates an event, not recorded yet",
            "kd_event_table.create kd_event_table.query",
            "State that is not set reads as whatever was in memory."),
    KC_RULE(MUST, ASYNC, "event.record-query", event_record_query, 0,
            "stream.h",
            "Records the event after all work that `stream` holds now",
            "kd_event_table.record kd_event_table.query KD_BUSY",
            "An event that is ready as soon as it is recorded makes the host"
            " read results too early."),
    KC_RULE(MUST, ASYNC, "event.wait-host", event_wait_host, 0, "stream.h",
            "Blocks the caller until the work before the event is done",
            "kd_event_table.wait",
            "The host reads the result right behind the wait."),
    KC_RULE(MUST, ASYNC, "event.wait-timeout", event_timeout, KC_ALONE,
            "stream.h", "0 polls, UINT64_MAX waits without limit",
            "kd_event_table.wait KD_DEADLINE_EXCEEDED",
            "Nanoseconds taken for seconds, or a timeout that is ignored, hang"
            " the caller."),
    KC_RULE(MUST, ASYNC, "event.wait-device", event_wait_device, 0, "stream.h",
            "Makes work that is enqueued from now on wait for `event`",
            "kd_stream_table.wait",
            "A wait that does nothing passes most of the time."),
    KC_RULE(MUST, ASYNC, "event.wait-not-blocking", event_wait_not_blocking,
            KC_ALONE, "stream.h", "Never blocks", "kd_stream_table.wait",
            "A wait on the host's side serialises all streams."),
    KC_RULE(MUST, ASYNC, "event.cross-dag", event_cross_dag, 0, "stream.h",
            "which may be of another stream or device of this plugin",
            "kd_stream_table.wait kd_event_table.record",
            "Random graphs find the order that a single test does not."),
    KC_RULE(MUST, ASYNC, "event.wait-before-record", event_never_recorded, 0,
            "stream.h",
            "Waiting for an event that was never recorded has no effect",
            "kd_stream_table.wait",
            "Waiting for something that never comes hangs the stream."),
    KC_RULE(MUST, ASYNC, "event.re-record", event_re_record, 0, "stream.h",
            "waits that are already queued still refer to the old point",
            "kd_event_table.record kd_stream_table.wait",
            "A wait that looks at the event when its turn comes finds the new"
            " point, which may be behind itself."),
    KC_RULE(MUST, ASYNC, "event.multi-wait", event_multi_wait, 0, "stream.h",
            "Several threads may query and wait for one event at once",
            "kd_event_table.wait kd_event_table.query",
            "One wake-up for many sleepers, or a check before the sleep without"
            " a lock, leaves some asleep for ever."),
    KC_RULE(MUST, ASYNC, "event.multi-stream", event_multi_stream_wait, 0,
            "stream.h",
            "Several threads may query and wait for one event at once, and"
            " any number of streams may wait for it",
            "kd_stream_table.wait",
            "A single slot for the one who waits forgets the others."),
    KC_RULE(MUST, ASYNC, "event.destroy-waited", event_destroy_waited, 0,
            "stream.h",
            "Legal while its work still runs and after a callback was"
            " registered",
            "kd_event_table.destroy kd_stream_table.wait",
            "The host destroys events as soon as it has queued the waits."),
    KC_RULE(MUST, ASYNC, "event.callback-once", event_callback_once, 0,
            "stream.h",
            "Calls `callback` once, when the work before the event is done",
            "kd_event_table.on_complete kd_event_callback",
            "A callback that races with completion comes twice, or never."),
    KC_RULE(MUST, ASYNC, "event.callback-not-early", event_callback_not_early,
            0, "stream.h",
            "Called once when an event's work is done or has failed",
            "kd_event_table.on_complete", "The host releases buffers in it."),
    KC_RULE(MUST, ASYNC, "event.callback-already-done", event_callback_done, 0,
            "stream.h", "or inside the call that registered it",
            "kd_event_table.on_complete",
            "Registered after completion, it must still come"
            " (ROCm/rocm-systems#1345)."),
    KC_RULE(MUST, ASYNC, "event.callback-destroyed", event_callback_destroyed,
            0, "stream.h", "the callback still comes",
            "kd_event_table.destroy kd_event_table.on_complete",
            "An event freed with its callback pending is used after its end"
            " (pocl/pocl#1431)."),
    KC_RULE(MUST, ASYNC, "event.many", event_many, 0, "stream.h",
            "There may be thousands", "kd_event_table.create",
            "A fixed pool runs dry with one large program."),
    KC_RULE(MUST, ASYNC, "event.reuse", event_reuse, 0, "stream.h",
            "Recording it again moves it",
            "kd_event_table.record kd_event_table.query",
            "An event that remembers that it was done lets the next round read "
            "early."),
    KC_RULE(MUST, ASYNC, "event.churn", event_churn, 0, "stream.h",
            "Frees an event", "kd_event_table.create kd_event_table.destroy",
            "Events are made and freed at every launch."),
    KC_RULE(MUST, ASYNC, "event.streams-apart", event_other_stream_order, 0,
            "stream.h", "An event carries the status of the work before it",
            "kd_event_table.record kd_event_table.query",
            "Events of one stream say nothing of another."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(event_uninitialised, "event.initial", "a new event is busy"),
    DEFECT_AS(ready_at_record, "event.record-query", KC_AROUND, "an event is done when it is recorded"),
    DEFECT_AS(wait_early, "event.wait-host", KC_AROUND | KC_RACE, "waits of the host return at once"),
    DEFECT_AS(timeout_ignored, "event.wait-timeout", KC_AROUND, "timeouts are ignored"),
    DEFECT_AS(device_wait_noop, "event.wait-device", KC_AROUND, "stream.wait does nothing"),
    DEFECT_AS(device_wait_blocks, "event.wait-not-blocking", KC_AROUND, "stream.wait waits on the host"),
    DEFECT_AS(wait_sometimes, "event.cross-dag", KC_AROUND, "every fourth stream.wait is forgotten"),
    DEFECT(never_recorded, "event.wait-before-record", "a wait for a new event hangs the stream"),
    DEFECT_AS(follows_record, "event.re-record", KC_RACE, "queued waits follow the event"),
    DEFECT_AS(lost_wakeup, "event.multi-wait", KC_RACE, "one waiter is woken, the others sleep on"),
    DEFECT(one_waiter, "event.multi-stream", "an event remembers one waiting stream"),
    DEFECT(destroy_drops, "event.destroy-waited", "waits are dropped with their event"),
    DEFECT_AS(callback_twice, "event.callback-once", KC_AROUND | KC_RACE, "callbacks come twice now and then"),
    DEFECT_AS(callback_early, "event.callback-not-early", KC_AROUND, "callbacks come when they are registered"),
    DEFECT(callback_done, "event.callback-already-done", "no callback for an event that is done"),
    DEFECT(callback_destroyed, "event.callback-destroyed", "callbacks are dropped with their event"),
    DEFECT(event_pool, "event.many", "there are 400 events"),
    DEFECT(event_stays_done, "event.reuse", "an event that was done once is done for ever"),
    DEFECT_AS(event_ids, "event.churn", KC_AROUND, "ids of events are used up"),
    DEFECT(query_all, "event.streams-apart", "query fails while another stream is busy"),
};
/* clang-format on */

KC_AREA(event, "Events and waits");
