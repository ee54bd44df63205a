/* apart_test.c - a process that ends waits for work apart; a child after a fork, and work that ends the
 * process itself, do not. Each case is a process of its own. */
#include "threads/apart.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"

static int told[2]; /* a pipe: a byte when the work ends */

static void *slow(void *argument) {
  (void)argument;
  keel_apart_enter();
  usleep(100000);
  char done = 1;
  if (write(told[1], &done, 1) != 1) _exit(9);
  keel_apart_leave();
  return NULL;
}

static void *ends(void *argument) {
  (void)argument;
  keel_apart_enter();
  exit(3);
}

static void begin(void *(*work)(void *)) {
  pthread_t thread;
  if (!keel_apart_begin() || pthread_create(&thread, NULL, work, NULL))
    _exit(8);
  pthread_detach(thread);
}

static void end_while_it_works(void) {
  begin(slow);
  exit(0);
}

static void end_in_the_work(void) {
  begin(ends);
  for (;;)
    pause();
}

static void begin_too_late(void) {
  if (keel_apart_begin()) _exit(7);
}

/* What ends first is registered last. */
static void end_and_begin(void) {
  atexit(begin_too_late);
  begin(slow);
  exit(0);
}

/* The work of the parent is not the child's. */
static void end_a_child(void) {
  int status = 1;
  begin(slow);
  pid_t child = fork();
  if (child == 0) {
    if (keel_apart_may_end() || keel_apart_begin()) _exit(7);
    exit(0);
  }
  if (waitpid(child, &status, 0) != child || status) _exit(6);
  exit(0);
}

/* The status of a process that does it, and how much work ended in it. */
static int status_of(void (*does)(void), int *out_ended) {
  int status = 0;
  char byte;
  assert_int_equal(pipe(told), 0);
  pid_t child = fork();
  if (child == 0) {
    does();
    _exit(5);
  }
  close(told[1]);
  assert_int_equal(waitpid(child, &status, 0), child);
  *out_ended = (int)read(told[0], &byte, 1);
  close(told[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_THAT(the_process_waits_for_work_and_begins_none) {
  void (*const all[])(void) = {end_while_it_works, end_and_begin, end_a_child};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    int ended = 0;
    assert_int_equal(status_of(all[i], &ended), 0);
    assert_int_equal(ended, 1);
  }
}

TEST_THAT(work_may_end_the_process) {
  int ended = 0;
  assert_int_equal(status_of(end_in_the_work, &ended), 3);
  assert_int_equal(ended, 0);
}

int main(void) {
  return tests_run(NULL, NULL);
}
