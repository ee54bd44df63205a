/* thread.c - several threads, the host's pool, forks. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rules/rules.h"

static void everything(void *context, uint32_t index) {
  uint64_t began = kc_now();
  uint64_t size = 2000 + index * 777;
  char *in = kc_take(size), *out = kc_take(size);
  uint64_t usual = *(uint64_t *)context;
  for (uint64_t i = 0; kc_now() - began < (kc.quick ? usual / 4 : usual); i++) {
    kc_buffer *buffer = NULL;
    kd_stream *stream = NULL;
    if (!kc_check(kc_buffer_try(kc_device(), 0, size, &buffer) == KD_OK,
                  "allocate failed beside other threads: %s", kc_message()))
      break;
    kc_pattern(in, size, i * 16 + index);
    if (kc_claims(KC_ASYNC) && i % 2) {
      kd_status status = kp.s.create(kc_device(), 0, 0, &stream);
      kc_check(status == KD_OK, "stream.create failed beside other threads");
    }
    kd_status a = kc_try_copy_in(stream, buffer, 0, in, size);
    kd_status b = kc_try_copy_out(stream, buffer, 0, out, size);
    kd_status c = stream ? kc_finish(stream) : KD_OK;
    kc_check(a == KD_OK && b == KD_OK && c == KD_OK,
             "a copy failed beside other threads");
    uint64_t first = kc_differs(in, out, size);
    kc_check(first == size, "thread %u: byte %llu is wrong", index,
             (unsigned long long)first);
    if (stream) kp.s.destroy(stream);
    kc_buffer_free(buffer);
  }
  free(in);
  free(out);
}

static void thread_parallel(void) {
  uint64_t usual = KC_S;
  kc_device();
  kc_threads(8, everything, &usual);
}

static void memory_only(void *context, uint32_t index) {
  (void)context;
  kd_buffer *live[16] = {0};
  kc_random random = {index + 1};
  for (int i = 0; i < (kc.quick ? 300 : 1500); i++) {
    uint32_t at = (uint32_t)kc_below(&random, 16);
    void *address = NULL;
    if (live[at]) {
      uint32_t word = 0;
      kp.m.copy_out(kc_device(), NULL, live[at], 0, &word, 4);
      kc_check(word == index * 100 + at, "a buffer of thread %u holds %u",
               index, word);
      kp.m.release(kc_device(), live[at]);
      live[at] = NULL;
    } else if (kc_check(kc_allocate(kc_device(), 0, 4 + kc_below(&random, 5000),
                                    &live[at], &address) == KD_OK,
                        "allocate failed beside other threads")) {
      uint32_t word = index * 100 + at;
      kp.m.copy_in(kc_device(), NULL, &word, live[at], 0, 4);
    }
  }
  for (int i = 0; i < 16; i++)
    if (live[i]) kp.m.release(kc_device(), live[i]);
}

static void thread_memory(void) {
  kc_device();
  kc_threads(8, memory_only, NULL);
}

static pthread_barrier_t line_up;

static void first_use(void *context, uint32_t index) {
  kd_device *device = context;
  kd_buffer *buffer = NULL;
  void *address = NULL;
  char in[64], out[64];
  kc_pattern(in, 64, index);
  pthread_barrier_wait(&line_up);
  kd_status status = kc_allocate(device, 0, 64, &buffer, &address);
  kc_check(status == KD_OK, "the first allocate, on 8 threads at once: %s",
           kc_message());
  if (status != KD_OK) return;
  kp.m.copy_in(device, NULL, in, buffer, 0, 64);
  kp.m.copy_out(device, NULL, buffer, 0, out, 64);
  kc_check(!memcmp(in, out, 64), "the first copies of 8 threads are wrong");
  kp.m.release(device, buffer);
  kc_unary unary;
  if (index % 2 == 0 && kc_unary_make(50, &unary)) {
    kc_run *run = NULL;
    if (kc_run_make(unary.node, unary.def, &unary.op, &kc_plain, &run) ==
        KD_OK) {
      kd_stream *stream = NULL;
      if (!kc_claims(KC_ASYNC) || kp.s.create(device, 0, 0, &stream) == KD_OK) {
        kd_status ran = kc_run_enqueue(run, stream);
        if (stream && ran == KD_OK) ran = kc_finish(stream);
        value *got = kc_run_output(run, 0), *want[KC_PORTS] = {0};
        numerics within = kc_numerics(unary.def, KD_F32);
        kc_check(ran == KD_OK, "the first launch on 8 threads: %s",
                 kd_status_name(ran));
        if (kc_reference(&unary.op, unary.node, want))
          kc_compare(want[0], got, &within, "the first launch's output");
        kc_values_free(want, 1);
        value_free(got);
        if (stream) kp.s.destroy(stream);
      }
      kc_run_free(run);
    }
    kc_unary_free(&unary);
  }
}

int kc_help_first_use(const char *argument);
int kc_help_first_use(const char *argument) {
  (void)argument;
  if (kc_open() != KD_OK) return 2;
  kd_device *device = kc_device();
  pthread_barrier_init(&line_up, NULL, 8);
  kc_threads(8, first_use, device);
  kc_close_devices();
  kc_close();
  return 0;
}

/* In fresh processes: what is set up lazily is set up once in each. */
static void thread_first_use(void) {
  int rounds = kc.quick ? 3 : 12;
  for (int i = 0; i < rounds; i++) {
    if (!kc_case("round=%d", i)) continue;
    char out[2000];
    bool late = false;
    int status = kc_helper("first-use", "", 10 * KC_S, out, sizeof out, &late);
    kc_check(!late, "first calls from 8 threads at once hang");
    kc_check(late || !WIFSIGNALED(status), "first calls from 8 threads: %s",
             strsignal(WTERMSIG(status)));
    kc_check(late || WIFSIGNALED(status) || WEXITSTATUS(status) == 0,
             "first calls from 8 threads: status %d", WEXITSTATUS(status));
    kc_check(!strstr(out, " F "), "first calls from 8 threads: %.300s", out);
  }
}

static void run_unary(const kc_unary *unary) {
  kc_check(kc_try_op(&unary->op, &kc_plain), "%s did not run", unary->op.name);
}

/* On `count` elements, some times. */
static void run_of(int64_t count, int times) {
  kc_unary unary;
  kc_unary_need(count, &unary);
  while (times--)
    run_unary(&unary);
  kc_unary_free(&unary);
}

static void *small_stack_thread(void *context) {
  run_unary(context);
  return NULL;
}

static void thread_foreign(void) {
  kc_unary unary;
  kc_unary_need(100, &unary);
  run_unary(&unary);
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 << 10);
  KC_NEED(pthread_create(&thread, &attributes, small_stack_thread, &unary) == 0,
          "the suite can't make a thread");
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  kc_unary_free(&unary);
}

static void thread_zero_workers(void) {
  kc_host.workers = 0;
  run_of(100, 1);
  run_of(300000, 1);
  kc_host.workers = 1;
}

static void thread_many_workers(void) {
  kc_host.workers = 5;
  run_of(300001, 3);
  kc_host.workers = 1;
}

static void thread_pool(void) {
  uint32_t before = kc_entries("/proc/self/task");
  kc_need_device();
  kc_device();
  run_of(300000, 1);
  uint32_t during = kc_entries("/proc/self/task");
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  kc_check(during - before <= 8,
           "it runs %u threads of its own on %ld processors: CPU work belongs"
           " on the host's pool",
           during - before, processors);
  kc_note("%u threads of its own", during - before);
}

static void thread_fork(void) {
  kc_helper_ends("fork", "", 7, "with the child of a fork");
}

static void thread_other_close(void *context, uint32_t index) {
  (void)index;
  KC_DO(kp.p.device_close(*(kd_device **)context),
        "device_close(on another thread)");
}

static void thread_open_close_apart(void) {
  kc_need_device();
  kd_device *device = NULL;
  kc_ok(kp.p.device_open(kp.instance, kc.device, &device), "device_open");
  kc_threads(1, thread_other_close, &device);
  kc_check(true, " ");
}

#define RULE(severity, id, check, flags, header, sentence, names, about) \
  KC_RULE(severity, CORE, id, check, flags, header, sentence, names, about)

static const kc_rule rules[] = {
    RULE(MUST, "thread.parallel", thread_parallel, 0, "memory.h",
         "Any thread may call any slot",
         "kd_memory_table.allocate kd_memory_table.copy_in"
         " kd_stream_table.create",
         "Everything at once, on 8 threads."),
    RULE(MUST, "thread.memory", thread_memory, 0, "memory.h",
         "Any thread may call any slot",
         "kd_memory_table.allocate kd_memory_table.release",
         "A free list without a lock."),
    KC_RULE(
        MUST, ASYNC, "thread.streams", kc_streams_at_once, 0, "stream.h",
        "any thread may call it, one at a time for one stream",
        "kd_kernel_def.enqueue kd_memory_table.copy_in"
        " kd_memory_table.copy_out",
        "A ring of commands that all streams share, written without its"
        " lock: four threads enqueue kernels and copies on two streams each,"
        " for a second."),
    RULE(MUST, "thread.first-use", thread_first_use, KC_CASES, "plugin.h",
         "For one instance the host makes them one at a time",
         "kd_plugin.device_open kd_memory_table.allocate"
         " kd_kernel_def.create",
         "The host serialises opening; what is set up lazily behind it, it does"
         " not."),
    RULE(MUST, "thread.foreign", thread_foreign, 0, "host.h",
         "Any thread may call any slot at any time", "kd_kernel_def.enqueue",
         "Contexts bound to the opening thread, and large arrays on the stack:"
         " 512 KiB must do."),
    RULE(MUST, "thread.zero-workers", thread_zero_workers, 0, "host.h",
         "at least 1, the caller included",
         "kd_host.worker_count kd_host.parallel_for",
         "A plugin that hands work to a worker and waits, waits for ever where"
         " there is none."),
    RULE(MUST, "thread.many-workers", thread_many_workers, 0, "host.h",
         "a loop over 0 <= i < count in chunks of at least `grain` items",
         "kd_host.parallel_for kd_loop_body",
         "Pieces may be of any size, run in any order and at the same time."),
    RULE(SHOULD, "thread.pool-respected", thread_pool, KC_CLOSED, "host.h",
         "The host's threads, on which a plugin's loops run",
         "kd_host.parallel_for",
         "Two pools on one machine fight for its processors."),
    RULE(MUST, "thread.no-affinity-change", kc_smoke, KC_WATCHED, "plugin.h",
         "It leaves the calling thread's affinity, priority and"
         " cancellation state unchanged",
         "kd_plugin.open kd_kernel_def.enqueue",
         "Pinning the caller puts the application's threads on one core."
         " Watched around all calls."),
    RULE(MUST, "thread.no-priority-change", kc_smoke, KC_WATCHED, "plugin.h",
         "It leaves the calling thread's affinity, priority and"
         " cancellation state unchanged",
         "kd_plugin.open", "Watched around all calls."),
    RULE(SHOULD, "thread.fork-child", thread_fork, 0, "plugin.h",
         "A forked child process can exit normally", "kd_plugin.device_open",
         "Handlers at exit that wait for threads which the child does not"
         " have."),
    RULE(MUST, "thread.close-elsewhere", thread_open_close_apart, KC_CLOSED,
         "plugin.h",
         "Closes a device whose streams, buffers and kernels have been"
         " destroyed",
         "kd_plugin.device_close",
         "The thread that opened a device may be gone when it is closed."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(global_scratch, "thread.parallel", KC_AROUND | KC_RACE, "copies pass through one static buffer"),
    DEFECT_AS(unlocked_list, "thread.memory", KC_AROUND | KC_RACE, "a free list has no lock"),
    DEFECT_AS(ring_unlocked, "thread.streams", KC_RACE, "copies of all streams go through a ring without a lock"),
    DEFECT_AS(arguments_unlocked, "thread.streams", KC_RACE, "a launch's arguments go through a ring without a lock"),
    DEFECT_AS(lazy_race, "thread.first-use", KC_RACE, "the first use sets up without a lock"),
    DEFECT_AS(context_tls, "thread.foreign", KC_AROUND, "the context is the opening thread's"),
    DEFECT(waits_for_worker, "thread.zero-workers", "work is handed to a worker"),
    DEFECT(equal_pieces, "thread.many-workers", "two pieces of a loop are expected"),
    DEFECT_AS(own_pool, "thread.pool-respected", KC_AROUND, "it starts 12 threads of its own"),
    DEFECT_AS(pins_caller, "thread.no-affinity-change", KC_AROUND, "the caller is pinned to a core"),
    DEFECT_AS(nices_caller, "thread.no-priority-change", KC_AROUND, "the caller's priority is changed"),
    DEFECT(fork_waits, "thread.fork-child", "an atexit handler waits for a thread"),
    DEFECT(close_tls, "thread.close-elsewhere", "closing on another thread crashes"),
};
/* clang-format on */

KC_AREA(thread, "Threads");
