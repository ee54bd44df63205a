/* link_standin.c - a module of links (keel/link_module.h) without other processes: rank 0 of two,
 * of which the other gives what this one does. A test chooses by KEEL_STANDIN what goes wrong. */
#include <kd/kd.h>
#include <keel/link_module.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As link/notes.c has it. */
typedef struct note {
  uint32_t kind, rank, where;
  int32_t status;
  uint64_t number;
  char text[KEEL_LINK_NOTE - 24];
} note;
enum { ASK, ANSWER, FAILED, LAST_WORDS };
enum { BEFORE, WAITS_FOR_VALUE, INSIDE, LEFT };

static note waiting;
static bool heard = true; /* there is no note */
static int requests;
static char
    *unfinished; /* where a gathering that another rank is late for goes */

static bool goes_wrong(const char *how) {
  const char *said = getenv("KEEL_STANDIN");
  return said && !strcmp(said, how);
}

static int open_module(keel_link_world *world) {
  if (goes_wrong("open")) return 7;
  while (goes_wrong("alone"))
    pause();
  heard = true;
  requests = 0;
  unfinished = NULL;
  world->rank = 0;
  world->size = 2;
  world->local_rank = 0;
  world->local_size = 2;
  snprintf(world->library, sizeof world->library, "a stand-in");
  return 0;
}

static void close_module(void) {}

static int split(uint32_t color, uint32_t key, void **out_comm) {
  static int comm;
  (void)color;
  (void)key;
  *out_comm = &comm;
  return 0;
}

static void release(void *comm) {
  (void)comm;
}

/* Sums of f32 alone. */
static void reduce(const keel_link_call *call) {
  const float *from = call->send;
  float *to = call->receive;
  for (uint64_t i = 0; i < call->count; i++)
    to[i] = from[i] + from[i];
}

/* What was gathered last that is no single byte, for a test that plays the other rank. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char gathered[512];
static uint64_t gathered_size;

static void note_gathered(const keel_link_call *call) {
  if (call->count == 1) return;
  pthread_mutex_lock(&lock);
  gathered_size = call->count <= sizeof gathered ? call->count : 0;
  memcpy(gathered, call->send, gathered_size);
  pthread_mutex_unlock(&lock);
}

KD_EXPORT uint64_t link_standin_gathered(void *out_bytes);
uint64_t link_standin_gathered(void *out_bytes) {
  pthread_mutex_lock(&lock);
  uint64_t size = gathered_size;
  memcpy(out_bytes, gathered, size);
  pthread_mutex_unlock(&lock);
  return size;
}

/* For KEEL_STANDIN=stuck: whether the link's thread is in a call that does not return. */
static atomic_bool stuck;

KD_EXPORT bool link_standin_is_stuck(void);
bool link_standin_is_stuck(void) {
  return stuck;
}

static int start(const keel_link_call *call, void **out_request) {
  char *to = call->receive;
  while (goes_wrong("stuck")) {
    stuck = true;
    pause();
  }
  if (goes_wrong("start")) return 7;
  switch (call->kind) {
    case KEEL_LINK_ALL_REDUCE:
      reduce(call);
      break;
    case KEEL_LINK_ALL_GATHER:
      unfinished = to;
      note_gathered(call);
      memcpy(to, call->send, call->count);
      memcpy(to + call->count, call->send, call->count);
      break;
    default:
      break;
  }
  requests++;
  *out_request = &requests;
  return 0;
}

/* Another rank fails, or does not come. */
static int test(void *request, int *out_ended) {
  (void)request;
  *out_ended = !goes_wrong("late") && !goes_wrong("silent") &&
               !goes_wrong("told") && !goes_wrong("afterwards") &&
               !goes_wrong("left");
  if (goes_wrong("told") && requests) {
    waiting = (note){.kind = FAILED, .rank = 1, .status = KD_UNAVAILABLE};
    snprintf(waiting.text, sizeof waiting.text, "rank 1: no disk");
    heard = false;
    requests = 0;
  }
  return goes_wrong("test") ? 7 : 0;
}

static int tell(uint32_t rank, const void *text) {
  note got;
  memcpy(&got, text, sizeof got);
  if (got.kind != ASK || (!goes_wrong("late") && !goes_wrong("left"))) return 0;
  waiting = (note){.kind = ANSWER,
                   .rank = rank,
                   .where = goes_wrong("left") ? LEFT : BEFORE,
                   .number = got.number + 1};
  heard = false;
  return 0;
}

static int hear(void *out_note, int *out_heard) {
  *out_heard = !heard;
  if (goes_wrong("afterwards") && unfinished) *unfinished = 'l';
  if (!heard) memcpy(out_note, &waiting, sizeof waiting);
  heard = true;
  return 0;
}

static void end_all(int status) {
  exit(status);
}

static const char *message(int error) {
  return error == 7 ? "it is the seventh error" : "?";
}

static const keel_link_table table = {
    .struct_size = sizeof(keel_link_table),
    .version = KEEL_LINK_VERSION,
    .open = open_module,
    .close = close_module,
    .split = split,
    .release = release,
    .start = start,
    .test = test,
    .tell = tell,
    .hear = hear,
    .abort = end_all,
    .message = message,
};

KD_EXPORT const keel_link_table *keel_link_module(void);
const keel_link_table *keel_link_module(void) {
  return &table;
}
