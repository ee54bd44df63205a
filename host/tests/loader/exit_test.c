/* exit_test.c - a process that ends without closing its context calls no plugin: the driver
 * behind it may have ended before. */
#include "device/device.h"
#include "testing.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct seen {
  int ended;          /* the process has begun to end */
  int released, late; /* buffers, and those after that */
} seen;

static seen *shared;
static void (*plugins_own)(kd_device *device, kd_buffer *buffer);

static void take_release(kd_device *device, kd_buffer *buffer) {
  shared->released++;
  shared->late += shared->ended;
  plugins_own(device, buffer);
}

static void note_end(void) {
  shared->ended = 1;
}

/* Runs ops whose buffers are kept for the next ones, and ends. */
static void child_runs(int closes) {
  const char *const plugin = MINIMAL_PLUGIN;
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, &plugin, 1, .workers = 1);
  keel_context *context = NULL;
  const float numbers[] = {1, 2, 3, 4};
  if (keel_open(&params, &context) != KD_OK) _exit(99);
  kd_memory_table *memory = &keel_device_at(context, 0)->plugin->memory;
  plugins_own = memory->release;
  memory->release = take_release;
  for (int i = 0; i < 4; i++) {
    keel_tensor *x = floats(context, 4, numbers), *y = NULL;
    keel_tensor *const in[] = {x, x};
    if (keel_call(context, "Add", NULL, 0, in, 2, &y, 1) != KD_OK) _exit(98);
    RELEASE(x, y);
  }
  if (closes) keel_close(context);
  atexit(note_end);
  exit(0);
}

static seen in_a_process(int closes) {
  int status = 0;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) child_runs(closes);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  seen result = *shared;
  munmap(shared, sizeof *shared);
  return result;
}

TEST_THAT(closed_all_is_released) {
  seen closed = in_a_process(1);
  assert_true(closed.released > 0);
  assert_int_equal(closed.late, 0);
}

TEST_THAT(left_open_no_plugin_is_called) {
  seen open = in_a_process(0);
  assert_int_equal(open.ended, 1);
  assert_int_equal(open.late, 0);
}

RUN_TESTS(NULL, NULL)
