/* save_test.c - files are written whole or not at all, also by many writers at once. */
#include "system/save.h"
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

static char folder[] = "/tmp/keel-save-XXXXXX";

static const char *at(const char *name) {
  static char paths[2][400];
  static unsigned turn;
  char *path = paths[turn++ % 2];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

/* A file system without files that have no name, or one with them. */
static bool without_unnamed;
int real_openat(int from, const char *path, int flags,
                ...) __asm__("__real_openat");
int wrapped_openat(int from, const char *path, int flags,
                   ...) __asm__("__wrap_openat");

int wrapped_openat(int from, const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = va_arg(args, mode_t);
  va_end(args);
  if (without_unnamed && (flags & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return real_openat(from, path, flags, mode);
}

/* 0, or errno. */
static int save_text(const char *path, const char *text) {
  keel_save save;
  if (!keel_save_begin(&save, path, 0666)) return errno;
  fputs(text, save.file);
  return keel_save_end(&save, true) ? 0 : errno;
}

static void expect_text(const char *path, const char *want) {
  char got[64];
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  got[fread(got, 1, sizeof got - 1, file)] = 0;
  fclose(file);
  assert_string_equal(got, want);
}

static struct stat facts_of(const char *path) {
  struct stat facts;
  assert_int_equal(lstat(path, &facts), 0);
  return facts;
}

/* How many names the folder has. */
static int names(void) {
  int count = 0;
  DIR *all = opendir(folder);
  assert_non_null(all);
  for (struct dirent *entry; (entry = readdir(all));)
    count += entry->d_name[0] != '.';
  closedir(all);
  return count;
}

SETUP(clear) {
  DIR *all = opendir(folder);
  for (struct dirent *entry; all && (entry = readdir(all));)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
        unlinkat(dirfd(all), entry->d_name, 0) != 0)
      unlinkat(dirfd(all), entry->d_name, AT_REMOVEDIR);
  return all ? closedir(all) : -1;
}

/* ---- rights ------------------------------------------------------------------------ */

TEST_THAT(a_new_file_has_the_mode_that_the_umask_leaves) {
  mode_t before = umask(027);
  assert_int_equal(save_text(at("a"), "new"), 0);
  umask(before);
  expect_text(at("a"), "new");
  assert_int_equal(facts_of(at("a")).st_mode & 07777, 0640);
  assert_int_equal(names(), 1);
}

TEST_THAT(a_file_keeps_its_mode) {
  static const mode_t modes[] = {0600, 0640, 0666, 0755, 0777, 0200, 0602};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    write_text(at("a"), "old");
    assert_int_equal(chmod(at("a"), modes[i]), 0);
    assert_int_equal(save_text(at("a"), "new"), 0);
    assert_int_equal(facts_of(at("a")).st_mode & 07777, modes[i]);
    chmod(at("a"), 0600);
    expect_text(at("a"), "new");
  }
  assert_int_equal(names(), 1);
}

TEST_THAT(a_file_keeps_its_owner) {
  if (geteuid() != 0) skip();
  write_text(at("a"), "old");
  assert_int_equal(chown(at("a"), 1234, 4321), 0);
  assert_int_equal(chmod(at("a"), 06755), 0);
  assert_int_equal(save_text(at("a"), "new"), 0);
  const struct stat facts = facts_of(at("a"));
  assert_int_equal(facts.st_uid, 1234);
  assert_int_equal(facts.st_gid, 4321);
  assert_int_equal(facts.st_mode & 07777, 06755);
}

/* What a user without rights gets as errno, in a folder that all may write. */
static int saved_by_nobody(const char *path) {
  pid_t child = fork();
  int status = 0;
  if (!child) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(255);
    _exit(save_text(path, "theirs"));
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_THAT(a_file_that_may_not_be_written_stays) {
  if (geteuid() != 0) skip();
  assert_int_equal(chmod(folder, 0777), 0);
  write_text(at("a"), "old");
  chmod(at("a"), 0644);
  assert_int_equal(saved_by_nobody(at("a")), EACCES);
  expect_text(at("a"), "old");
  /* a group that may not be given gets what all others have */
  chown(at("a"), 0, 4321);
  chmod(at("a"), 04672);
  assert_int_equal(saved_by_nobody(at("a")), 0);
  expect_text(at("a"), "theirs");
  assert_int_equal(facts_of(at("a")).st_uid, 65534);
  assert_int_equal(facts_of(at("a")).st_mode & 07777, 0622);
  assert_int_equal(chmod(folder, 0755), 0);
  assert_int_equal(saved_by_nobody(at("b")), EACCES);
  assert_int_equal(names(), 1);
  chmod(folder, 0700);
}

/* ---- links ------------------------------------------------------------------------- */

TEST_THAT(links_are_followed) {
  static const char *const targets[] = {"real", "./real", "../real", NULL};
  assert_int_equal(mkdir(at("inner"), 0700), 0);
  for (int there = 1; there >= 0; there--)
    for (int i = 0; i < 4; i++) {
      char link[400];
      snprintf(link, sizeof link, "%s/%s", folder,
               i == 2 ? "inner/link" : "link");
      unlink(link);
      unlink(at("real"));
      if (there) write_text(at("real"), "old");
      assert_int_equal(symlink(targets[i] ? targets[i] : at("real"), link), 0);
      unlink(at("chain"));
      assert_int_equal(symlink(link, at("chain")), 0);
      assert_int_equal(save_text(at("chain"), "new"), 0);
      expect_text(at("real"), "new");
      assert_true(S_ISLNK(facts_of(link).st_mode));
      assert_true(S_ISLNK(facts_of(at("chain")).st_mode));
      assert_true(S_ISREG(facts_of(at("real")).st_mode));
    }
  unlink(at("inner/link"));
  assert_int_equal(names(), 4); /* with inner */
}

TEST_THAT(a_link_that_leads_nowhere_still_does_after_an_error) {
  keel_save save;
  assert_int_equal(symlink("none", at("link")), 0);
  assert_true(keel_save_begin(&save, at("link"), 0666));
  assert_true(keel_save_end(&save, false));
  assert_int_equal(names(), 1);
  assert_int_equal(symlink("loop", at("loop")), 0);
  assert_int_equal(save_text(at("loop"), "new"), ELOOP);
}

TEST_THAT(a_link_where_others_used_to_write_is_not_met) {
  write_text(at("victim"), "theirs");
  for (int unnamed = 0; unnamed < 2; unnamed++) {
    without_unnamed = unnamed;
    unlink(at("a.new"));
    assert_int_equal(symlink("victim", at("a.new")), 0);
    assert_int_equal(save_text(at("a"), "new"), 0);
    expect_text(at("victim"), "theirs");
    expect_text(at("a"), "new");
    assert_int_equal(names(), 3);
  }
  without_unnamed = false;
}

/* ---- devices, pipes and folders -------------------------------------------------------- */

TEST_THAT(devices_are_written_into) {
  assert_int_equal(save_text("/dev/null", "gone"), 0);
  assert_int_equal(save_text("/dev/full", "no room"), ENOSPC);
  assert_true(S_ISCHR(facts_of("/dev/full").st_mode));
  if (mknod(at("null"), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    int result =
        save_text(at("null"), "gone"); /* or the mount has no devices */
    assert_true(!result || result == EACCES);
    assert_true(S_ISCHR(facts_of(at("null")).st_mode));
  }
}

static void *read_pipe(void *context) {
  static char got[64];
  int from = open(context, O_RDONLY);
  size_t size = 0;
  for (ssize_t more; (more = read(from, got + size, 63 - size)) > 0;)
    size += (size_t)more;
  close(from);
  return got;
}

TEST_THAT(a_pipe_is_written_into) {
  pthread_t reader;
  void *got = NULL;
  char path[400];
  snprintf(path, sizeof path, "%s/pipe", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(pthread_create(&reader, NULL, read_pipe, path), 0);
  assert_int_equal(save_text(path, "through"), 0);
  pthread_join(reader, &got);
  assert_string_equal(got, "through");
  assert_true(S_ISFIFO(facts_of(path).st_mode));
}

TEST_THAT(standard_output_keeps_what_comes_by_both_ways) {
  static const char *const ways[] = {"/dev/stdout", "/proc/self/fd/1",
                                     "/dev/fd/1"};
  int status = 0;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    pid_t child = fork();
    if (!child) {
      if (!freopen(at("out"), "w", stdout)) _exit(1);
      printf("before ");
      if (save_text(ways[i], "saved") != 0) _exit(2);
      printf(" after");
      fflush(stdout);
      _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_text(at("out"), "before saved after");
  }
}

TEST_THAT(folders_are_refused) {
  char path[400];
  snprintf(path, sizeof path, "%s/", folder);
  assert_int_equal(save_text(folder, "x"), EISDIR);
  assert_int_equal(save_text(path, "x"), EISDIR);
  assert_int_equal(save_text(at("none/a"), "x"), ENOENT);
  assert_int_equal(save_text(at("none/"), "x"), EISDIR);
  assert_int_equal(save_text("", "x"), ENOENT);
  write_text(at("file"), "old");
  assert_int_equal(save_text(at("file/a"), "x"), ENOTDIR);
}

TEST_THAT(names_of_any_length_will_do) {
  char name[257];
  for (int unnamed = 0; unnamed < 2; unnamed++)
    for (size_t size = 255; size <= 256; size++) {
      without_unnamed = unnamed;
      memset(name, 'n', size);
      name[size] = 0;
      assert_int_equal(save_text(at(name), "x"), size > 255 ? ENAMETOOLONG : 0);
      unlink(at(name));
    }
  without_unnamed = false;
  assert_int_equal(names(), 0);
}

/* ---- errors ------------------------------------------------------------------------------ */

/* Writes more than a process may, of 64 KiB; returns errno. */
static int save_too_much(const char *path) {
  int status = 0;
  pid_t child = fork();
  if (!child) {
    const struct rlimit few = {1 << 16, 1 << 16};
    static char data[1 << 20];
    keel_save save;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &few);
    if (!keel_save_begin(&save, path, 0666)) _exit(254);
    for (int i = 0; i < 16; i++)
      fwrite(data, 1, sizeof data / 16, save.file);
    _exit(keel_save_end(&save, true) ? 0 : errno);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_THAT(an_error_leaves_the_old_file) {
  keel_save save;
  for (int unnamed = 0; unnamed < 2; unnamed++) {
    without_unnamed = unnamed;
    write_text(at("a"), "old");
    assert_int_equal(save_too_much(at("a")), EFBIG);
    expect_text(at("a"), "old");
    assert_int_equal(save_too_much(at("b")), EFBIG);
    assert_true(keel_save_begin(&save, at("a"), 0666));
    fputs("not to be kept", save.file);
    assert_true(keel_save_end(&save, false));
    expect_text(at("a"), "old");
    assert_int_equal(names(), 1);
  }
  without_unnamed = false;
}

TEST_THAT(a_killed_writer_leaves_the_old_file_and_nothing_else) {
  int status = 0;
  write_text(at("a"), "old");
  pid_t child = fork();
  if (!child) {
    keel_save save;
    if (!keel_save_begin(&save, at("a"), 0666)) _exit(1);
    fputs("half", save.file);
    fflush(save.file);
    raise(SIGKILL);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  expect_text(at("a"), "old");
  assert_true(names() <= 2); /* 1 where the file system has unnamed files */
}

/* ---- many at once -------------------------------------------------------------------------- */

/* Ends the process, which may be a child, where a call fails. */
#define NEED(call)                                        \
  do {                                                    \
    if ((call) != KD_OK) {                                \
      fprintf(stderr, "%s: %s\n", #call, keel_message()); \
      _exit(99);                                          \
    }                                                     \
  } while (0)

static keel_context *open_cpu(void) {
  const char *path = CPU_PLUGIN;
  keel_context *context = NULL;
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, &path, 1, .workers = KEEL_NO_WORKERS);
  NEED(keel_open(&params, &context));
  return context;
}

/* y = x + `value`, of `rows` rows. */
static keel_program *make(keel_context *context, int64_t rows, float value) {
  const int64_t dims[] = {rows, 64};
  keel_builder *builder = NULL;
  keel_program *program = NULL;
  keel_tensor *all = NULL;
  NEED(keel_builder_create(context, "p", &builder));
  NEED(keel_tensor_fill(context, NULL, KD_F32, 2, dims, &value, &all));
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, dims);
  keel_builder_output(builder, "y",
                      op(builder, "Add", x, constant_of(builder, all)));
  NEED(keel_builder_finish(builder, &program));
  keel_builder_destroy(builder);
  return program;
}

/* KEEL_STRESS: how often each writer saves; 20,000 take about a minute. */
static long rounds(void) {
  const char *wanted = getenv("KEEL_STRESS");
  return wanted ? strtol(wanted, NULL, 10) : 300;
}

static int write_often(const char *path, int64_t rows, float value) {
  keel_context *context = open_cpu();
  keel_program *program = make(context, rows, value);
  for (long i = 0; i < rounds(); i++)
    NEED(keel_program_save(program, path, 0));
  RELEASE(program, context);
  return 0;
}

/* Whether what is loaded is one of the two programs, whole. */
static bool is_whole(keel_context *context, const char *path) {
  static float sums[4000 * 64];
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_tensor *in = NULL, *out = NULL;
  keel_port port;
  NEED(keel_program_load(context, path, &program));
  NEED(keel_program_input(program, 0, &port));
  const int64_t dims[] = {port.dims[0], 64};
  float want = dims[0] == 4000 ? 2 : 1, none = 0;
  NEED(keel_plan_create(program, NULL, &plan));
  NEED(keel_tensor_fill(context, NULL, KD_F32, 2, dims, &none, &in));
  NEED(keel_plan_run(plan, &in, 1, &out, 1));
  NEED(keel_tensor_read(out, sums, keel_tensor_size(out)));
  bool same = true;
  for (int64_t i = 0; i < 64 * dims[0]; i++)
    same &= sums[i] == want;
  RELEASE(in, out, plan, program);
  return same;
}

static int read_often(const char *path) {
  keel_context *context = open_cpu();
  bool whole = true;
  for (long i = 0; i < rounds(); i++)
    whole &= is_whole(context, path);
  keel_close(context);
  return !whole;
}

TEST_THAT(two_write_and_three_read) {
  pid_t children[5];
  char path[400];
  int status = 0;
  snprintf(path, sizeof path, "%s/program", folder);
  keel_context *context = open_cpu();
  keel_program *program = make(context, 1000, 1);
  expect_ok(keel_program_save(program, path, 0));
  RELEASE(program, context);
  for (int i = 0; i < 5; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (!children[i])
      _exit(i < 2 ? write_often(path, i ? 4000 : 1000, i ? 2 : 1)
                  : read_often(path));
  }
  for (int i = 0; i < 5; i++) {
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(names(), 1);
}

static keel_program *shared;

static void *save_often(void *path) {
  size_t failed = 0;
  for (int i = 0; i < 100; i++)
    failed += keel_program_save(shared, path, 0) != KD_OK;
  return (void *)failed;
}

TEST_THAT(two_threads_save_one_program) {
  pthread_t threads[2];
  char path[400];
  keel_context *context = open_cpu();
  snprintf(path, sizeof path, "%s/program", folder);
  shared = make(context, 1000, 1);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, save_often, path), 0);
  for (int i = 0; i < 2; i++) {
    void *failed = NULL;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  assert_true(is_whole(context, path));
  RELEASE(shared, context);
}

SETUP(set_up) {
  return mkdtemp(folder) ? 0 : -1;
}

SETUP(tear_down) {
  return rmdir(folder);
}

int main(void) {
  around_each(NULL, clear);
  return tests_run(set_up, tear_down);
}
