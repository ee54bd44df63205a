/* life.c - leaks, orders of destruction, the process's state, unloading. */
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rules/ops/cases.h"
#include "rules/rules.h"

static uint64_t resident(void) {
  uint64_t pages = 0;
  char line[256];
  FILE *file = fopen("/proc/self/statm", "re");
  if (file && fgets(line, sizeof line, file)) { /* all, resident, ... */
    const char *second = strchr(line, ' ');
    if (second) pages = strtoull(second, NULL, 10);
  }
  if (file) fclose(file);
  return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Bytes beyond what allocators round up to. */
static double grown(uint64_t before) {
  double more = (double)resident() - (double)before - (512 << 10);
  return more > 0 ? more : 0;
}

/* A leak grows in each part; an allocator's pages settle some time, so what grew in the
 * first parts gets more of them. */
static void life_cycle(void) {
  enum { PARTS = 4, MOST_PARTS = 8 };
  uint64_t memory = 0;
  uint32_t files[2] = {0}, threads[2] = {0};
  int part = kc.quick ? 8 : 25;
  double each = 1e18; /* the least */
  kc_load();
  for (int at = 0; at < PARTS || (at < MOST_PARTS && each >= 60000); at++) {
    for (int i = 0; i < part; i++) {
      kc_ok(kc_open(), "open");
      kc_smoke();
      kc_close_devices();
      kc_close();
    }
    kc_sleep(2 * KC_MS);
#ifdef __GLIBC__
    malloc_trim(0); /* what was freed is no leak */
#endif
    uint64_t now = resident();
    double grew = ((double)now - (double)memory) / part;
    if (at && grew < each) each = grew;
    memory = now;
    files[at > 0] = kc_entries("/proc/self/fd");
    threads[at > 0] = kc_entries("/proc/self/task");
  }
  kc_check(each < 60000, "each cycle of open, work and close keeps %.0f bytes",
           each);
  kc_check(files[1] <= files[0], "file descriptors grew from %u to %u",
           files[0], files[1]);
  kc_check(threads[1] <= threads[0], "threads grew from %u to %u", threads[0],
           threads[1]);
}

/* A slow create has fewer rounds, but enough of them to tell a leak from the
 * allocator's own pages. */
static void churn(kc_node *node, const kd_kernel_def *def, const kc_op *op,
                  uint32_t most) {
  uint64_t before = 0, began = kc_now();
  uint32_t i = 0, warm = most / 4;
  for (; i < most; i++) {
    if (i == warm) before = resident();
    if (i > warm + 200 && kc_now() - began > KC_S) break;
    kc_run *run = NULL;
    if (kc_run_make(node, def, op, &kc_plain, &run) != KD_OK)
      kc_stop("instance %u can't be made: %s", i, kc_message());
    kc_ok(kc_run_now(run), "run");
    kc_run_free(run);
  }
  double each = grown(before) / (i - warm);
  kc_check(each < 300, "each instance of %s, with its run, keeps %.0f bytes",
           op->name, each);
}

static bool has_create(const kd_kernel_def *def) {
  return def->create != NULL;
}

static void churn_op(kc_op_case *one, kc_node *node, const kd_kernel_def *def) {
  churn(node, def, &one->op, 1600);
}

static void life_churn(void) {
  kc_unary unary;
  if (kc_unary_make(16, &unary)) {
    if (kc_case("unary"))
      churn(unary.node, unary.def, &unary.op, kc.quick ? 1600 : 4000);
    kc_unary_free(&unary);
  }
  kc_each_op(has_create, churn_op, KD_F32, kc.quick ? 4 : 12);
}

static void life_launches(void) {
  kc_unary unary;
  kc_unary_need(16, &unary);
  kc_run *run = kc_unary_run(&unary);
  uint64_t before = 0;
  uint32_t rounds = kc.quick ? 4000 : 8000;
  for (uint32_t i = 0; i < rounds; i++) {
    if (i == rounds / 4) before = resident();
    kc_ok(kc_run_now(run), "run");
  }
  double each = grown(before) / (rounds * 3 / 4.0);
  kc_check(each < 100, "each launch keeps %.0f bytes", each);
  kc_run_free(run);
  kc_unary_free(&unary);
}

/* Kernel, stream, event and memory go in each order that is legal. */
static void life_orders(void) {
  static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2},
                                  {2, 3, 0, 1}, {1, 3, 0, 2}, {2, 0, 3, 1}};
  for (size_t k = 0; k < KC_COUNT_OF(orders); k++) {
    if (!kc_case("order=%d%d%d%d", orders[k][0], orders[k][1], orders[k][2],
                 orders[k][3]))
      continue;
    kc_unary unary;
    kc_unary_need(200, &unary);
    kc_run *run = kc_unary_run(&unary);
    kd_stream *stream = NULL;
    kd_event *event = NULL;
    if (kc_claims(KC_ASYNC)) {
      kc_ok(kp.s.create(kc_device(), 0, 0, &stream), "stream.create");
      kc_ok(kp.e.create(kc_device(), 0, &event), "event.create");
    }
    kc_ok(kc_run_enqueue(run, stream), "enqueue");
    if (stream) {
      kc_record(event, stream);
      kc_await(event);
    }
    for (int i = 0; i < 4; i++) {
      switch (orders[k][i]) {
        case 0:
          if (run->kernel) KC_DO(run->def->destroy(run->kernel), "destroy");
          run->kernel = NULL;
          break;
        case 1:
          if (stream) kp.s.destroy(stream);
          break;
        case 2:
          if (event) kp.e.destroy(event);
          break;
        default:
          kc_buffer_free(run->in_buffers[0]);
          kc_buffer_free(run->out_buffers[0]);
          run->in_buffers[0] = run->out_buffers[0] = NULL;
      }
    }
    kc_check(true, " ");
    kc_run_free(run);
    kc_unary_free(&unary);
  }
}

static void life_exit(void) {
  kc_helper_ends("exit", "idle", 7, "ending without close");
  kc_helper_ends("exit", "busy", 7,
                 "ending without close, with work in flight");
}

static void life_unload(void) {
  kc_load();
  bool may = (kp.p.flags & KD_PLUGIN_UNLOADABLE) != 0;
  if (!may) kc_unclaimed("it is not KD_PLUGIN_UNLOADABLE");
  kc_helper_ends("unload", "", 7, "five times open, close and dlclose");
}

/* After close nothing of it may run: watched by the services for a while. */
static void life_silent(void) {
  kc_smoke();
  kc_tidy();
  uint32_t threads = kc_entries("/proc/self/task");
  kc_sleep(50 * KC_MS);
  kc_check(kc_entries("/proc/self/task") <= threads,
           "threads start after close");
  kc_check(kc_host.closed, " ");
}

/* What a driver's library starts once, it may keep. */
static void life_threads_end(void) {
  char names[600];
  kc_load();
  const kc_tasks known = kc_tasks_now();
  kc_tasks first = known;
  kc_need_device();
  for (int i = 1; i <= 3; i++) {
    kc_smoke();
    kc_tidy();
    if (!kc_check(kc_tasks_ended(&known, names, sizeof names),
                  "after close %d threads of the plugin run: %s", i, names))
      return;
    if (i == 1) first = kc_tasks_now();
  }
  kc_check(kc_tasks_few(&first, 1, names, sizeof names),
           "each close leaves threads: after two more, these run: %s", names);
}

/* What was enqueued before the device is closed is done, or is never done: no
 * write into host memory comes after the close. */
static void life_close_busy(void) {
  for (int i = 0; i < 3; i++) {
    const uint64_t size = 1 << 20;
    kd_stream *stream = kc_stream_make(kc_device());
    kc_buffer *buffer = kc_buffer_make(size);
    char *target = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    KC_NEED(target != MAP_FAILED, "the suite can't map pages");
    kc_busy(stream, 5 * KC_MS);
    kc_copy_out(stream, buffer, 0, target, size);
    kc_drain(stream);
    mprotect(target, size, PROT_NONE); /* a late write faults */
    kc_tidy();
    kc_sleep(15 * KC_MS);
    munmap(target, size);
    kc_check(true, " ");
  }
}

static void life_many_devices_closed(void) {
  uint32_t count = kc_device_count();
  for (int round = 0; round < 4; round++) {
    for (uint32_t i = 0; i < count && i < KC_MAX_DEVICES; i++)
      kc_device_at((i + (uint32_t)round) % count);
    kc_close_devices();
    kc_check(true, " ");
  }
}

#define RULE(severity, level, id, check, flags, header, sentence, names, \
             about)                                                      \
  KC_RULE(severity, level, id, check, flags, header, sentence, names, about)

static const kc_rule rules[] = {
    RULE(MUST, CORE, "life.host-allocs-balanced", kc_smoke, KC_WATCHED,
         "host.h", "Host memory for the plugin's own use",
         "kd_host.allocate kd_host.release",
         "What is left when close has returned is lost. Watched over all"
         " rules."),
    RULE(MUST, CORE, "life.cycle-no-growth", life_cycle, KC_ALONE, "plugin.h",
         "After `close` the plugin no longer calls that host, and may be"
         " opened again",
         "kd_plugin.open kd_plugin.close kd_plugin.device_close",
         "Memory, descriptors and threads that each cycle leaves behind."),
    RULE(MUST, CORE, "life.instances", life_churn, KC_ALONE | KC_CASES,
         "kernel.h", "Frees an instance that no enqueued work uses",
         "kd_kernel_def.create kd_kernel_def.destroy",
         "Instances come and go with shapes."),
    RULE(MUST, CORE, "life.launches", life_launches, KC_ALONE, "kernel.h",
         "It must not grow when launches repeat", "kd_kernel_def.enqueue",
         "One event kept a launch is a gigabyte in a day."),
    RULE(MUST, CORE, "life.destroy-orders", life_orders, KC_CASES, "kernel.h",
         "Never fails",
         "kd_kernel_def.destroy kd_stream_table.destroy"
         " kd_event_table.destroy kd_memory_table.release",
         "Objects that point at each other crash when the other goes first."),
    RULE(
        MUST, CORE, "life.exit-without-close", life_exit, 0, "plugin.h",
        "The host closes devices and unloads a library only on request;"
        " an ordinary process exit does neither, and must still succeed",
        "kd_plugin.close",
        "Handlers at exit that call a driver which is already gone, or wait for"
        " a thread that is."),
    RULE(MUST, CORE, "life.unload", life_unload, 0, "plugin.h",
         "dlclose after `close` is safe",
         "KD_PLUGIN_UNLOADABLE kd_plugin.flags",
         "A thread that still runs, or a destructor of thread-local data, jumps"
         " into unmapped code."),
    RULE(MUST, CORE, "life.silent-after-close", life_silent, KC_WATCHED,
         "plugin.h", "After `close` the plugin no longer calls that host",
         "kd_plugin.close kd_host.log", "The host's table is gone then."),
    RULE(MUST, CORE, "life.threads-end", life_threads_end, KC_ALONE | KC_CLOSED,
         "plugin.h", "Its threads have ended when `close` returns",
         "kd_plugin.close",
         "They would run on over a library that may be unmapped."),
    RULE(MUST, ASYNC, "life.no-late-write", life_close_busy, 0, "memory.h",
         "stays valid and unchanged until the stream has completed them",
         "kd_memory_table.copy_out kd_plugin.device_close",
         "A copy that lands after the wait writes into memory that is somebody"
         " else's by now."),
    RULE(MUST, CORE, "life.close-devices", life_many_devices_closed, 0,
         "plugin.h",
         "The calls come in this order: entry, open, device_count,"
         " device_info, device_open",
         "kd_plugin.device_open kd_plugin.device_close",
         "Devices are opened and closed in any order."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(block_kept, "life.host-allocs-balanced", KC_AROUND, "a block is kept over close"),
    DEFECT_AS(cycle_leaks, "life.cycle-no-growth", KC_AROUND, "each opening keeps 200 KB"),
    DEFECT_AS(instance_leaks, "life.instances", KC_AROUND, "each instance keeps 2 KB"),
    DEFECT_AS(launch_leaks, "life.launches", KC_AROUND, "each launch keeps an event"),
    DEFECT(orders_crash, "life.destroy-orders", "a kernel looks into its destroyed stream"),
    DEFECT_AS(exit_hangs, "life.exit-without-close", KC_AROUND, "an atexit handler waits for ever"),
    DEFECT_AS(unload_thread, "life.unload", KC_RACE, "a thread runs on after dlclose"),
    DEFECT_AS(late_log, "life.silent-after-close", KC_AROUND | KC_RACE, "a thread logs after close"),
    DEFECT_AS(thread_survives, "life.threads-end", KC_AROUND | KC_RACE, "each opening leaves a thread"),
    DEFECT_AS(thread_stays, "life.threads-end", KC_AROUND, "the first opening leaves a thread"),
    DEFECT_AS(late_write, "life.no-late-write", KC_RACE, "copy_out writes once more, later"),
    DEFECT(close_once, "life.close-devices", "the second closing crashes"),
};
/* clang-format on */

KC_AREA(life, "Life, leaks, unloading");
