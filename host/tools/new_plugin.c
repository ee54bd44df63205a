/* new_plugin.c - `keel new-plugin`: a plugin's project, from the samples that are templates.
 *
 * In a template, "newdev" (in minimal.c "minimal") stands for the plugin's name. Lines from
 * "level N" to "end", each a C comment of its own, are for that level and those above it.
 * Words between @ are replaced (see word_of). */
#include <ctype.h>
#include <errno.h>
#include <sys/stat.h>

#include "embedded.h"
#include "system/save.h"
#include "tool.h"

#define LEVELS 4

static const char *const level_names[LEVELS] = {"core", "async", "replay",
                                                "compile"};

/* Which template becomes which file, from which level up to which. */
static const struct {
  const char *from, *to; /* to: "newdev" stands for the name */
  int least, most;
  const char *about; /* NULL: not in README.md */
} files[] = {
    {"minimal.c", "newdev.c", 0, 0, "device, memory, ops, table"},
    {"newdev.h", "newdev.h", 1, 3, "what the files share"},
    {"plugin.c", "plugin.c", 1, 3, "device, memory, the plugin's table"},
    {"kernels.c", "kernels.c", 1, 3, "the ops"},
    {"stream.c", "stream.c", 1, 3, "streams and events (level 1)"},
    {"capture.c", "capture.c", 2, 3, "recordings (level 2)"},
    {"region.c", "region.c", 3, 3, "a compiler of chains of ops (level 3)"},
    {"CMakeLists.txt", "CMakeLists.txt", 0, 3, NULL},
    {"README.md", "README.md", 0, 3, NULL},
    {"gitignore", ".gitignore", 0, 3, NULL},
    {"github.yml", ".github/workflows/conformance.yml", 0, 3, NULL},
    {"gitlab-ci.yml", ".gitlab-ci.yml", 0, 3, NULL},
};
#define FILES (sizeof files / sizeof *files)

typedef struct arguments {
  common common;
  operands words;
  uint64_t level;
  const char *out;
} arguments;

static arguments given = {.common = {.command = "new-plugin", .plain = true}};

static const option options[] = {
    {"--level", "N",
     "what the device can do (0):\n"
     "0 memory and kernels, 1 streams and events,\n"
     "2 recordings, 3 a compiler of its own",
     .count = &given.level, .most = LEVELS - 1},
    {"--out", "DIR", "where to write it (./NAME)", .text = &given.out},
    {0}};

static const command syntax = {
    "usage: keel new-plugin NAME [--level N] [--out DIR]\n\n"
    "Writes a plugin's project: sources of a device that is conformant at "
    "that\n"
    "level as it is, CMakeLists.txt with the conformance suite as its test, "
    "CI\n"
    "for GitHub and GitLab, and a README. NAME is the plugin's name: it "
    "begins\n"
    "with a letter, and has at most 32 small letters, digits, - and _.\n\n",
    options, &given.common, &given.words, false};

/* ---- names ---------------------------------------------------------------- */

static bool check_name(const char *name) {
  size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");
  /* types and functions of the headers begin with these; CMake has targets of these names */
  static const char *const others[] = {
      "kd",      "keel",    "pthread", "test",       "all",          "clean",
      "install", "package", "help",    "edit_cache", "rebuild_cache"};
  if (!islower((unsigned char)name[0]) || name[size] || size > 32) {
    usage_error("new-plugin",
                "\"%s\" is not a plugin name: it begins with a letter, and has"
                " at most 32 small letters, digits, - and _",
                name);
    return false;
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strcmp(name, others[i])) {
      usage_error("new-plugin", "\"%s\" is reserved by the headers or by CMake",
                  name);
      return false;
    }
  return true;
}

/* The name as it is, or as a part of C's names: with _ for -, in capitals. */
static void write_name(FILE *out, const char *name, bool in_c, bool capital) {
  for (; *name; name++) {
    int letter = in_c && *name == '-' ? '_' : *name;
    fputc(capital ? toupper(letter) : letter, out);
  }
}

/* ---- templates ------------------------------------------------------------ */

static const char *text_of(const char *name) {
  for (const embedded *at = templates; at->name; at++)
    if (!strcmp(at->name, name)) return at->text;
  return "";
}

static bool is_of_level(size_t file) {
  return (uint64_t)files[file].least <= given.level &&
         given.level <= (uint64_t)files[file].most;
}

static void write_path(FILE *out, const char *path) {
  bool named = !strncmp(path, "newdev", 6);
  if (named) write_name(out, given.words.words[0], false, false);
  fputs(named ? path + 6 : path, out);
}

/* The plugin's sources: for CMake, or as a table. */
static void write_files(FILE *out, bool table) {
  if (table) fputs("| file | contents |\n| --- | --- |\n", out);
  const char *between = "";
  for (size_t i = 0; i < FILES; i++) {
    const char *dot = strrchr(files[i].to, '.');
    if (!files[i].about || !is_of_level(i)) continue;
    if (!table && strcmp(dot, ".c") != 0) continue;
    fputs(table ? "| `" : between, out);
    write_path(out, files[i].to);
    if (table) fprintf(out, "` | %s |\n", files[i].about);
    between = " ";
  }
}

/* Writes what stands for a word between @. Returns its size; 0: it is none. */
static size_t write_word(FILE *out, const char *at) {
  uint64_t level = given.level;
  if (!strncmp(at, "@SOURCES@", 9)) return write_files(out, false), 9;
  if (!strncmp(at, "@FILES@", 7)) return write_files(out, true), 7;
  if (!strncmp(at, "@LEVEL_NAME@", 12))
    return fputs(level_names[level], out), 12;
  if (!strncmp(at, "@LEVEL@", 7)) return fprintf(out, "%u", (unsigned)level), 7;
  if (strncmp(at, "@NEXT@", 6) != 0) return 0;
  fputs("Next come the ops that your models have: `keel ops` lists Keel's.",
        out);
  if (level + 1 < LEVELS)
    fprintf(out,
            " Then the next level:\n"
            "`keel new-plugin %s --level %u --out elsewhere`, and compare.",
            given.words.words[0], (unsigned)level + 1);
  return 6;
}

/* Whether a line is a mark, and from what level on the lines behind it are taken. */
static bool is_mark(const char *line, size_t size, uint64_t *out_level) {
  char text[24] = "";
  line += strspn(line, " ");
  if (size < sizeof text) memcpy(text, line, strcspn(line, "\n"));
  if (!strcmp(text, "/* end */")) return *out_level = 0, true;
  if (strncmp(text, "/* level ", 9) != 0) return false;
  return *out_level = strtoull(text + 9, NULL, 10), true;
}

/* Where the template begins: minimal.c has a comment of its own about how to build it. */
static const char *new_plugin_begin_of(const char *from, FILE *out) {
  const char *text = text_of(from);
  if (strcmp(from, "minimal.c") != 0) return text;
  fputs("/* ", out);
  write_name(out, given.words.words[0], false, false);
  fputs(".c - a whole plugin: one device, host memory, three ops on f32. */\n",
        out);
  const char *end = strstr(text, "*/\n");
  return end ? end + 3 : text;
}

static void write_text(FILE *out, const char *from) {
  bool plain = strcmp(from, "minimal.c") != 0;
  const char *name = plain ? "newdev" : "minimal";
  const char *capitals = plain ? "NEWDEV" : "MINIMAL";
  const char *title = plain ? "Newdev" : "Minimal";
  size_t size = strlen(name);
  uint64_t level = 0;
  bool in_c = strstr(from, ".c") || strstr(from, ".h");
  for (const char *at = new_plugin_begin_of(from, out); *at;) {
    size_t line = strcspn(at, "\n") + 1;
    if (is_mark(at, line, &level) || level > given.level) {
      at += line;
      continue;
    }
    for (const char *end = at + line; at < end;) {
      size_t word = *at == '@' ? write_word(out, at) : 0;
      bool capital = !strncmp(at, capitals, size);
      /* within a string or a comment it is the name; before a _ a part of C's */
      if (!word && (capital || !strncmp(at, name, size))) {
        bool part = in_c && (at[size] == '_' || capital);
        write_name(out, given.words.words[0], part, capital);
        word = size;
      } else if (!word && !strncmp(at, title, size)) {
        fputc(toupper(given.words.words[0][0]), out);
        write_name(out, given.words.words[0] + 1, false, false);
        word = size;
      }
      if (!word) fputc(*at, out), word = 1;
      at += word;
    }
  }
}

/* ---- files ---------------------------------------------------------------- */

static int new_plugin_failed(const char *what, const char *path) {
  fprintf(stderr, "keel new-plugin: can't %s %s: %s\n", what, path,
          strerror(errno));
  return 1;
}

/* Makes the folders of a path that are not there, up to its last '/'. */
static int make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash;
       slash = strchr(slash + 1, '/')) {
    *slash = 0;
    int made = mkdir(path, 0777);
    int status = made && errno != EEXIST
                     ? new_plugin_failed("make the folder", path)
                     : 0;
    *slash = '/';
    if (status) return status;
  }
  return 0;
}

static int write_file(const char *folder, size_t file) {
  char *path = NULL;
  size_t size = 0;
  FILE *text = open_memstream(&path, &size);
  if (!text) return new_plugin_failed("write in", folder);
  fprintf(text, "%s/", folder);
  write_path(text, files[file].to);
  fclose(text);
  int status = make_folders(path);
  keel_save save;
  if (!status && !keel_save_begin(&save, path, 0666)) {
    status = new_plugin_failed("write", path);
  } else if (!status) {
    write_text(save.file, files[file].from);
    if (!keel_save_end(&save, true)) status = new_plugin_failed("write", path);
  }
  free(path);
  return status;
}

int keel_main_new_plugin(int argc, char **argv) {
  int result = options_read(&syntax, argc, argv);
  struct stat there;
  if (result >= 0) return result;
  if (given.words.count != 1)
    return usage_error("new-plugin", "give the plugin's name, and one only");
  if (!check_name(given.words.words[0])) return EXIT_USAGE;
  const char *folder = given.out ? given.out : given.words.words[0];
  if (lstat(folder, &there) == 0) {
    fprintf(stderr,
            "keel new-plugin: %s is there already; name another folder by"
            " --out\n",
            folder);
    return 1;
  }
  for (size_t i = 0; i < FILES && result <= 0; i++)
    if (is_of_level(i)) result = write_file(folder, i);
  if (result > 0) return result;
  printf(
      "%s: a plugin of level %u (%s); next:\n\n"
      "  cmake -S %s -B %s/build\n"
      "  cmake --build %s/build\n"
      "  ctest --test-dir %s/build --output-on-failure\n",
      folder, (unsigned)given.level, level_names[given.level], folder, folder,
      folder, folder);
  return 0;
}
