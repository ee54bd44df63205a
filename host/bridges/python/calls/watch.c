/* watch.c - Ctrl-C while the main thread is in a call of libkeel: the call is cancelled.
 *
 * Python's handler of the signal notes it, and KeyboardInterrupt is raised when the call has
 * returned. A handler in front of that one tells a thread here, which cancels the call. It stays
 * in place: that a call is watched costs no more than a look at whether it still is, since another
 * handler of Python's may want the call to go on. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "calls.h"

static struct {
  pthread_mutex_t lock;
  keel_cancel *cancel; /* of the call that is under way */
  unsigned seen;       /* signals that came before it */
  unsigned long main;  /* thread */
  bool works;          /* the thread has been started */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What the handler uses. */
static atomic_uint signals_came;
static atomic_int wakes = -1; /* an eventfd, which the thread reads */
static struct sigaction former;

static void on_interrupt(int number, siginfo_t *info, void *context) {
  const int error = errno;
  const uint64_t one = 1;
  atomic_fetch_add(&signals_came, 1);
  const int to = atomic_load(&wakes);
  ssize_t written = to < 0 ? 0 : write(to, &one, sizeof one);
  (void)written; /* it fails where no call has been watched */
  if (former.sa_flags & SA_SIGINFO)
    former.sa_sigaction(number, info, context);
  else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN)
    former.sa_handler(number);
  errno = error;
}

static void *watch_work(void *context) {
  uint64_t count;
  const int from = atomic_load(&wakes);
  for (;;) {
    if (read(from, &count, sizeof count) < 0) {
      if (errno == EINTR) continue;
      return context;
    }
    pthread_mutex_lock(&watch.lock);
    if (watch.cancel && atomic_load(&signals_came) != watch.seen) {
      keel_cancel_request(watch.cancel, "Ctrl-C");
      watch.cancel = NULL;
    }
    pthread_mutex_unlock(&watch.lock);
  }
}

/* Starts the thread, which gets no signals. */
static bool watch_start(void) {
  pthread_t thread;
  sigset_t all, before;
  if (watch.works) return true;
  int made = eventfd(0, EFD_CLOEXEC);
  if (made < 0) return false;
  atomic_store(&wakes, made);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watch.works = pthread_create(&thread, NULL, watch_work, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (watch.works) {
    pthread_detach(thread);
  } else {
    atomic_store(&wakes, -1);
    close(made);
  }
  return watch.works;
}

/* Whether Python's handler of the signal is the one that raises KeyboardInterrupt. */
static bool signal_raises(void) {
  PyObject *module = PyImport_ImportModule("_signal"), *now = NULL;
  PyObject *own = NULL;
  if (module) now = PyObject_CallMethod(module, "getsignal", "i", SIGINT);
  if (now) own = PyObject_GetAttrString(module, "default_int_handler");
  bool same = own && own == now;
  Py_XDECREF(own);
  Py_XDECREF(now);
  Py_XDECREF(module);
  PyErr_Clear();
  return same;
}

static bool handler_is_in_front(void) {
  struct sigaction now;
  return sigaction(SIGINT, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
         now.sa_sigaction == on_interrupt;
}

/* Puts the handler in front of Python's. Another library's that has come in front of this one calls
 * it: then it stays where it is, or the two would call each other. */
static bool handler_go_in_front(void) {
  static bool has_been;
  struct sigaction now, mine;
  if (!signal_raises() || sigaction(SIGINT, NULL, &now)) return false;
  if (!has_been) former = now;
  if (has_been &&
      (now.sa_flags & SA_SIGINFO || now.sa_handler != former.sa_handler))
    return true;
  mine = former;
  mine.sa_flags |= SA_SIGINFO;
  mine.sa_sigaction = on_interrupt;
  has_been = sigaction(SIGINT, &mine, NULL) == 0;
  return has_been;
}

bool keel_watch_wanted(void) {
  return PyThread_get_thread_ident() == watch.main &&
         (handler_is_in_front() || handler_go_in_front()) && watch_start();
}

void keel_watch_begin(keel_cancel *cancel) {
  pthread_mutex_lock(&watch.lock);
  watch.seen = atomic_load(&signals_came);
  watch.cancel = cancel;
  pthread_mutex_unlock(&watch.lock);
}

bool keel_watch_end(void) {
  pthread_mutex_lock(&watch.lock);
  bool cancelled = !watch.cancel;
  watch.cancel = NULL;
  pthread_mutex_unlock(&watch.lock);
  return cancelled;
}

void keel_watch_forked(unsigned long main_thread) {
  pthread_mutex_init(&watch.lock, NULL);
  watch.cancel = NULL;
  watch.works = false; /* a child has the thread that forked alone */
  if (atomic_load(&wakes) >= 0) close(atomic_load(&wakes));
  atomic_store(&wakes, -1);
  watch.main = main_thread;
}
