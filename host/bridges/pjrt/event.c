/* event.c - errors, and events over values that are pending.
 *
 * An event counts the values whose data it waits for, not only their types: a device's value is
 * known before its work has run. The one that comes last runs the callbacks, on the thread that
 * tells of it. Who waits does not help: the client's runtime has workers for all of it. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* ---- errors ------------------------------------------------------------------------- */

static pjrt_error no_memory = {.code = KD_OUT_OF_MEMORY};

static pjrt_error *make_error(keel_status status, const char *text) {
  size_t size = strlen(text) + 1;
  pjrt_error *error = malloc(sizeof *error + size);
  if (!error) return &no_memory;
  error->code = status <= 16 ? (int)status : KD_INTERNAL;
  memcpy(error->text, text, size);
  return error;
}

pjrt_error *pjrt_fail(keel_status status) {
  return status == KD_OK ? NULL : make_error(status, keel_message());
}

pjrt_error *pjrt_fail_text(keel_status status, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return make_error(status, text);
}

pjrt_error *pjrt_Error_Destroy(Error_Destroy_args *args) {
  if (args->object != &no_memory) free(args->object);
  return NULL;
}

pjrt_error *pjrt_Error_Message(Error_Message_args *args) {
  PJRT_TEXT(args,
            args->object == &no_memory ? "out of memory" : args->object->text);
  return NULL;
}

pjrt_error *pjrt_Error_GetCode(Error_GetCode_args *args) {
  args->result = args->object->code;
  return NULL;
}

/* ---- events ------------------------------------------------------------------------- */

typedef struct callback {
  struct callback *next;
  pjrt_callback function;
  void *context;
} callback;

struct pjrt_event {
  atomic_uint refs; /* its holder's, and one for each value that is awaited */
  pthread_mutex_t lock;
  pthread_cond_t ended;
  uint32_t awaited;   /* values whose data are not there */
  keel_status status; /* of the first value that failed */
  char *message;
  callback *callbacks;
};

static void event_drop(pjrt_event *event) {
  if (atomic_fetch_sub(&event->refs, 1) != 1) return;
  pthread_cond_destroy(&event->ended);
  pthread_mutex_destroy(&event->lock);
  free(event->message);
  free(event);
}

static pjrt_error *error_of(const pjrt_event *event) {
  return event->status == KD_OK
             ? NULL
             : make_error(event->status,
                          event->message ? event->message : "out of memory");
}

static void event_run_all(const pjrt_event *event, callback *first) {
  for (callback *at = first, *next; at; at = next) {
    next = at->next;
    at->function(error_of(event), at->context);
    free(at);
  }
}

/* One value less to wait for. */
static void count_down(pjrt_event *event, keel_status status) {
  callback *all = NULL;
  pthread_mutex_lock(&event->lock);
  if (status != KD_OK && event->status == KD_OK) {
    event->status = status;
    event->message = strdup(keel_message());
  }
  if (--event->awaited == 0) {
    all = event->callbacks;
    event->callbacks = NULL;
    pthread_cond_broadcast(&event->ended);
  }
  pthread_mutex_unlock(&event->lock);
  event_run_all(event, all);
}

static void written(void *context, keel_status status) {
  count_down(context, status);
  event_drop(context);
}

/* It holds no value: who donates one has the only reference, though the event is there. */
pjrt_event *pjrt_event_of(keel_tensor *const *values, uint32_t count) {
  pjrt_event *event = calloc(1, sizeof *event);
  if (!event) return NULL;
  atomic_init(&event->refs, count + 1);
  event->awaited = count;
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->ended, NULL);
  for (uint32_t i = 0; i < count; i++) {
    keel_status status = keel_tensor_on_written(values[i], written, event);
    if (status == KD_OK) continue;
    count_down(event, status);
    atomic_fetch_sub(&event->refs, 1); /* not the last: the caller's is left */
  }
  return event;
}

pjrt_error *pjrt_Event_Destroy(Event_Destroy_args *args) {
  if (args->object) event_drop(args->object);
  return NULL;
}

pjrt_error *pjrt_Event_IsReady(Event_IsReady_args *args) {
  pthread_mutex_lock(&args->object->lock);
  args->result = args->object->awaited == 0;
  pthread_mutex_unlock(&args->object->lock);
  return NULL;
}

pjrt_error *pjrt_Event_Error(Event_Error_args *args) {
  pthread_mutex_lock(&args->object->lock);
  bool ready = args->object->awaited == 0;
  pthread_mutex_unlock(&args->object->lock);
  return ready ? error_of(args->object)
               : pjrt_fail_text(KD_FAILED_PRECONDITION,
                                "the event is not ready yet");
}

pjrt_error *pjrt_Event_Await(Event_Await_args *args) {
  pjrt_event *event = args->object;
  pthread_mutex_lock(&event->lock);
  while (event->awaited)
    pthread_cond_wait(&event->ended, &event->lock);
  pthread_mutex_unlock(&event->lock);
  return error_of(event);
}

pjrt_error *pjrt_Event_OnReady(Event_OnReady_args *args) {
  pjrt_event *event = args->object;
  callback *made = malloc(sizeof *made);
  if (!made) return &no_memory;
  *made = (callback){NULL, args->callback, args->context};
  pthread_mutex_lock(&event->lock);
  bool ready = event->awaited == 0;
  if (!ready) {
    made->next = event->callbacks;
    event->callbacks = made;
  }
  pthread_mutex_unlock(&event->lock);
  if (ready) event_run_all(event, made);
  return NULL;
}
