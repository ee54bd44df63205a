/* environment_test.c - what the environment may say, and to which processes. */
#include "system/environment.h"

#include <fcntl.h>
#include <keel/link.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "layers/layers.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "testing.h"

static char folder[] = "/tmp/keel-environment-XXXXXX";

/* ---- a process with more rights than its user ------------------------------------------ */

/* Each of these, read, changes what the process does or says. */
static const char *const variables[][2] = {
    {"KEEL_PLUGIN_PATH", CPU_PLUGIN},
    {"KEEL_THREADS", "nonsense"},
    {"KEEL_VISIBLE_DEVICES", "]["},
    {"KEEL_LAYERS", "nonsense"},
    {"KEEL_DEVICE", "none:0"},
    {"KEEL_LINK_MODULE", LINK_STANDIN},
    {"OMPI_COMM_WORLD_SIZE", "2"},
    {"KEEL_CPU_ISA", "nonsense"},
    {"HOME", "/tmp"},
    {"XDG_CACHE_HOME", "/tmp"},
    {"XDG_CONFIG_HOME", "/tmp"},
};

static void count_line(void *context, uint32_t level, const char *line) {
  (void)level;
  (void)line;
  ++*(int *)context;
}

/* What is wrong with a process that must not read the environment; 0: nothing. */
static int see_nothing(void) {
  char path[64];
  int lines = 0;
  keel_context *context = NULL;
  keel_library library = {.name = "cpu"};
  const keel_context_params params = {
      .struct_size = sizeof params, .log = count_line, .log_context = &lines};
  if (keel_trusts_environment()) return 1;
  for (size_t i = 0; i < KEEL_COUNT_OF(variables); i++)
    if (!getenv(variables[i][0]) || keel_environment(variables[i][0])) return 2;
  if (keel_user_folder("XDG_CACHE_HOME", ".cache", path, sizeof path)) return 3;
  if (keel_link_launched()) return 4;
  if (keel_option_get(&library.host, "isa")) return 5;
  if (keel_layers_set(NULL) != KD_OK) return 6;
  if (keel_open(&params, &context) != KD_OK) return 7;
  if (lines) return 8; /* KEEL_DEVICE's warning */
  keel_close(context);
  return 0;
}

/* Runs the copy of this program that begins with its owner's rights, as another user. */
static int run_as_other(const char *program) {
  int status = 0;
  pid_t child = fork();
  if (!child) {
    for (size_t i = 0; i < KEEL_COUNT_OF(variables); i++)
      setenv(variables[i][0], variables[i][1], 1);
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(98);
    execl(program, program, "--privileged", NULL);
    _exit(97);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void copy_self(const char *path) {
  char buffer[1 << 16];
  int from = open("/proc/self/exe", O_RDONLY);
  int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
  for (ssize_t got; (got = read(from, buffer, sizeof buffer)) > 0;)
    assert_int_equal(write(to, buffer, (size_t)got), got);
  close(from);
  assert_int_equal(close(to), 0);
}

TEST_THAT(a_privileged_process_reads_nothing_of_it) {
  char program[64];
  if (geteuid() != 0) skip();
  snprintf(program, sizeof program, "%s/privileged", folder);
  copy_self(program);
  chmod(folder, 0755);
  assert_int_equal(chmod(program, 0755), 0);
  assert_int_equal(run_as_other(program), 1); /* it would see all of it */
  assert_int_equal(chmod(program, 04755), 0);
  int result = run_as_other(program);
  unlink(program);
  if (result == 1) skip(); /* the mount gives no rights (nosuid) */
  assert_int_equal(result, 0);
}

/* ---- folders ------------------------------------------------------------------------------ */

static void expect_folder(const char *set, const char *home, const char *want) {
  char got[32] = "";
  if (set)
    setenv("XDG_TEST_HOME", set, 1);
  else
    unsetenv("XDG_TEST_HOME");
  if (home)
    setenv("HOME", home, 1);
  else
    unsetenv("HOME");
  bool is = keel_user_folder("XDG_TEST_HOME", ".test", got, sizeof got);
  assert_int_equal(is, want != NULL);
  if (want) assert_string_equal(got, want);
}

TEST_THAT(folders_that_are_not_absolute_count_as_not_set) {
  expect_folder("/cache", "/home/a", "/cache");
  expect_folder("", "/home/a", "/home/a/.test");
  expect_folder(NULL, "/home/a", "/home/a/.test");
  expect_folder("cache", "/home/a", "/home/a/.test");
  expect_folder("./cache", "/home/a", "/home/a/.test");
  expect_folder("~/cache", "/home/a", "/home/a/.test");
  expect_folder("cache", "home", NULL);
  expect_folder(NULL, "", NULL);
  expect_folder(NULL, NULL, NULL);
  expect_folder("/a/path/that/is/longer/than/the/room", "/home", NULL);
}

SETUP(set_up) {
  return mkdtemp(folder) ? 0 : -1;
}

SETUP(tear_down) {
  return rmdir(folder);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--privileged")) return see_nothing();
  return tests_run(set_up, tear_down);
}
