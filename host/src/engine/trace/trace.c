/* trace.c - notes, and the file that they become.
 *
 * Format: "Trace Event Format" (Google, 2016): complete events (X), asynchronous ones
 * (b, e), counters (C) and names (M). */
#include "trace/trace.h"

#include <keel/trace.h>

#include <kd/profile.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/printable.h"
#include "trace/tickets.h"

#define NOTES_MOST (1u << 18) /* of a thread */
#define CHUNK      1024u
#define ZONES      32 /* nested on a thread */

typedef enum kind { SPAN, LAUNCH, COPY, COUNT, RECORD } kind;

typedef struct note {
  uint64_t begin, end;
  const char *name;
  uint64_t number; /* bytes, a count, or a launch */
  uint32_t kind, stream;
  char place[24], detail[48];
} note;

/* A thread's events. Only that thread writes them; others read up to `count`. */
typedef struct notes {
  struct notes *next;
  note *chunks[NOTES_MOST / CHUNK];
  /* Written by the thread alone: `count` with release, after the note; `lost` and `trace`
   * (that they are of) go with it. */
  atomic_uint count, lost;
  atomic_uint trace;
  /* the thread has ended: released, its notes are another's */
  atomic_bool orphan;
  long thread;
  char name[32];
  struct {
    const char *name;
    uint64_t begin;
  } zones[ZONES];
  uint32_t depth;
} notes;

/* Relaxed where it is asked: a note more or less at either end of a trace. */
atomic_bool keel_trace_runs;
/* A stack: pushed with release, walked with acquire. Taken whole by the thread that frees it. */
static _Atomic(notes *) all_notes;
static atomic_uint this_trace;
static atomic_uint launches;  /* serials, relaxed: each is its own */
static uint32_t first_launch; /* before the first one of this trace */
static uint64_t began;
static pthread_mutex_t turning = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t leaving;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local notes *mine;
static _Thread_local const char *my_name;
static _Thread_local unsigned my_number;

/* ---- taking notes --------------------------------------------------------------- */

/* While a trace runs, the thread's events stay until they are written. */
static void trace_leave(void *context) {
  notes *self = context;
  mine = NULL; /* later events get a list of their own */
  atomic_store_explicit(&self->orphan, true, memory_order_release);
}

static void make_key(void) {
  pthread_key_create(&leaving, trace_leave);
}

static notes *make_notes(void) {
  notes *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  pthread_once(&once, make_key);
  pthread_setspecific(leaving, self);
  self->thread = syscall(SYS_gettid);
  if (my_name && my_number)
    snprintf(self->name, sizeof self->name, "%s %u", my_name, my_number);
  else if (my_name)
    snprintf(self->name, sizeof self->name, "%s", my_name);
  else if (self->thread == getpid())
    snprintf(self->name, sizeof self->name, "main");
  else
    pthread_getname_np(pthread_self(), self->name, sizeof self->name);
  notes *head = atomic_load_explicit(&all_notes, memory_order_relaxed);
  do
    self->next = head;
  /* release: its contents, for readers of the list */
  while (!atomic_compare_exchange_weak_explicit(
      &all_notes, &head, self, memory_order_release, memory_order_relaxed));
  return self;
}

/* Room for the next note of this thread; NULL: there is none. */
static note *next_note(void) {
  notes *self = mine ? mine : (mine = make_notes());
  if (!self) return NULL;
  /* acquire: the last trace's notes, which are written over, have been read */
  unsigned trace = atomic_load_explicit(&this_trace, memory_order_acquire);
  uint32_t count = atomic_load_explicit(&self->count, memory_order_relaxed);
  if (atomic_load_explicit(&self->trace, memory_order_relaxed) != trace) {
    count = 0;
    atomic_store_explicit(&self->count, 0, memory_order_relaxed);
    atomic_store_explicit(&self->lost, 0, memory_order_relaxed);
    /* release: the count goes with it */
    atomic_store_explicit(&self->trace, trace, memory_order_release);
  }
  note **chunk = count < NOTES_MOST ? &self->chunks[count / CHUNK] : NULL;
  if (chunk && !*chunk) *chunk = malloc(CHUNK * sizeof **chunk);
  if (!chunk || !*chunk) {
    atomic_fetch_add_explicit(&self->lost, 1, memory_order_relaxed);
    return NULL;
  }
  return &(*chunk)[count % CHUNK];
}

static void keep_note(void) {
  uint32_t count = atomic_load_explicit(&mine->count, memory_order_relaxed);
  /* release: publishes the event */
  atomic_store_explicit(&mine->count, count + 1, memory_order_release);
}

static void copy_text(char *to, size_t capacity, const char *from) {
  size_t size = from ? strnlen(from, capacity - 1) : 0;
  if (size) memcpy(to, from, size);
  to[size] = 0;
}

static void trace_add(kind kind, const char *name, const char *place,
                      const char *detail, uint64_t number, uint64_t begin,
                      uint64_t end) {
  note *to = next_note();
  if (!to) return;
  to->begin = begin;
  to->end = end;
  to->name = name;
  to->number = number;
  to->kind = kind;
  copy_text(to->place, sizeof to->place, place);
  copy_text(to->detail, sizeof to->detail, detail);
  keep_note();
}

void keel_trace_span(const char *name, const char *place, const char *detail,
                     uint64_t begin) {
  trace_add(SPAN, name, place, detail, 0, begin, keel_now());
}

uint32_t keel_trace_launch(const char *name, const char *detail) {
  uint32_t serial =
      atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed) + 1;
  if (keel_tracing()) trace_add(LAUNCH, name, NULL, detail, serial, 0, 0);
  return serial;
}

void keel_trace_copy(const char *name, const char *device, uint64_t bytes,
                     uint64_t begin) {
  trace_add(COPY, name, NULL, device, bytes, begin, keel_now());
}

void keel_trace_count(const char *name, uint64_t count) {
  trace_add(COUNT, name, NULL, NULL, count, keel_now(), 0);
}

void keel_trace_zone_begin(const char *name) {
  if (!keel_tracing()) return;
  if (!mine && !(mine = make_notes())) return;
  if (mine->depth < ZONES) {
    mine->zones[mine->depth].name = name;
    mine->zones[mine->depth].begin = keel_now();
  }
  mine->depth++;
}

void keel_trace_zone_end(void) {
  if (!mine || !mine->depth) return; /* began before the trace */
  uint32_t at = --mine->depth;
  if (at < ZONES && keel_tracing())
    keel_trace_span(mine->zones[at].name, NULL, NULL, mine->zones[at].begin);
}

void keel_trace_record(const char *device, const kd_profile_record *record,
                       uint64_t begin, uint64_t end) {
  note *to = next_note();
  if (!to) return;
  *to = (note){.begin = begin,
               .end = end,
               .number = keel_ticket_serial(record->correlation),
               .kind = RECORD | record->kind << 8,
               .stream = record->stream};
  copy_text(to->place, sizeof to->place, record->name);
  copy_text(to->detail, sizeof to->detail, device);
  keep_note();
}

void keel_trace_thread(const char *name, unsigned number) {
  my_name = name;
  my_number = number;
}

/* ---- begin and end ---------------------------------------------------------------- */

bool keel_trace_begin(void) {
  pthread_mutex_lock(&turning);
  bool free_now = !atomic_load(&keel_trace_runs);
  if (free_now) {
    atomic_fetch_add(&this_trace, 1);
    began = keel_now();
    first_launch = atomic_load(&launches);
    atomic_store(&keel_trace_runs, true);
  }
  pthread_mutex_unlock(&turning);
  return free_now;
}

bool keel_trace_end(void) {
  return atomic_exchange(&keel_trace_runs, false);
}

/* ---- the file ----------------------------------------------------------------------- */

enum {
  HOST = 1,
  DEVICES,
  COPIES,
  KINDS = COPIES
}; /* "processes" of the file */

/* The file is one rank's fragment of a larger one; NULL: a file of its own. With `turning` held. */
static const keel_trace_part *written;

/* A process of the file. */
static int process_of(int process) {
  return written ? process + (int)written->rank * KINDS : process;
}

static void write_name(FILE *file, const char *what, int process, long thread,
                       const char *name) {
  fprintf(file,
          ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%ld,\"name\":\"%s\","
          "\"args\":{\"name\":",
          process_of(process), thread, what);
  keel_write_json(file, name);
  fprintf(file, "}}");
}

/* Microseconds since the trace began; three digits are nanoseconds. */
static void write_time(FILE *file, const char *key, uint64_t time) {
  fprintf(file, ",\"%s\":%llu.%03u", key, (unsigned long long)(time / 1000),
          (unsigned)(time % 1000));
}

static void write_event(FILE *file, const char *phase, const char *name,
                        int process, long thread, uint64_t at) {
  fprintf(file, ",\n{\"ph\":\"%s\",\"name\":", phase);
  keel_write_json(file, name);
  uint64_t from = written ? written->origin : began;
  fprintf(file, ",\"pid\":%d,\"tid\":%ld", process_of(process), thread);
  write_time(file, "ts", at > from ? at - from : 0);
}

/* The launches of this trace, by their serials. */
typedef struct catalogue {
  const note **of;
  uint32_t count;
} catalogue;

static const note *launch_of(const catalogue *known, uint64_t serial) {
  uint32_t at = (uint32_t)serial - first_launch; /* it may have gone round */
  return serial && at < known->count ? known->of[at] : NULL;
}

static void write_span(FILE *file, const notes *thread, const note *n) {
  write_event(file, "X", n->name, HOST, thread->thread, n->begin);
  write_time(file, "dur", n->end - n->begin);
  fprintf(file, ",\"args\":{");
  if (*n->place) {
    fprintf(file, "\"device\":");
    keel_write_json(file, n->place);
  }
  if (*n->detail) {
    fprintf(file, "%s\"node\":", *n->place ? "," : "");
    keel_write_json(file, n->detail);
  }
  fprintf(file, "}}");
}

static void write_copy(FILE *file, const note *n, uint64_t id) {
  if (written) id |= (uint64_t)written->rank << 40;
  write_event(file, "b", n->name, COPIES, 1, n->begin);
  fprintf(file,
          ",\"cat\":\"copy\",\"id\":%llu,\"args\":{\"bytes\":%llu,"
          "\"device\":",
          (unsigned long long)id, (unsigned long long)n->number);
  keel_write_json(file, n->detail);
  fprintf(file, "}}");
  write_event(file, "e", n->name, COPIES, 1, n->end);
  fprintf(file, ",\"cat\":\"copy\",\"id\":%llu}", (unsigned long long)id);
}

static void write_record(FILE *file, const catalogue *known, const note *n,
                         long track) {
  static const char *const kinds[] = {"work", "kernel", "copy in", "copy out",
                                      "copy", "fill",   "region",  "replay"};
  uint32_t kind = n->kind >> 8;
  const note *launch = launch_of(known, n->number);
  bool runs_op = launch && kind == KD_PROFILE_KERNEL;
  write_event(file, "X",
              *n->place ? n->place
              : runs_op ? launch->name
                        : kinds[kind < KEEL_COUNT_OF(kinds) ? kind : 0],
              DEVICES, track, n->begin);
  write_time(file, "dur", n->end - n->begin);
  fprintf(file, ",\"args\":{");
  if (launch && !runs_op) { /* a copy's purpose */
    fprintf(file, "\"for\":");
    keel_write_json(file, launch->name);
  }
  if (launch && *launch->detail) {
    fprintf(file, "%s\"node\":", runs_op ? "" : ",");
    keel_write_json(file, launch->detail);
  }
  fprintf(file, "}}");
}

static const note *note_at(const notes *thread, uint32_t i) {
  return &thread->chunks[i / CHUNK][i % CHUNK];
}

/* How many notes a thread has of this trace. */
static uint32_t count_of(const notes *thread) {
  unsigned trace = atomic_load_explicit(&this_trace, memory_order_relaxed);
  /* acquire: pairs with the thread's releases */
  if (atomic_load_explicit(&thread->trace, memory_order_acquire) != trace)
    return 0;
  return atomic_load_explicit(&thread->count, memory_order_acquire);
}

static keel_status list_launches(catalogue *out) {
  out->count = atomic_load(&launches) - first_launch + 1;
  out->of = calloc((size_t)out->count + 1, sizeof(note *));
  if (!out->of) return keel_no_memory(out->count * sizeof(note *));
  for (const notes *at = atomic_load(&all_notes); at; at = at->next)
    for (uint32_t i = 0, count = count_of(at); i < count; i++)
      if (note_at(at, i)->kind == LAUNCH) {
        uint32_t place = (uint32_t)note_at(at, i)->number - first_launch;
        if (place < out->count) out->of[place] = note_at(at, i);
      }
  return KD_OK;
}

/* A number for a device's stream. */
typedef struct track {
  char name[64];
} track;

typedef struct tracks {
  track all[256];
  long count;
} tracks;

static long track_of(tracks *known, const note *n) {
  track made;
  snprintf(made.name, sizeof made.name, "%s, stream %u", n->detail,
           (unsigned)n->stream);
  for (long i = 0; i < known->count; i++)
    if (!strcmp(known->all[i].name, made.name)) return i + 1;
  if (known->count == (long)KEEL_COUNT_OF(known->all)) return known->count;
  known->all[known->count++] = made;
  return known->count;
}

static void write_thread(FILE *file, const notes *thread,
                         const catalogue *known, tracks *devices,
                         uint64_t *copies) {
  uint32_t count = count_of(thread);
  char name[64];
  if (!count) return;
  snprintf(name, sizeof name, "thread %ld", thread->thread);
  write_name(file, "thread_name", HOST, thread->thread,
             *thread->name ? thread->name : name);
  for (uint32_t i = 0; i < count; i++) {
    const note *n = note_at(thread, i);
    switch (n->kind & 255) {
      case SPAN:
        write_span(file, thread, n);
        break;
      case COPY:
        write_copy(file, n, ++*copies);
        break;
      case COUNT:
        write_event(file, "C", n->name, HOST, 0, n->begin);
        fprintf(file, ",\"args\":{\"tasks\":%llu}}",
                (unsigned long long)n->number);
        break;
      case RECORD:
        write_record(file, known, n, track_of(devices, n));
        break;
      default:
        break;
    }
  }
  uint32_t lost = atomic_load_explicit(&thread->lost, memory_order_relaxed);
  if (lost) {
    write_event(file, "i", "more things than a thread may note", HOST,
                thread->thread, note_at(thread, count - 1)->begin);
    fprintf(file, ",\"s\":\"t\",\"args\":{\"lost\":%u}}", (unsigned)lost);
  }
}

/* Events of threads that have ended; `turning` is held, and no trace runs. */
static void forget_ended(void) {
  notes *kept = NULL;
  notes *at = atomic_exchange(&all_notes, NULL);
  for (notes *next; at; at = next) {
    next = at->next;
    if (!atomic_load_explicit(&at->orphan, memory_order_acquire)) {
      at->next = kept;
      kept = at;
      continue;
    }
    for (size_t i = 0; i < KEEL_COUNT_OF(at->chunks); i++)
      free(at->chunks[i]);
    free(at);
  }
  while (kept) { /* beside threads that are new meanwhile */
    notes *next = kept->next;
    notes *head = atomic_load(&all_notes);
    do
      kept->next = head;
    while (!atomic_compare_exchange_weak(&all_notes, &head, kept));
    kept = next;
  }
}

static void write_process(FILE *file, int process, const char *name) {
  char own[80];
  if (written)
    snprintf(own, sizeof own, "rank %u: %s", (unsigned)written->rank, name);
  write_name(file, "process_name", process, 0, written ? own : name);
}

static void trace_write_all(FILE *file, const catalogue *known,
                            tracks *devices) {
  uint64_t copies = 0;
  if (!written)
    fprintf(file,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"version\":"
            "\"keel %s\"},\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":%d,"
            "\"name\":\"process_name\",\"args\":{\"name\":\"host\"}}",
            KEEL_VERSION, HOST);
  else
    write_process(file, HOST, "host");
  write_process(file, DEVICES, "devices, by their clocks");
  write_process(file, COPIES, "copies, as the host saw them");
  for (const notes *at = atomic_load(&all_notes); at; at = at->next)
    write_thread(file, at, known, devices, &copies);
  for (long i = 0; i < devices->count; i++)
    write_name(file, "thread_name", DEVICES, i + 1, devices->all[i].name);
  if (!written) fprintf(file, "\n]}\n");
}

keel_status keel_trace_write(void *part, FILE *file) {
  catalogue known = {0};
  tracks *devices = calloc(1, sizeof *devices);
  pthread_mutex_lock(&turning);
  written = part;
  keel_status status =
      devices ? list_launches(&known) : keel_no_memory(sizeof *devices);
  if (status == KD_OK) trace_write_all(file, &known, devices);
  written = NULL;
  forget_ended();
  pthread_mutex_unlock(&turning);
  free(known.of);
  free(devices);
  return status;
}

void keel_trace_forget(void) {
  pthread_mutex_lock(&turning);
  forget_ended();
  pthread_mutex_unlock(&turning);
}
