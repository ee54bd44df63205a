/* apart.c - counts work apart, and waits for it when the process ends. */
#include "threads/apart.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
  pthread_mutex_t lock; /* guards `count` and `ends` */
  pthread_cond_t changed;
  uint32_t count;
  bool ends;
  pid_t process; /* set once, before any work begins */
} apart = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .changed = PTHREAD_COND_INITIALIZER};

/* The process may end within a plugin that such work calls, too. */
static _Thread_local bool inside;

static void apart_await(void) {
  if (inside || !keel_apart_may_end()) return;
  pthread_mutex_lock(&apart.lock);
  apart.ends = true;
  while (apart.count)
    pthread_cond_wait(&apart.changed, &apart.lock);
  pthread_mutex_unlock(&apart.lock);
}

/* What is registered last is called first: plugins are loaded by now. */
static void apart_register(void) {
  apart.process = getpid();
  atexit(apart_await);
}

bool keel_apart_may_end(void) {
  return !apart.process || apart.process == getpid();
}

bool keel_apart_begin(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, apart_register);
  if (!keel_apart_may_end()) return false;
  pthread_mutex_lock(&apart.lock);
  bool begins = !apart.ends;
  apart.count += begins;
  pthread_mutex_unlock(&apart.lock);
  return begins;
}

void keel_apart_enter(void) {
  inside = true;
}

void keel_apart_leave(void) {
  inside = false;
  pthread_mutex_lock(&apart.lock);
  apart.count--;
  pthread_cond_broadcast(&apart.changed);
  pthread_mutex_unlock(&apart.lock);
}
