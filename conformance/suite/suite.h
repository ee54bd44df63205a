/* suite.h - what rules are written with: cases, checks, the plugin under test,
 * its buffers and kernels. All of it runs in a child process of the runner. */
#ifndef KC_SUITE_H
#define KC_SUITE_H

#include <kd/kd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite/rule.h"

#define KC_COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- cases and checks ----------------------------------------------------- */

/* Begins a case of the running rule, whose name is the text (no spaces); false
 * where it isn't to be run. Data of the case depends on its name and the seed
 * alone. Ends the case before it. */
bool kc_case(const char *format, ...) KD_PRINTF(1, 2);

/* Counts a check, and records a failure with its text where it doesn't hold.
 * Any thread. Returns `holds`. */
bool kc_check(bool holds, const char *format, ...) KD_PRINTF(2, 3);

/* Records a failure and leaves the case; main thread only. */
_Noreturn void kc_stop(const char *format, ...) KD_PRINTF(1, 2);

/* As kc_check, but leaves the case where it doesn't hold. */
#define KC_NEED(holds, ...) \
  do {                      \
    if (holds)              \
      kc_check(true, " ");  \
    else                    \
      kc_stop(__VA_ARGS__); \
  } while (0)

/* The rule, or the case that runs, does not apply to this plugin, by what its
 * tables declare. Leaves the case. */
_Noreturn void kc_unclaimed(const char *format, ...) KD_PRINTF(1, 2);

/* The rule applies, and the suite found nothing to test it with: the level that it
 * belongs to is not proven. Leaves the case. */
_Noreturn void kc_untested(const char *format, ...) KD_PRINTF(1, 2);

/* A figure for the report, with the case. */
void kc_note(const char *format, ...) KD_PRINTF(1, 2);

/* A violation of a rule that is watched around all calls. */
void kc_violation(const char *rule, const char *format, ...) KD_PRINTF(2, 3);

/* Tells the runner that the child is alive in a long case. */
void kc_beat(void);

/* Whether a sanitizer's library is preloaded: the plugin may be built with it. */
bool kc_is_sanitized(void);

/* How many times longer than on an idle machine a wait may take: the runner measures the load,
 * and --time-scale lengthens it. 1 or more. */
double kc_patience(void);

/* Goes on with a hash (FNV-1a) over a text; one begins with KC_HASH. */
#define KC_HASH UINT64_C(0xcbf29ce484222325)
uint64_t kc_hash(uint64_t hash, const char *text);
/* Which of `shards` parts of a run a name is in; from 0. */
uint32_t kc_shard_of(const char *name, uint32_t shards);

/* The seed of the case, and numbers from it. */
typedef struct kc_random {
  uint64_t state;
} kc_random;
kc_random kc_seed(void);
uint64_t kc_next(kc_random *random);
/* A number from 0 to below - 1. */
uint64_t kc_below(kc_random *random, uint64_t below);

/* How the run was asked for. */
typedef struct kc_setup {
  const char *plugin;     /* absolute path */
  uint32_t device;        /* index */
  const char *rule;       /* id */
  const char *only;       /* the one case to run, or NULL */
  uint32_t from;          /* number of the first case to run */
  uint32_t shard, shards; /* of KC_SPREAD rules: the cases to run; 0, 0: all */
  uint64_t seed;
  uint64_t max_memory;    /* bytes that a rule may allocate on the device */
  const char *op, *dtype; /* only these, or NULL */
  const char *dump;       /* folder for tensors of failed cases, or NULL */
  const char *scratch;    /* private folder */
  bool quick;
  bool in_process;
  uint64_t soak_time;         /* of the rule; 0: one round */
  const char *const *options; /* "name=value" for the plugin */
  uint32_t option_count;
  double factor; /* how much slower than a fast device this one is, >= 1 */
} kc_setup;
extern kc_setup kc;

/* Nanoseconds of a clock that never goes back, and a sleep. */
uint64_t kc_now(void);
void kc_sleep(uint64_t time);
#define KC_MS UINT64_C(1000000)
#define KC_S  UINT64_C(1000000000)

/* Runs `body(context, i)` on `count` threads at once, and waits for them. */
void kc_threads(uint32_t count, void (*body)(void *context, uint32_t index),
                void *context);

/* Runs this program again with a helper's name, in a process of its own.
 * Returns its wait status; out (room bytes) gets what it printed. timeout in
 * nanoseconds: it is killed then, and *out_timed_out set. */
int kc_helper(const char *name, const char *argument, uint64_t timeout,
              char *out, size_t capacity, bool *out_timed_out);
/* Registered helpers; see rules/helpers.c. */
typedef struct kc_helper_entry {
  const char *name;
  int (*run)(const char *argument);
} kc_helper_entry;
extern const kc_helper_entry kc_helpers[];
extern const uint32_t kc_helper_count;

/* ---- the host that the plugin sees ------------------------------------------ */

/* What the suite's kd_host counts and can be told to do. */
typedef struct kc_host_state {
  atomic_uint allocations; /* made so far */
  atomic_int live;         /* blocks */
  atomic_llong live_bytes;
  atomic_uint calls;           /* of services that can fail */
  atomic_uint fail_at;         /* allocation number that fails; 0: none */
  atomic_bool fail_on;         /* and all after it */
  atomic_uint service_fail_at; /* call of cache_*, set_output that fails */
  atomic_uint outputs_refused; /* calls of set_output that failed so */
  atomic_uint logs, errors_logged;
  atomic_uint zones;   /* open now, all threads */
  atomic_uint loops;   /* parallel_for calls */
  atomic_uint records; /* profile records pushed */
  uint32_t workers;    /* that parallel_for uses beside the caller */
  bool closed;         /* the plugin may not call any more */
  char last_log[512];
} kc_host_state;
extern kc_host_state kc_host;
/* As for a fresh process. */
void kc_host_reset(void);

/* The services, full size, at the version of these headers. */
const kd_host *kc_services(void);
/* A copy for the plugin to get, which a rule may change before opening. */
kd_host *kc_services_copy(void);

/* This thread's message of host->fail; "" where none since kc_hush. */
const char *kc_message(void);
kd_status kc_message_status(void);
void kc_hush(void);

/* Whether the suite has this device open; any thread, while it opens no other. */
bool kc_is_open_device(const kd_device *device);

/* Profile records, the newest first ones kept. */
uint32_t kc_records(kd_profile_record *out, uint32_t capacity);
void kc_records_clear(void);

/* ---- the plugin --------------------------------------------------------------- */

/* The tables beside kd_plugin: TABLE(type, what it is called in kc_plugin, and in
 * kd_plugin). */
#define KC_TABLES(TABLE)                \
  TABLE(kd_memory_table, m, memory)     \
  TABLE(kd_stream_table, s, streams)    \
  TABLE(kd_event_table, e, events)      \
  TABLE(kd_capture_table, c, capture)   \
  TABLE(kd_region_table, r, regions)    \
  TABLE(kd_profile_table, f, profile)   \
  TABLE(kd_peer_table, peer, peer)      \
  TABLE(kd_external_table, x, external) \
  TABLE(kd_layout_table, l, layouts)    \
  TABLE(kd_collective_table, g, collectives)

/* The plugin under test: its tables, copied full-size. */
typedef struct kc_plugin {
  void *mapped;           /* by dlopen */
  const kd_plugin *table; /* the plugin's own */
  kd_plugin p;
#define KC_TABLE(type, name, pointer) type name;
  KC_TABLES(KC_TABLE)
#undef KC_TABLE
  kd_kernel_def *kernels;
  uint32_t kernel_count;
  kd_option_def *options; /* NULL: there are none, or the list is malformed */
  uint32_t option_count;
  kd_instance *instance; /* while it is open */
  bool open;
} kc_plugin;
extern kc_plugin kp;

/* Maps the library and reads its tables; fails the case where it can't. */
void kc_load(void);
/* Whether the plugin has no list of options, or one that has this name. */
bool kc_option_listed(const char *name);
/* Whether the tables fill a level or option. */
bool kc_claims(kc_level level);
/* Names that the plugin has asked kd_host.option for, from 0 on; NULL past the last. */
const char *kc_option_asked(uint32_t index);
/* open and close of the plugin, with kc_services. */
kd_status kc_open(void);
void kc_close(void);

/* kd_memory_table.allocate. */
kd_status kc_allocate(kd_device *device, uint32_t space, uint64_t size,
                      kd_buffer **out_buffer, void **out_address);

/* The device under test, opened at the first call; and others. */
kd_device *kc_device(void);
/* Opens the plugin, and asks it how many there are. */
uint32_t kc_device_count(void);
kd_device *kc_device_at(uint32_t index);
const kd_device_info *kc_info(void);
/* A memory space of the device under test. */
kd_space kc_space(uint32_t index);
const kd_device_info *kc_info_at(uint32_t index);
/* For rules of closed plugins that need one: opens the plugin, and leaves the case where it
 * has none here. */
void kc_need_device(void);
/* Opens the plugin, and leaves the case where it has fewer than two. */
void kc_need_two_devices(void);
/* Closes all devices that kc_device_at opened. */
void kc_close_devices(void);
#define KC_MAX_DEVICES 8u

/* Ends what a rule left: buffers, streams, events; then devices, the plugin.
 * Each time, the generation goes up: what was kept across cases is gone. */
void kc_tidy(void);
extern uint32_t kc_generation;

/* ---- calls ---------------------------------------------------------------------- */

/* Marks a call into the plugin: it goes into the ring of last calls, and the
 * process's state is compared behind it. */
void kc_enter(const char *format, ...) KD_PRINTF(1, 2);
void kc_leave(void);
/* Whether this thread is between the two. */
bool kc_inside(void);
/* Has every call of the tables in kp go through them, whoever makes it; calls.c. */
void kc_watch_tables(void);

/* KC_CALL(what, "text", ...): the value of a call, watched. */
#define KC_CALL(type, call, ...) \
  __extension__({                \
    kc_enter(__VA_ARGS__);       \
    kc_hush();                   \
    type kc_result_ = (call);    \
    kc_leave();                  \
    kc_result_;                  \
  })
#define KC_DO(call, ...)   \
  do {                     \
    kc_enter(__VA_ARGS__); \
    call;                  \
    kc_leave();            \
  } while (0)

/* Calls that must succeed: they leave the case where they don't. */
void kc_ok(kd_status status, const char *what);

/* That a failing call said why: a status of the list, and a message. */
void kc_said(kd_status status, const char *what);

/* ---- memory ------------------------------------------------------------------------ */

/* A buffer with guard bands around the part that is used. */
typedef struct kc_buffer {
  struct kc_buffer *next, *before;
  kd_device *device;
  kd_buffer *handle;
  char *address;   /* of the used part, or NULL */
  uint64_t offset; /* of the used part */
  uint64_t size;   /* of the used part */
  uint64_t total;
  uint32_t space;
  bool piece; /* of another one, without guards */
} kc_buffer;

/* Makes one in a space of the device; leaves the case where there is none. */
kc_buffer *kc_buffer_make(uint64_t size);
kc_buffer *kc_buffer_in(kd_device *device, uint32_t space, uint64_t size);
kd_status kc_buffer_try(kd_device *device, uint32_t space, uint64_t size,
                        kc_buffer **out_buffer);
/* A piece of one, which lives no longer; it has no guards of its own. */
kc_buffer *kc_buffer_piece(const kc_buffer *of, uint64_t offset, uint64_t size);
/* Compares the guard bands, then releases it. NULL does nothing. */
void kc_buffer_free(kc_buffer *buffer);
bool kc_buffer_intact(kc_buffer *buffer);
/* Synchronous copies of the used part; they leave the case on failure. */
void kc_write(kc_buffer *buffer, uint64_t offset, const void *data,
              uint64_t size);
void kc_read(kc_buffer *buffer, uint64_t offset, void *data, uint64_t size);
/* Writes a pattern to all of the used part, and reads it back: the first byte that
 * differs, or its size. */
uint64_t kc_round_trip(kc_buffer *buffer, uint64_t seed);
/* Fills host memory with bytes that depend on seed and index. */
void kc_pattern(void *data, uint64_t size, uint64_t seed);
/* The first byte that differs, or size. */
uint64_t kc_differs(const void *a, const void *b, uint64_t size);
/* Host memory with a guard page right behind it; freed with the process. */
void *kc_fenced(uint64_t size);
/* malloc that leaves the case where there is none. */
void *kc_take(uint64_t size);
/* The same, freed when the rule has ended and the plugin is closed. */
void *kc_lend(uint64_t size);

/* ---- streams ------------------------------------------------------------------------- */

kd_stream *kc_stream_make(kd_device *device);
/* One on the device under test, or NULL, the synchronous one, where there are none. */
kd_stream *kc_stream_or_none(void);
void kc_stream_free(kd_stream *stream);
kd_event *kc_event_make(kd_device *device);
void kc_event_free(kd_event *event);
/* Waits for all work of a stream; its status. */
kd_status kc_finish(kd_stream *stream);
/* Enqueues work that keeps the stream busy for about this long. */
void kc_busy(kd_stream *stream, uint64_t time);

/* The rule is of work that goes on behind the call; leaves the case where the device does
 * all of it in the call. */
void kc_need_queues(void);

/* Copies and fills in a stream, of buffers' used parts from `offset` or their beginning. */
kd_status kc_try_copy_in(kd_stream *stream, const kc_buffer *to,
                         uint64_t offset, const void *data, uint64_t size);
kd_status kc_try_copy_out(kd_stream *stream, const kc_buffer *from,
                          uint64_t offset, void *data, uint64_t size);
kd_status kc_try_copy(kd_stream *stream, const kc_buffer *from,
                      const kc_buffer *to, uint64_t size);
kd_status kc_try_fill(kd_stream *stream, const kc_buffer *to, uint64_t size,
                      const void *pattern, uint32_t pattern_size);
/* The same; these and the next ones leave the case on failure. */
void kc_copy_in(kd_stream *stream, const kc_buffer *to, uint64_t offset,
                const void *data, uint64_t size);
void kc_copy_out(kd_stream *stream, const kc_buffer *from, uint64_t offset,
                 void *data, uint64_t size);
void kc_copy(kd_stream *stream, const kc_buffer *from, const kc_buffer *to,
             uint64_t size);
void kc_fill(kd_stream *stream, const kc_buffer *to, uint64_t size,
             const void *pattern, uint32_t pattern_size);
void kc_record(kd_event *event, kd_stream *stream);
/* The stream waits for the event. */
void kc_wait_on(kd_stream *stream, kd_event *event);
/* The caller waits for the event, or for all of the stream, which may be NULL. */
void kc_await(kd_event *event);
void kc_drain(kd_stream *stream);

/* What an event says when it is not KD_BUSY any more, or after two seconds of a fast
 * device; nobody waits for it meanwhile. */
kd_status kc_poll(kd_event *event);
/* The same of a counter that callbacks count up: whether it is above 0. */
bool kc_counted(const atomic_uint *counter);

/* Bytes that go to the device and come back in a stream. */
typedef struct kc_trip {
  kc_buffer *buffer;
  char *in, *out;
  uint64_t size;
} kc_trip;
/* Its memory is given back at the end of the rule. */
kc_trip kc_trip_make(uint64_t size);
/* Enqueues a round trip of bytes that follow from `seed`, behind work that takes `busy`. */
void kc_trip_enqueue(const kc_trip *trip, kd_stream *stream, uint64_t seed,
                     uint64_t busy);
/* The first byte that did not come back, or size. */
uint64_t kc_trip_differs(const kc_trip *trip);

#endif /* KC_SUITE_H */
