/* tasks.c - the threads of this process: which there are, and whose code they run. */
#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rules/rules.h"

kc_tasks kc_tasks_now(void) {
  kc_tasks now = {.count = 0};
  DIR *folder = opendir("/proc/self/task");
  struct dirent *entry = NULL;
  while (folder && (entry = readdir(folder)) && now.count < KC_TASKS)
    if (entry->d_name[0] != '.')
      now.ids[now.count++] = (int)strtol(entry->d_name, NULL, 10);
  if (folder) closedir(folder);
  return now;
}

static bool is_of(const kc_tasks *tasks, int id) {
  for (uint32_t i = 0; i < tasks->count; i++)
    if (tasks->ids[i] == id) return true;
  return false;
}

/* The first line of a file of /proc/self/task; "" where there is none. */
static void read_line(int id, const char *name, char *out, size_t capacity) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/%s", id, name);
  FILE *file = fopen(path, "re");
  if (!file || !fgets(out, (int)capacity, file)) out[0] = 0;
  if (file) fclose(file);
  out[strcspn(out, "\n")] = 0;
}

/* The mapping that an address lies in, and the file that is mapped there. */
typedef struct mapping {
  uintptr_t begin, end;
  bool code;
  char file[PATH_MAX];
} mapping;

static bool find_mapping(uintptr_t address, mapping *out) {
  char line[PATH_MAX + 128];
  bool found = false;
  FILE *file = fopen("/proc/self/maps", "re");
  while (file && !found && fgets(line, sizeof line, file)) {
    /* BEGIN-END FLAGS OFFSET DEVICE INODE FILE, in proc_pid_maps(5) */
    char *at = NULL;
    out->begin = strtoul(line, &at, 16);
    if (*at != '-') continue;
    out->end = strtoul(at + 1, &at, 16);
    found = address >= out->begin && address < out->end;
    out->code = strcspn(at, "x") < strlen(" rwx");
    line[strcspn(line, "\n")] = 0;
    at = strchr(at, '/');
    snprintf(out->file, sizeof out->file, "%s", at ? at : "");
  }
  if (file) fclose(file);
  return found;
}

/* The thread may end meanwhile, and its stack go. */
static bool peek(uintptr_t address, void *out, size_t size) {
  struct iovec here = {out, size}, there = {(void *)address, size};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

/* Above the stack lie the C library's notes of the thread: the function that it began
 * with, and the argument. An object of libstdc++'s threads leads to who made it. */
static bool began_in(int id, mapping *out) {
  enum { WORDS = 512 };
  static uintptr_t words[WORDS];
  char line[256];
  uintptr_t object = 0, table = 0;
  mapping stack;
  read_line(id, "syscall", line, sizeof line);
  /* the last but one word, in proc_pid_syscall(5); "running" has none */
  char *pc = strrchr(line, ' ');
  if (!pc) return false;
  *pc = 0;
  char *last = strrchr(line, ' ');
  if (!last) return false;
  uintptr_t sp = strtoul(last, NULL, 16);
  if (!find_mapping(sp, &stack)) return false;
  uintptr_t from = stack.end - sizeof words;
  if (from < sp || !peek(from, words, sizeof words)) return false;
  for (int i = WORDS - 2; i >= 0; i--) {
    if (words[i] < 65536 || !find_mapping(words[i], out) || !out->code ||
        out->file[0] != '/' || strstr(out->file, "/libc.so") ||
        strstr(out->file, "/ld-"))
      continue;
    object = words[i + 1];
    if (strstr(out->file, "/libstdc++") && peek(object, &table, sizeof table))
      find_mapping(table, out);
    return true;
  }
  return false;
}

/* The threads that are not known: their names, how many, and how many of those that can't
 * be told yet, as they don't wait for anything; with `own` of the plugin's library alone. */
static uint32_t others(const kc_tasks *known, bool own, char *out_names,
                       size_t capacity, uint32_t *out_untold) {
  static mapping start;
  char name[64], plugin[PATH_MAX];
  uint32_t count = 0;
  size_t used = 0;
  const kc_tasks now = kc_tasks_now();
  out_names[0] = 0;
  *out_untold = 0;
  if (!realpath(kc.plugin, plugin)) plugin[0] = 0;
  for (uint32_t i = 0; i < now.count; i++) {
    if (is_of(known, now.ids[i])) continue;
    bool told = began_in(now.ids[i], &start);
    read_line(now.ids[i], "comm", name, sizeof name);
    if (name[0]) *out_untold += own && !told;
    if (!name[0] || (own && (!told || strcmp(start.file, plugin) != 0)))
      continue;
    if (used < capacity)
      used += (size_t)snprintf(
          out_names + used, capacity - used, "%s\"%s\"%s%s", count ? ", " : "",
          name, told ? ", begun in " : "", told ? basename(start.file) : "");
    count++;
  }
  return count;
}

/* One that was joined is listed until the kernel is done with it. */
static bool ended(const kc_tasks *known, bool own, uint32_t most,
                  char *out_names, size_t capacity) {
  uint32_t count = 0, untold = 0;
  for (int i = 0; i < 200; i++) {
    count = others(known, own, out_names, capacity, &untold);
    if (count <= most && !untold) break;
    kc_sleep(10 * KC_MS);
    kc_beat();
  }
  return count <= most;
}

bool kc_tasks_ended(const kc_tasks *known, char *out_names, size_t capacity) {
  return ended(known, true, 0, out_names, capacity);
}

bool kc_tasks_few(const kc_tasks *known, uint32_t most, char *out_names,
                  size_t capacity) {
  return ended(known, false, most, out_names, capacity);
}
