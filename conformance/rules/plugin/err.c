/* err.c - how calls fail: statuses, messages, what stays usable. */
#include "rules/plugin/err.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

/* Something that must fail: an allocation that nothing can fill. */
static kd_status fail_once(uint64_t size) {
  kd_buffer *buffer = NULL;
  void *address = NULL;
  return kc_allocate(kc_device(), 0, size, &buffer, &address);
}

static void err_code_and_message(void) {
  kc_device();
  kd_status status = fail_once(UINT64_MAX - 4095);
  kc_check(status > 0 && status <= KD_BUSY,
           "a failed allocation returned %d, no status of kd/base.h", status);
  kc_check(*kc_message(), "a failed allocation left no message by host->fail");
  kc_check(kc_message_status() == status || !*kc_message(),
           "the call returned %s, host->fail was given %s",
           kd_status_name(status), kd_status_name(kc_message_status()));
  kd_device_info info = {.struct_size = sizeof info};
  status = KC_CALL(kd_status, kp.p.device_info(kp.instance, UINT32_MAX, &info),
                   "device_info(UINT32_MAX)");
  kc_check(status != KD_OK && *kc_message(),
           "device_info of no device left no message by host->fail");
}

/* Whether the message names a number. */
static bool has_digit(void) {
  return strpbrk(kc_message(), "0123456789");
}

static void err_message_names(void) {
  kc_device();
  fail_once(UINT64_MAX - 4095);
  kc_check(has_digit(),
           "the message of an allocation that failed names no size:"
           " \"%.200s\"",
           kc_message());
  kc_note("%.300s", kc_message());
}

static void err_out_params(void) {
  kd_buffer *buffer = (kd_buffer *)(uintptr_t)0x5a5a;
  void *address = (void *)(uintptr_t)0x5a5a;
  kd_status status =
      kc_allocate(kc_device(), 0, UINT64_MAX - 4095, &buffer, &address);
  kc_check(status != KD_OK, "an allocation of 2^64 bytes succeeded");
  kc_check(buffer == (kd_buffer *)(uintptr_t)0x5a5a &&
               address == (void *)(uintptr_t)0x5a5a,
           "a failed allocate wrote its out-parameters");
  if (kp.x.import_memory) {
    const kd_external odd_kind = {
        .struct_size = sizeof odd_kind, .kind = 999, .size = 64};
    status =
        KC_CALL(kd_status,
                kp.x.import_memory(kc_device(), &odd_kind, &buffer, &address),
                "external.import_memory(kind 999)");
    kc_check(status == KD_OK || buffer == (kd_buffer *)(uintptr_t)0x5a5a,
             "a failed import_memory wrote its out-parameters");
  }
  if (kc_claims(KC_ASYNC)) {
    kd_stream *stream = (kd_stream *)(uintptr_t)0x5a5a;
    status = kp.s.create(kc_device(), 0, 0x40000000u, &stream);
    kc_check(status == KD_OK || stream == (kd_stream *)(uintptr_t)0x5a5a,
             "a failed stream.create wrote its out-parameter");
  }
}

static void err_success_clears(void) {
  kc_device();
  fail_once(UINT64_MAX - 4095);
  kd_buffer *buffer = NULL;
  void *address = NULL;
  kc_ok(KC_CALL(kd_status, /* the message is cleared before each call */
                kc_allocate(kc_device(), 0, 64, &buffer, &address),
                "memory.allocate(64 bytes)"),
        "allocate");
  kc_check(!*kc_message(), "a call that succeeded left a message: \"%.100s\"",
           kc_message());
  kp.m.release(kc_device(), buffer);
}

static void fail_there(void *context, uint32_t index) {
  (void)context;
  for (int i = 0; i < 30; i++) {
    uint64_t size = UINT64_MAX / 2 - (uint64_t)index * 4096;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)size);
    kd_status status = fail_once(size);
    kc_check(status == KD_OUT_OF_MEMORY, "it returned %s",
             kd_status_name(status));
    kc_check(*kc_message(), "thread %u failed without a message", index);
    kc_check(!has_digit() || strstr(kc_message(), text) ||
                 strlen(kc_message()) < 1800,
             "thread %u got the message of another: \"%.100s\"", index,
             kc_message());
    /* a message that names a size names this one */
    for (uint32_t other = 0; other < 8; other++) {
      char theirs[32];
      snprintf(theirs, sizeof theirs, "%llu",
               (unsigned long long)(UINT64_MAX / 2 - (uint64_t)other * 4096));
      if (other != index)
        kc_check(!strstr(kc_message(), theirs),
                 "thread %u got the message of thread %u", index, other);
    }
  }
}

static void err_thread_local(void) {
  kc_device();
  kc_threads(8, fail_there, NULL);
}

/* host memory: the n-th allocation fails, for n = 1 .. until nothing does. */
static void err_alloc_fail(void) {
  kc_need_device();
  kc_close();
  kc_host.closed = false; /* it is opened by hand */
  int clean = 0;
  for (uint32_t n = 1; n <= (kc.quick ? 40u : 200u) && clean < 2; n++) {
    if (!kc_case("n=%u", n)) continue;
    atomic_store(&kc_host.allocations, 0);
    atomic_store(&kc_host.fail_at, n);
    int live = atomic_load(&kc_host.live);
    kd_status status =
        KC_CALL(kd_status, kp.p.open(kc_services(), &kp.instance), "open");
    kd_device *device = NULL;
    kd_buffer *buffer = NULL;
    void *address = NULL;
    kd_stream *stream = NULL;
    kc_check(status == KD_OK || (status > 0 && *kc_message()),
             "open returned %d without a message", status);
    if (status == KD_OK) {
      status =
          KC_CALL(kd_status, kp.p.device_open(kp.instance, kc.device, &device),
                  "device_open");
      kc_check(status == KD_OK || *kc_message(),
               "device_open failed without a message");
      if (status == KD_OK) {
        kd_status made = kc_allocate(device, 0, 1000, &buffer, &address);
        kc_check(made == KD_OK || made == KD_OUT_OF_MEMORY,
                 "allocate returned %s", kd_status_name(made));
        if (made == KD_OK) {
          char byte = 1;
          kp.m.copy_in(device, NULL, &byte, buffer, 0, 1);
          kp.m.release(device, buffer);
        }
        if (kc_claims(KC_ASYNC)) {
          made = kp.s.create(device, 0, 0, &stream);
          kc_check(made == KD_OK || made == KD_OUT_OF_MEMORY,
                   "stream.create returned %s", kd_status_name(made));
          if (made == KD_OK) kp.s.destroy(stream);
        }
        KC_DO(kp.p.device_close(device), "device_close");
      }
      KC_DO(kp.p.close(kp.instance), "close");
    }
    bool failed = atomic_load(&kc_host.allocations) >= n;
    atomic_store(&kc_host.fail_at, 0);
    kc_check(atomic_load(&kc_host.live) == live,
             "%d blocks were not released after allocation %u failed",
             atomic_load(&kc_host.live) - live, n);
    clean = failed ? 0 : clean + 1;
    /* and all is well afterwards */
    status = KC_CALL(kd_status, kp.p.open(kc_services(), &kp.instance), "open");
    if (kc_check(status == KD_OK, "open after a shortage returned %s",
                 kd_status_name(status)))
      KC_DO(kp.p.close(kp.instance), "close");
  }
}

static void err_service_fail(void) {
  kc_device();
  for (uint32_t n = 1; n <= 6; n++) {
    if (!kc_case("n=%u", n)) continue;
    atomic_store(&kc_host.calls, 0);
    atomic_store(&kc_host.service_fail_at, n);
    kc_op_case one;
    static const char *const ops[] = {"NonZero", "Relu"};
    for (int i = 0; i < 2; i++) {
      if (!kc_case_ints(NULL, ops[i], 0, n, &one)) continue;
      kc_node *node = kc_node_make(&one.op, NULL, 0);
      const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
      kc_run *run = NULL;
      if (def && kc_run_make(node, def, &one.op, &kc_plain, &run) == KD_OK) {
        kd_status status = kc_run_now(run);
        bool refused = atomic_exchange(&kc_host.outputs_refused, 0) > 0;
        kc_check(!refused || status != KD_OK,
                 "%s succeeded though set_output had failed", ops[i]);
        kc_check(refused || status == KD_OK,
                 "%s returned %s, and only the store had failed", ops[i],
                 kd_status_name(status));
        kc_run_free(run);
      }
      kc_node_free(node);
      kc_case_free(&one);
    }
    atomic_store(&kc_host.service_fail_at, 0);
    kc_check(true, " ");
  }
}

/* ---- asynchronous failures --------------------------------------------------------------- */

typedef struct faulty {
  kc_op_case one;
  kc_node *node;
  kc_run *run;
} faulty;

/* A Gather whose index is out of range: the one failure that data can cause on
 * any device. False where the device does not report it. */
static bool fault_make(faulty *f) {
  static const kd_dtype types[] = {KD_I64, KD_I32};
  int64_t dims[1] = {5}, two[1] = {2};
  kc_random random = {1};
  memset(f, 0, sizeof *f);
  kc_device();
  for (int t = 0; t < 2; t++) {
    f->one = kc_case_floats("Gather", 1, 1, dims, &random);
    value *indices = kc_case_add(&f->one, value_make(types[t], 1, two));
    indices->x[0] = 1;
    indices->x[1] = 1000000;
    f->node = kc_node_make(&f->one.op, NULL, 0);
    const kd_kernel_def *def = f->node ? kc_def_for(f->node) : NULL;
    if (def &&
        kc_run_make(f->node, def, &f->one.op, &kc_plain, &f->run) == KD_OK)
      return true;
    kc_node_free(f->node);
    kc_case_free(&f->one);
  }
  return false;
}

static void fault_free(faulty *f) {
  kc_run_free(f->run);
  kc_node_free(f->node);
  kc_case_free(&f->one);
}

/* Enqueues a failure on a stream; leaves the case where none comes. */
static kd_status fault_enqueue(faulty *f, kd_stream *stream) {
  if (!fault_make(f)) kc_unclaimed("it has no Gather to fail with");
  kd_status status = kc_run_enqueue(f->run, stream);
  if (status != KD_OK) {
    fault_free(f);
    kc_unclaimed("a bad index is found when the kernel is enqueued");
  }
  kd_event *probe = kc_event_make(kc_device());
  kc_record(probe, stream);
  status = kp.e.wait(probe, 10 * KC_S);
  kc_event_free(probe);
  if (status == KD_OK) {
    kd_status said = kc_finish(stream);
    if (said != KD_OK)
      kc_stop("the event behind failed work says OK, synchronize says %s",
              kd_status_name(said));
    fault_free(f);
    kc_unclaimed("a bad index is no failure for it");
  }
  return status;
}

static void err_async_event(void) {
  faulty f;
  kd_stream *stream = kc_stream_make(kc_device());
  kd_event *before = kc_event_make(kc_device());
  kc_record(before, stream);
  kd_status status = fault_enqueue(&f, stream);
  kc_check(status > 0 && status <= KD_BUSY && status != KD_BUSY &&
               status != KD_DEADLINE_EXCEEDED,
           "the event behind failed work says %s", kd_status_name(status));
  kc_check(kp.e.query(before) == KD_OK,
           "an event before the failed work says that it failed");
  kd_event *after = kc_event_make(kc_device());
  kc_record(after, stream);
  for (int again = 0; again < 2; again++) {
    kc_hush();
    kd_status later = kp.e.wait(after, 10 * KC_S);
    kc_check(later == KD_OK || *kc_message(),
             "event.wait returned %s and left no message, time %d",
             kd_status_name(later), again + 1);
    kc_hush();
    later = kp.e.query(after);
    kc_check(later == KD_OK || *kc_message(),
             "event.query returned %s and left no message, time %d",
             kd_status_name(later), again + 1);
  }
  kd_status later = kp.e.wait(after, 10 * KC_S);
  kc_check(later == status, "a later event says %s, the first one %s",
           kd_status_name(later), kd_status_name(status));
  fault_free(&f);
}

static void err_async_sync(void) {
  faulty f;
  if (!kp.s.synchronize) kc_unclaimed("stream.synchronize is NULL");
  kd_stream *stream = kc_stream_make(kc_device());
  kd_status status = fault_enqueue(&f, stream);
  kd_status said = kc_finish(stream);
  kc_check(said == status, "synchronize says %s, the event %s",
           kd_status_name(said), kd_status_name(status));
  if (status != KD_DEVICE_LOST) {
    said = kc_finish(stream);
    kc_check(said == KD_OK, "the second synchronize says %s",
             kd_status_name(said));
    kc_buffer *buffer = kc_buffer_make(64);
    char in[64] = "again", out[64] = "";
    kc_copy_in(stream, buffer, 0, in, 64);
    kc_copy_out(stream, buffer, 0, out, 64);
    kc_check(kc_finish(stream) == KD_OK && !strcmp(in, out),
             "the stream does not work after its failure was taken");
  }
  fault_free(&f);
}

static atomic_uint fault_calls;
static atomic_int fault_status;

static atomic_bool fault_told;

static void on_fault(void *context, kd_status status, const char *why) {
  (void)context;
  atomic_store(&fault_told, why && *why);
  atomic_store(&fault_status, status);
  atomic_fetch_add(&fault_calls, 1);
}

static void err_callback(void) {
  faulty f;
  if (!kp.e.on_complete) kc_unclaimed("event.on_complete is NULL");
  kd_stream *stream = kc_stream_make(kc_device());
  kd_status status = fault_enqueue(&f, stream);
  kd_event *event = kc_event_make(kc_device());
  atomic_store(&fault_calls, 0);
  kc_ok(kc_run_enqueue(f.run, stream), "enqueue");
  kc_record(event, stream);
  kc_ok(kp.e.on_complete(event, on_fault, NULL), "event.on_complete");
  kc_counted(&fault_calls);
  kc_check(atomic_load(&fault_calls) == 1,
           "on_complete was called %u times within 2 s of a failed launch",
           atomic_load(&fault_calls));
  kc_check(!atomic_load(&fault_calls) || atomic_load(&fault_status) == status,
           "on_complete was given %s, the event says %s",
           kd_status_name(atomic_load(&fault_status)), kd_status_name(status));
  kc_check(!atomic_load(&fault_calls) || atomic_load(&fault_told),
           "on_complete was given no reason of the failure");
  fault_free(&f);
}

static void err_async_wait(void) {
  faulty f;
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  kd_event *event = kc_event_make(kc_device()),
           *end = kc_event_make(kc_device());
  kd_status status = fault_enqueue(&f, a);
  kc_record(event, a);
  kc_wait_on(b, event);
  kc_record(end, b);
  kd_status said = kp.e.wait(end, 10 * KC_S);
  kc_check(said == status,
           "a stream that waited for failed work says %s, not"
           " %s",
           kd_status_name(said), kd_status_name(status));
  fault_free(&f);
}

static void err_others_live(void) {
  faulty f;
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  kd_status status = fault_enqueue(&f, a);
  if (status == KD_DEVICE_LOST) kc_unclaimed("its failures lose the device");
  kc_buffer *buffer = kc_buffer_make(64);
  char in[64] = "alive", out[64] = "";
  kc_ok(kc_try_copy_in(b, buffer, 0, in, 64), "copy_in on another stream");
  kc_ok(kc_try_copy_out(b, buffer, 0, out, 64), "copy_out on another stream");
  kd_status said = kc_finish(b);
  kc_check(said == KD_OK && !strcmp(in, out),
           "another stream says %s after a failure beside it",
           kd_status_name(said));
  kc_write(buffer, 0, in, 64); /* and synchronous calls */
  kc_read(buffer, 0, out, 64);
  kc_check(!strcmp(in, out), "synchronous copies fail after a failed launch");
  fault_free(&f);
}

static void err_no_hang(void) {
  faulty f;
  kd_stream *stream = kc_stream_make(kc_device());
  fault_enqueue(&f, stream);
  kd_event *event = kc_event_make(kc_device());
  kc_record(event, stream);
  uint64_t begin = kc_now();
  kd_status status = kp.e.wait(event, 3 * KC_S);
  kc_check(status != KD_DEADLINE_EXCEEDED, "a wait behind a failure hangs");
  kc_finish(stream);
  kc_check((double)(kc_now() - begin) < 5e9 * kc.factor,
           "waits behind a failure took %.1f s",
           (double)(kc_now() - begin) / 1e9);
  fault_free(&f);
}

static void err_bad_enqueue(void) {
  faulty f;
  if (!fault_make(&f)) kc_unclaimed("it has no Gather to fail with");
  kd_status status = kc_run_now(f.run);
  if (status == KD_OK) {
    kc_check(true, " ");
    kc_note("an index out of range is no failure for it");
  } else {
    kc_check(status > 0 && status <= KD_BUSY, "it returned %d", status);
    kc_check(kc_claims(KC_ASYNC) || *kc_message(),
             "the failed launch left no message");
  }
  kc_check(kc_buffer_intact(f.run->out_buffers[0]),
           "a bad index wrote outside the output");
  fault_free(&f);
  kc_smoke();
}

/* A failure of which only status and message are looked at. */
static void err_provoke(void) {
  kc_smoke();
  kd_status status = fail_once(UINT64_MAX - 4095);
  kc_check(status != KD_OK, "an allocation of 2^64 bytes succeeded");
  kc_check(status > 0 && status <= KD_BUSY, "the status is %d", status);
  kc_check(*kc_message(), "a failed allocation left no message by host->fail");
}

#define RULE(severity, level, id, check, flags, header, sentence, names, \
             about)                                                      \
  KC_RULE(severity, level, id, check, flags, header, sentence, names, about)

static const kc_rule rules[] = {
    RULE(MUST, CORE, "err.code-and-message", err_code_and_message, 0, "host.h",
         "Records why a call fails, for the calling thread, and returns `code`",
         "kd_host.fail KD_OUT_OF_RANGE KD_OUT_OF_MEMORY",
         "Without a message the user sees a number."),
    RULE(MUST, CORE, "err.code-defined", err_provoke, KC_WATCHED, "base.h",
         "The result of a call: zero, or why it failed",
         "kd_status KD_CANCELLED KD_UNKNOWN KD_INVALID_ARGUMENT KD_NOT_FOUND"
         " KD_ALREADY_EXISTS KD_PERMISSION_DENIED KD_FAILED_PRECONDITION"
         " KD_ABORTED KD_INTERNAL KD_UNAVAILABLE KD_DATA_LOSS"
         " KD_UNAUTHENTICATED KD_DEVICE_LOST KD_STATUS_LIST",
         "errno, or a driver's own numbers, mean something else to the host."),
    RULE(MUST, CORE, "err.message", err_provoke, KC_WATCHED, "plugin.h",
         "A call that fails says why through host->fail",
         "kd_host.fail kd_host.fail_text KD_PRINTF",
         "Watched behind each call of create and enqueue."),
    RULE(SHOULD, CORE, "err.message-names", err_message_names, 0, "memory.h",
         "KD_OUT_OF_MEMORY (the message has the requested and the free size)",
         "kd_host.fail", "\"Out of memory\" alone helps nobody."),
    RULE(MUST, CORE, "err.out-params", err_out_params, 0, "memory.h",
         "out_ parameters are written on KD_OK only",
         "kd_memory_table.allocate"
         " kd_stream_table.create",
         "A handle that is written on failure is taken for one that must be"
         " closed."),
    RULE(MUST, CORE, "err.success-is-silent", err_success_clears, 0, "host.h",
         "the last one before the call returns counts", "kd_host.fail",
         "A message recorded on the way to success is shown with the next"
         " failure."),
    RULE(MUST, CORE, "err.thread-local", err_thread_local, 0, "host.h",
         "Records why a call fails, for the calling thread",
         "kd_host.fail kd_memory_table.allocate",
         "A buffer of the plugin's own for messages is one for all threads."),
    RULE(SHOULD, CORE, "err.no-stdio", kc_smoke, KC_WATCHED, "plugin.h",
         "A plugin prints nothing: it logs through host->log",
         "kd_host.log kd_host.log_text",
         "Output of a library lands in the application's protocol. Watched over"
         " all rules."),
    RULE(MUST, CORE, "err.log-level", kc_smoke, KC_WATCHED, "host.h",
         "level is KD_LOG_*",
         "kd_host.log KD_LOG_ERROR KD_LOG_WARNING KD_LOG_INFO KD_LOG_DEBUG",
         "Other numbers are filtered wrongly."),
    RULE(MUST, CORE, "err.alloc-fail-nth", err_alloc_fail, KC_CASES | KC_CLOSED,
         "host.h", "`allocate` returns NULL if there is not enough memory",
         "kd_host.allocate kd_host.release KD_OUT_OF_MEMORY",
         "Every allocation fails once: no crash, no leak, and all is well"
         " afterwards."),
    RULE(MUST, CORE, "err.alloc-fail-kernel", err_alloc_fail_kernel, KC_CASES,
         "kernel.h",
         "Returns KD_OK, KD_UNIMPLEMENTED, KD_OUT_OF_MEMORY,"
         " KD_INVALID_ARGUMENT",
         "kd_kernel_def.create KD_INVALID_ARGUMENT kd_host.allocate",
         "The same while kernels of all ops are made and run. An enqueue that"
         " finds no memory, does nothing and returns KD_OK gives the user what"
         " was in the output before."),
    RULE(MUST, CORE, "err.service-fail-nth", err_service_fail, KC_CASES,
         "host.h",
         "Returns KD_OK, KD_OUT_OF_MEMORY, KD_INVALID_ARGUMENT (bad"
         " index, dims)",
         "kd_host.set_output kd_host.cache_get kd_host.cache_put",
         "A store that can't be read or written is no failure; an output that"
         " can't be made is one."),
    RULE(
        MUST, CORE, "err.bad-data", err_bad_enqueue, 0, "kernel.h",
        "Returns KD_OK; after any other status nothing was enqueued",
        "kd_kernel_def.enqueue",
        "Indices come from data: whatever they are, nothing outside the tensors"
        " is touched."),
    RULE(MUST, ASYNC, "err.async-event", err_async_event, 0, "stream.h",
         "An event carries the status of the work before it",
         "kd_event_table.query kd_event_table.wait",
         "A failure that is swallowed gives wrong results without a word; one"
         " that reaches earlier events fails the wrong work."),
    RULE(MUST, ASYNC, "err.async-synchronize", err_async_sync, 0, "stream.h",
         "the status of the first work that failed since the last synchronize",
         "kd_stream_table.synchronize",
         "A stream that can't be used any more after one bad index takes the"
         " service down."),
    RULE(MUST, ASYNC, "err.callback-on-error", err_callback, 0, "stream.h",
         "Called once when an event's work is done or has failed",
         "kd_event_table.on_complete kd_event_callback",
         "Callbacks that only come on success leave the host waiting for ever"
         " (OpenCL-CTS#1900)."),
    RULE(MUST, ASYNC, "err.async-wait", err_async_wait, 0, "stream.h",
         "If the event's work failed, this stream's work from here on"
         " fails with the same status",
         "kd_stream_table.wait",
         "The failure must reach what depends on it, over streams."),
    RULE(MUST, ASYNC, "err.others-live", err_others_live, 0, "stream.h",
         "A failure affects only its stream and those that wait for it",
         "kd_stream_table.create", "One bad request must not fail the others."),
    RULE(MUST, ASYNC, "err.no-hang", err_no_hang, 0, "stream.h",
         "No wait hangs because something failed",
         "kd_event_table.wait kd_stream_table.synchronize",
         "After a failure the work that signals the waiters does not run."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(mute_info, "err.code-and-message", KC_AROUND, "a failing device_info says nothing"),
    DEFECT_AS(errno_code, "err.code-defined", KC_AROUND, "statuses are negative errno"),
    DEFECT_AS(mute_oom, "err.message", KC_AROUND, "a failed allocation says nothing"),
    DEFECT_AS(vague_oom, "err.message-names", KC_AROUND, "the message of a failed allocation has no figures"),
    DEFECT_AS(out_written, "err.out-params", KC_AROUND, "handles are written on failure"),
    DEFECT_AS(fails_on_success, "err.success-is-silent", KC_AROUND, "allocations that succeed leave a message"),
    DEFECT_AS(global_message, "err.thread-local", KC_AROUND | KC_RACE, "messages are made in a static buffer"),
    DEFECT_AS(prints, "err.no-stdio", KC_AROUND, "it prints"),
    DEFECT_AS(log_level, "err.log-level", KC_AROUND, "the log gets level 9"),
    DEFECT_AS(alloc_unchecked, "err.alloc-fail-nth", KC_AROUND, "an allocation in open is not checked"),
    DEFECT_AS(alloc_leaks, "err.alloc-fail-nth", KC_AROUND, "a failed open keeps what it had allocated"),
    DEFECT(kernel_unchecked, "err.alloc-fail-kernel", "an allocation in create is not checked"),
    DEFECT(launch_unwritten, "err.alloc-fail-kernel", "an enqueue without memory returns KD_OK and writes nothing"),
    DEFECT(halves_unwritten, "err.alloc-fail-kernel", "the same of work on f16 alone"),
    DEFECT(set_output_unchecked, "err.service-fail-nth", "a failed set_output is ignored"),
    DEFECT(bad_data_crash, "err.bad-data", "an index out of range is followed"),
    DEFECT_AS(failure_lost, "err.async-event", KC_AROUND, "failed work is reported as done"),
    DEFECT(event_mute, "err.async-event", "query and wait give a failure without its reason"),
    DEFECT_AS(sync_forgets, "err.async-synchronize", KC_AROUND, "synchronize does not report failures"),
    DEFECT(callback_mute, "err.callback-on-error", "a callback gets no reason of a failure"),
    DEFECT(callback_on_success, "err.callback-on-error", "callbacks come on success only"),
    DEFECT(failure_stays, "err.async-wait", "a stream that waited for failed work goes on"),
    DEFECT(failure_spreads, "err.others-live", "one stream's failure fails all"),
    DEFECT(failure_hangs, "err.no-hang", "waits behind a failure never end"),
};
/* clang-format on */

KC_AREA(err, "Errors");
