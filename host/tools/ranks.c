/* ranks.c - starts ranks, and is one: rank 0 prints, and an error is printed once. */
#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "system/environment.h"
#include "system/printable.h"
#include "system/save.h"

/* Launchers, the best first, and what they need where ranks are more than cores. Threads of a rank
 * share the work, so it is not bound to a single core; and Keel reports errors itself. */
static const struct {
  const char *program, *crowded, *always[3];
} launchers[] = {
    {"mpirun.openmpi", "--oversubscribe", {"--quiet", "--bind-to", "none"}},
    {"mpiexec.mpich", NULL, {NULL}},
    {"mpirun", NULL, {NULL}},
    {"mpiexec", NULL, {NULL}}};

/* Where the others' words go. */
static int own_error = -1, kept = -1;

static keel_link *joined; /* to the others; NULL: not yet, or not any more */

bool ranks_launched(void) {
  return keel_link_launched() > 0;
}

/* ---- starting --------------------------------------------------------------------------- */

char **ranks_words(int argc, char **argv) {
  char **words = calloc((size_t)argc + 1, sizeof *words);
  if (!words) fprintf(stderr, "keel run: no memory\n");
  for (int i = 0; words && i < argc; i++)
    words[i] = argv[i];
  return words;
}

/* LAUNCHER OPTIONS -n COUNT PROGRAM run WORDS; the caller frees it. */
static char **command_line(size_t index, const char *count, const char *self,
                           char *const *words) {
  size_t length = 0;
  while (words[length])
    length++;
  const char **line = calloc(length + 10, sizeof *line), **at = line;
  if (!line) return NULL;
  bool crowded = strtol(count, NULL, 10) > sysconf(_SC_NPROCESSORS_ONLN);
  *at++ = launchers[index].program;
  for (int k = 0; k < 3 && launchers[index].always[k]; k++)
    *at++ = launchers[index].always[k];
  if (launchers[index].crowded && crowded) *at++ = launchers[index].crowded;
  *at++ = "-n";
  *at++ = count;
  *at++ = self;
  *at++ = "run";
  while (*words)
    *at++ = *words++;
  return (char **)(uintptr_t)line;
}

static volatile pid_t launcher;

static void ranks_pass_on(int number) {
  if (launcher > 0) kill(launcher, number);
}

/* A signal that ends this process ends the launcher. The terminal interrupts both. */
static void pass_signals_on(void) {
  const struct sigaction pass = {.sa_handler = ranks_pass_on};
  const struct sigaction none = {.sa_handler = SIG_IGN};
  sigaction(SIGTERM, &pass, NULL);
  sigaction(SIGHUP, &pass, NULL);
  sigaction(SIGINT, &none, NULL);
  sigaction(SIGQUIT, &none, NULL);
}

/* Starts it. Returns 0, or errno. */
static int ranks_start(char *const *line) {
  int answer[2], error = 0;
  if (pipe2(answer, O_CLOEXEC) != 0) return errno;
  launcher = fork();
  if (!launcher) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execvp(line[0], line);
    error = errno;
    _exit(write(answer[1], &error, sizeof error) < 0);
  }
  if (launcher < 0) error = errno;
  close(answer[1]);
  if (read(answer[0], &error, sizeof error) > 0) waitpid(launcher, NULL, 0);
  close(answer[0]);
  return error;
}

/* Until the launcher has ended. Launchers run in quiet mode, as ranks report their errors
 * themselves; a killed rank can't. Returns the exit status. */
static int wait_for_launcher(void) {
  int result = 0;
  pass_signals_on();
  while (waitpid(launcher, &result, 0) < 0 && errno == EINTR)
    ;
  int status = WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result);
  if (status > 128)
    fprintf(stderr,
            "keel run: --np: a rank was killed by signal %d (%s), and so all"
            " ranks have ended\n",
            status - 128, strsignal(status - 128));
  return status;
}

int ranks_launch(uint64_t count, char *const *words) {
  char number[24], self[4096];
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  self[size > 0 ? size : 0] = 0;
  snprintf(number, sizeof number, "%llu", (unsigned long long)count);
  fflush(stdout);
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    char **line = command_line(i, number, self, words);
    int error = line ? ranks_start(line) : ENOMEM;
    free(line);
    if (!error) return wait_for_launcher();
    if (error == ENOENT) continue;
    fprintf(stderr, "keel run: --np: %s can't be started: %s\n",
            launchers[i].program, strerror(error));
    return 1;
  }
  fprintf(
      stderr,
      "keel run: --np: there is no mpirun; install Open MPI (openmpi-bin) or"
      " MPICH (mpich)\n");
  return 1;
}

/* ---- one rank ----------------------------------------------------------------------------- */

/* By the launcher's variables: MPI is not open yet. */
static long launched_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                      "PMI_ID", "PMIX_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (keel_environment(names[i]))
      return strtol(keel_environment(names[i]), NULL, 10);
  return 0;
}

/* All but rank 0 print nothing, but keep what they would. */
static void be_silent(void) {
  if (!launched_rank()) return;
  int nowhere = open("/dev/null", O_WRONLY);
  kept = memfd_create("words", MFD_CLOEXEC);
  own_error = dup(STDERR_FILENO);
  if (nowhere < 0 || kept < 0 || own_error < 0) return;
  fflush(stdout);
  dup2(nowhere, STDOUT_FILENO);
  dup2(kept, STDERR_FILENO);
  close(nowhere);
}

/* The text that this rank would have printed; the caller frees it. */
static char *kept_words(void) {
  off_t size = kept >= 0 ? lseek(kept, 0, SEEK_END) : 0;
  char *text = calloc((size_t)(size > 0 ? size : 0) + 1, 1);
  if (text && size > 0 && pread(kept, text, (size_t)size, 0) == size &&
      text[size - 1] == '\n')
    text[size - 1] = 0;
  return text;
}

/* Without a link: rank 0 may be the missing one. If it is there, it ends, and the others with it,
 * before they print. */
static void speak_after_rank_0(void) {
  if (own_error < 0) return;
  fflush(stderr);
  sleep(3);
  char *words = kept_words();
  dup2(own_error, STDERR_FILENO);
  if (words) fprintf(stderr, "rank %ld: %s\n", launched_rank(), words);
  free(words);
}

keel_link *ranks_join(keel_context *context, uint64_t timeout) {
  const keel_link_params params = {.struct_size = sizeof params,
                                   .timeout = timeout * 1000000};
  keel_link *link = NULL;
  be_silent();
  keel_status status = keel_link_open(context, &params, &link);
  if (status != KD_OK) complain();
  if (status == KD_DEADLINE_EXCEEDED) speak_after_rank_0();
  joined = link;
  return link;
}

keel_status ranks_device(keel_link *link, keel_context *context,
                         const char *name, keel_device **out_device) {
  keel_link_facts facts;
  char own[256];
  keel_link_look(link, &facts);
  if (name && !strchr(name, ':')) {
    snprintf(own, sizeof own, "%s:%u", name, (unsigned)facts.local_rank);
    if (keel_device_find(context, own, out_device) == KD_OK) return KD_OK;
  }
  return keel_device_find(context, name, out_device);
}

int ranks_end(keel_link *link, int result) {
  fflush(stderr);
  char *words = result ? kept_words() : NULL;
  if (own_error >= 0) dup2(own_error, STDERR_FILENO);
  if (link && result) keel_link_abort(link, result, words);
  free(words);
  joined = NULL;
  keel_link_close(link);
  return result;
}

void ranks_give_up(int result) {
  ranks_end(joined, result);
  _exit(result);
}

/* ---- a trace of all ---------------------------------------------------------------------- */

#define ROOM_MOST (64u << 20) /* bytes gathered at once, of all ranks */

/* A rank's facts of its trace: when it began, its machine's clock, which clock that is, and the
 * trace's length. */
typedef struct traced {
  uint64_t began, now, size;
  char kernel[64];
} traced;

/* The kernel whose CLOCK_MONOTONIC this is, by the number that it has since it was booted. Where
 * that can't be read, the clock counts as the rank's own. */
static void find_kernel(uint32_t rank, char *text, size_t size) {
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (!file || !fgets(text, (int)size, file))
    snprintf(text, size, "of rank %u", (unsigned)rank);
  if (file) fclose(file);
}

static uint64_t clock_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* How far a rank's clock is ahead of rank 0's, which it may share. */
static int64_t ahead(const traced *all, uint32_t rank) {
  return strcmp(all[rank].kernel, all[0].kernel)
             ? (int64_t)(all[rank].now - all[0].now)
             : 0;
}

/* The first beginning of all, by this rank's clock. */
static uint64_t origin_of(const traced *all, uint32_t size, uint32_t rank) {
  int64_t first = INT64_MAX;
  for (uint32_t i = 0; i < size; i++) {
    int64_t began = (int64_t)all[i].began - ahead(all, i);
    if (began < first) first = began;
  }
  return (uint64_t)(first + ahead(all, rank));
}

/* Gathers a piece of each rank's file; rank 0 puts it behind what it has of that rank. */
static keel_status gather_piece(keel_link *link, FILE *own, FILE **files,
                                uint32_t size, size_t piece) {
  char *mine = calloc(piece, 1), *all = calloc(size, piece);
  keel_status status = mine && all ? KD_OK : KD_OUT_OF_MEMORY;
  if (status == KD_OK) {
    size_t got = fread(mine, 1, piece, own);
    (void)got; /* the end is zeros */
    status = keel_link_gather(link, mine, piece, all);
  }
  for (uint32_t i = 0; files && i < size && status == KD_OK; i++)
    fwrite(all + i * piece, 1, piece, files[i]);
  free(mine);
  free(all);
  return status;
}

/* The parts, one behind the other, without the zeros at their ends. */
static bool write_parts(const char *path, FILE **files, const traced *all,
                        uint32_t size) {
  keel_save save;
  if (!keel_save_begin(&save, path, 0666)) return false;
  FILE *to = save.file;
  fprintf(
      to,
      "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,"
      "\"name\":\"process_name\",\"args\":{\"name\":\"ranks\"}}");
  for (uint32_t i = 0; i < size; i++) {
    rewind(files[i]);
    for (uint64_t left = all[i].size; left;) {
      char bytes[1 << 14];
      size_t want = left < sizeof bytes ? (size_t)left : sizeof bytes;
      size_t got = fread(bytes, 1, want, files[i]);
      if (!got) break;
      fwrite(bytes, 1, got, to);
      left -= got;
    }
  }
  fprintf(to, "\n]}\n");
  return keel_save_end(&save, true);
}

/* Brings all ranks' files to rank 0. */
static int merge(keel_link *link, FILE *own, const traced *all, uint32_t size,
                 bool writes, const char *path) {
  uint64_t longest = 0;
  keel_status status = KD_OK;
  FILE **files = writes ? calloc(size, sizeof *files) : NULL;
  bool good = !writes || files;
  for (uint32_t i = 0; i < size; i++) {
    if (all[i].size > longest) longest = all[i].size;
    if (files) good &= (files[i] = tmpfile()) != NULL;
  }
  size_t piece = ROOM_MOST / size;
  if (piece > longest) piece = (size_t)longest;
  for (uint64_t done = 0; done < longest && status == KD_OK && good;
       done += piece)
    status = gather_piece(link, own, files, size, piece);
  int result = status == KD_OK ? 0 : complain();
  if (writes && !result && (!good || !write_parts(path, files, all, size))) {
    fprintf(stderr, "keel run: --trace: %s: %s\n", path, strerror(errno));
    result = 1;
  }
  for (uint32_t i = 0; files && i < size; i++)
    if (files[i]) fclose(files[i]);
  free(files);
  return result;
}

int ranks_trace(keel_link *link, keel_context *context, uint64_t began,
                const char *path) {
  keel_link_facts facts;
  keel_link_look(link, &facts);
  char name[] = "/tmp/keel-trace-XXXXXX", byte = 0, bytes[1024];
  traced own = {.began = began};
  traced *all = calloc(facts.size, sizeof *all);
  int file = mkstemp(name);
  find_kernel(facts.rank, own.kernel, sizeof own.kernel);
  int result = all && file >= 0 && facts.size <= sizeof bytes ? 0 : 1;
  if (result) fprintf(stderr, "keel run: --trace: %s\n", strerror(errno));
  if (!result && keel_link_gather(link, &byte, 1, bytes) != KD_OK)
    result = complain();
  own.now = clock_now(); /* all are here at about one time */
  if (!result && keel_link_gather(link, &own, sizeof own, all) != KD_OK)
    result = complain();
  const keel_trace_part part = {
      .struct_size = sizeof part,
      .rank = facts.rank,
      .origin = result ? began : origin_of(all, facts.size, facts.rank)};
  if (!result && keel_trace_stop_part(context, &part, name) != KD_OK)
    result = complain();
  if (file >= 0) close(file);
  FILE *written = result ? NULL : fopen(name, "r");
  if (!result && !written) {
    fprintf(stderr, "keel run: --trace: %s: %s\n", name, strerror(errno));
    result = 1;
  }
  if (written && fseek(written, 0, SEEK_END) == 0) {
    own.size = (uint64_t)ftell(written);
    rewind(written);
  }
  if (!result && keel_link_gather(link, &own, sizeof own, all) != KD_OK)
    result = complain();
  if (!result && written)
    result = merge(link, written, all, facts.size, !facts.rank, path);
  if (written) fclose(written);
  if (file >= 0) unlink(name);
  free(all);
  return result;
}

void ranks_alone(const char *model) {
  if (keel_link_launched() > 1 && !launched_rank())
    fprintf(stderr,
            "keel run: %s has no exchanges: each of the launcher's %u "
            "processes runs all of it by itself\n",
            model, (unsigned)keel_link_launched());
}

void ranks_print(keel_link *link, bool json) {
  keel_link_facts facts;
  if (!link) return;
  keel_link_look(link, &facts);
  if (json) {
    printf(", \"ranks\": {\"count\": %u, \"library\": ", (unsigned)facts.size);
    keel_write_json(stdout, facts.library);
    printf(
        ", \"exchanges\": %llu, \"direct\": %llu, \"levels\": %llu,"
        " \"pieces\": %llu,"
        " \"bytes\": %llu, \"waited_ns\": %llu}",
        (unsigned long long)facts.exchanges, (unsigned long long)facts.direct,
        (unsigned long long)facts.levels, (unsigned long long)facts.pieces,
        (unsigned long long)facts.bytes, (unsigned long long)facts.waited);
    return;
  }
  printf("%u ranks by %s: %llu exchanges of %.1f MiB, %.3f ms under way",
         (unsigned)facts.size, shown(facts.library),
         (unsigned long long)facts.exchanges, (double)facts.bytes / (1u << 20),
         (double)facts.waited * 1e-6);
  if (facts.direct + facts.levels)
    printf("; %llu from device to device, %llu hierarchical",
           (unsigned long long)facts.direct, (unsigned long long)facts.levels);
  printf("\n");
}
